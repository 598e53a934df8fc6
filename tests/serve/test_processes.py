"""Several worker processes, restarts and a graceful stop, over one data folder."""

import json
import os
import subprocess
import sys
import urllib.request
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from helpers.ports import free_port
from helpers.waiting import until
from serve.running import KEY, Running

import lim2
from lim2.serve.catalog import FileCatalog

MANY = 40  # connections, of which each of two processes gets some
ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}


def test_several_processes_share_the_logs_and_one_learns(tmp_path: Path) -> None:
    with Running(tmp_path / "data", workers=2, poll=0.05, synchronous="normal") as server:
        assert server.call("PUT", "/v1/bandits/shop", {})[0] == 201
        for number in range(60):
            made = server.call("POST", "/v1/bandits/shop/decide", {"items": ITEMS, "id": f"d{number}"})
            assert made[0] == 200, made
            assert server.call("POST", "/v1/bandits/shop/decide", {"items": ITEMS, "id": f"d{number}"}) == made
            reward = {"id": f"d{number}", "reward": float(made[1]["arm"] == "a")}
            assert server.call("POST", "/v1/bandits/shop/reward", reward)[1] == {"status": "recorded"}

        def answers(bandit: str, key: str) -> list[Any]:
            """Return what the processes know: each connection goes to one of them, so that both are met."""
            return [server.call("GET", f"/v1/bandits/{bandit}")[1][key] for _ in range(MANY)]

        until(lambda: answers("shop", "rounds") == [60] * MANY, "both know what was learned")
        assert answers("shop", "leads") == [True] * MANY
        assert 'lim2_decisions_total{bandit="shop"} 60.0' in server.call("GET", "/metrics")[1].decode()
        assert server.call("PUT", "/v1/bandits/banner", {"arms": ["a"], "algorithm": "LinearTS"})[0] == 201
        added = [f"arm {number}" for number in range(8)]  # by whichever process is asked
        for arm in added:
            assert server.call("POST", "/v1/bandits/banner/arms", {"name": arm})[0] == 201
        until(lambda: answers("banner", "arms") == [["a", *added]] * MANY, "both know the arms")
        assert server.call("DELETE", "/v1/bandits/shop")[0] == 204
        assert {server.call("GET", "/v1/bandits/shop")[0] for _ in range(MANY)} == {404}  # whichever process is asked
        server.kill()
        until(lambda: is_free(tmp_path / "data"), "the workers of a process that was killed end as well")


def is_free(data: Path) -> bool:
    """Return whether no process uses a folder."""
    try:
        FileCatalog(data, alone=True).close()
    except ValueError:
        return False
    return True


def test_a_stop_in_good_order_loses_nothing_and_a_start_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Running(data) as server:
        server.call("PUT", "/v1/bandits/shop", {"seed": 3})
        for number in range(20):
            server.call("POST", "/v1/bandits/shop/decide", {"items": ITEMS, "id": f"d{number}"})
            server.call("POST", "/v1/bandits/shop/reward", {"id": f"d{number}", "reward": number / 20})
        until(lambda: server.call("GET", "/v1/bandits/shop")[1]["rounds"] == 20, "all is learned")
    with lim2.DecisionLog(data / "bandits/shop/log.db") as log:
        model = log.model()
        assert model is not None
        assert model.position == log.position == 20  # what was learned was published
    with Running(data) as server:
        own = server.call("GET", "/v1/bandits/shop")[1]
        assert (own["rounds"], own["lag"], own["decisions"]) == (20, 0, 20)


def test_a_key_is_made_and_kept_for_its_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Running(data, api_key="another-key-for-it") as server:
        assert server.call("GET", "/v1/bandits")[0] == 401
        assert server.call("GET", "/v1/bandits", key="another-key-for-it")[0] == 200
        assert not (data / "api-key").exists()


def test_metrics_have_a_port_of_their_own_and_logs_are_json(tmp_path: Path) -> None:
    free = free_port()
    running = Running(tmp_path / "data", metrics="off", metrics_port=free, log_format="json", access_log="true")
    paths = ("/metrics", "/v1/bandits/personalizer/decisions/a%0Db", "/nowhere%0A")
    with running as server:
        with urllib.request.urlopen(f"http://{server.host}:{free}/metrics") as answer:
            assert b"lim2_requests_total" in answer.read()
        for path in paths:
            assert server.call("GET", path)[0] == 404
    lines = [json.loads(line) for line in running.errors.read_text().splitlines()]
    assert {"time", "level", "logger", "message", "process"} <= set(lines[0])
    start = next(line for line in lines if line["message"] == "started")
    assert (start["version"], start["address"]) == (lim2.__version__, f"{server.host}:{server.port}")
    assert start["settings"]["metrics_port"] == free and start["settings"]["api_key"] == 1
    assert KEY not in running.errors.read_text()
    assert datetime.fromisoformat(lines[0]["time"]).utcoffset() == timedelta(0)
    said = {line["message"] for line in lines}
    assert {f"GET {path} 404" for path in paths} <= said


def test_a_process_that_nobody_has_asked_for_metrics_says_nothing_of_the_one_that_learns(tmp_path: Path) -> None:
    free = free_port()
    with (
        Running(tmp_path / "data", workers=2, metrics_port=free) as server,
        urllib.request.urlopen(f"http://{server.host}:{free}/metrics") as answer,
    ):
        assert b"\nlim2_learner_answers 1.0\n" in answer.read()


def test_the_demo_lives(tmp_path: Path) -> None:
    with Running(tmp_path / "data", "--demo", synchronous="normal") as server:

        def lives() -> bool:
            status, own = server.call("GET", "/v1/bandits/demo")
            assert status == 404 or own["failure"] is None
            return bool(status == 200 and own["rewards"] > 3 and own["rounds"] > 3)

        until(lives, "the demo")
        seen = server.call("GET", "/v1/bandits/demo/overview")[1]
        assert len(seen["latest"]) > 3 and "running shoes" in seen["latest"][0]["arms"] + seen["arms"]


def test_a_wrong_setting_is_said_in_one_line(tmp_path: Path) -> None:
    own = {**os.environ, "LIM2_SERVE_DATA": str(tmp_path / "data"), "LIM2_PERSONALIZER_EPSILON": "2"}
    done = subprocess.run([sys.executable, "-m", "lim2", "serve"], env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the environment: LIM2_PERSONALIZER_EPSILON must be a number from 0 to 1")
    assert "Traceback" not in done.stderr


def test_the_key_of_the_tests_is_not_in_what_is_printed(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as server:
        server.call("POST", "/login", {"key": KEY})
    assert KEY not in server.errors.read_text()
