"""What a request may take: memory, threads, files. Nothing that it asks for stops other requests."""

import asyncio
import contextlib
import http.client
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import PATIENCE, until
from serve.stores import over_all
from starlette.testclient import TestClient

from lim2.serve.service import Service

pytestmark = pytest.mark.filterwarnings("ignore::lim2.evaluation.evaluate.OverlapWarning")  # the answer has them

WIDE = {f"item {place}": {"price": place, "text": f"a text about the item {place} " * 5} for place in range(400)}


def wide_log(client: TestClient, count: int) -> None:
    """Fill a log with decisions among many items."""
    assert client.put("/v1/bandits/wide", json={"algorithm": "Uniform"}).status_code == 201
    for number in range(count):
        made = client.post("/v1/bandits/wide/decide", json={"items": WIDE, "id": f"d{number}"})
        assert made.status_code == 200, made.text
        assert client.post("/v1/bandits/wide/reward", json={"id": f"d{number}", "reward": 1.0}).status_code == 200


@over_all
def test_what_an_evaluation_and_an_overview_hold_in_memory_does_not_grow_with_the_candidates(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide_log(client, 40)
    monkeypatch.setattr("lim2.serve.history.MOST", 15_000)  # weights: of 37 decisions without features, of fewer with
    seen = client.get("/v1/bandits/wide/overview").json()
    assert 30 <= seen["only"] < 40 and seen["bandit"]["decisions"] == 40
    for policy, most in (("baseline", 40), ("best", 30)):
        found = client.post("/v1/bandits/wide/evaluate", json={"policy": policy})
        assert found.status_code == 200, found.text
        assert 4 <= found.json()["decisions"] < most
        assert any("only the newest" in text for text in found.json()["warnings"])


def test_all_decisions_count_where_their_candidates_are_few(client: TestClient) -> None:
    client.put("/v1/bandits/small", json={"arms": ["a", "b"]})
    for number in range(20):
        client.post("/v1/bandits/small/decide", json={"id": f"d{number}"})
        client.post("/v1/bandits/small/reward", json={"id": f"d{number}", "reward": 1.0})
    assert client.get("/v1/bandits/small/overview").json()["only"] is None
    found = client.post("/v1/bandits/small/evaluate", json={"policy": "random"}).json()
    assert found["decisions"] == 20 and not any("only the newest" in text for text in found["warnings"])


def test_a_large_decision_does_not_wait_for_the_threads_of_others(client: TestClient, service: Service) -> None:
    """Such as those that compute overviews: all threads of asyncio are busy here."""
    client.put("/v1/bandits/wide", json={"algorithm": "Uniform"})
    free = threading.Event()
    portal: Any = client.portal

    async def busy() -> list[Any]:
        loop = asyncio.get_running_loop()
        return [loop.run_in_executor(None, free.wait, PATIENCE) for _ in range(100)]

    waiting = portal.call(busy)
    try:
        answer = client.post("/v1/bandits/wide/decide", json={"items": WIDE})
        assert answer.status_code == 200 and not any(one.done() for one in waiting)
    finally:
        free.set()


def test_a_reward_of_a_position_that_is_named_twice_is_refused_and_not_recorded(client: TestClient) -> None:
    client.put("/v1/bandits/shop", json={})
    client.post("/v1/bandits/shop/rank", json={"items": {"a": {}, "b": {}}, "id": "s"})
    for twice in ({"1": 1, "01": 0}, {"1": 1, "slot 1": 0}):
        assert client.post("/v1/bandits/shop/reward", json={"id": "s", "reward": twice}).status_code == 400
    assert client.get("/v1/bandits/shop/decisions/s/1").json()["status"] == "pending"


def test_a_decision_is_no_slate_whatever_its_id(client: TestClient) -> None:
    client.put("/v1/bandits/shop", json={})
    items: dict[str, Any] = {"a": {}, "b": {}}
    assert client.post("/v1/bandits/shop/decide", json={"items": items, "id": "s/1"}).status_code == 200
    again = client.post("/v1/bandits/shop/rank", json={"items": items, "id": "s"})
    assert again.status_code == 409 and "not of a slate" in again.json()["error"]["message"]


def answers(where: str) -> bool:
    connection = http.client.HTTPConnection(where, timeout=PATIENCE)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    return False


def test_the_service_takes_as_many_files_as_it_may_and_nobody_else_reads_its_own(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 512:
        pytest.skip("this machine allows few open files")
    script = f"""
import resource, os
resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))
os.umask(0o022)
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", "lim2", "serve", "--port", "0", "--data", "data"])
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        where = process.stdout.readline().removeprefix("lim2 serves http://").strip()
        limits = Path(f"/proc/{process.pid}/limits")
        if limits.exists():
            line = next(line for line in limits.read_text().splitlines() if line.startswith("Max open files"))
            assert int(line.split()[3]) == min(hard, 65_536)
        until(lambda: answers(where), lambda: "an answer")
        found = [path for path in (tmp_path / "data").rglob("*") if path.stat().st_mode & 0o077]
        assert found == []
    finally:
        process.terminate()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()
