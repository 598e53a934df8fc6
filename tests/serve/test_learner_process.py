"""The process that learns is killed, stopped, and left alone: requests are answered, and nothing is learned twice."""

import os
import signal
from pathlib import Path

import pytest
from serve.running import Running
from serve.test_processes import ITEMS, is_free, until

import lim2

SHOP = "/v1/bandits/shop"


def learner_of(server: Running) -> int:
    """Return the number of the process that learns; 0 while there is none."""
    threads = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    for child in [child for thread in threads for child in thread.read_text().split()]:
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if b"lim2.serve.learner_process" in command:
            return int(child)
    return 0


def rewarded(server: Running, ids: range) -> None:
    for id in map(str, ids):
        assert server.call("POST", f"{SHOP}/decide", {"items": ITEMS, "id": id})[0] == 200
        assert server.call("POST", f"{SHOP}/reward", {"id": id, "reward": 1.0}) == (200, {"outcome": "recorded"})


def rounds(server: Running) -> int:
    return int(server.call("GET", SHOP)[1]["rounds"])


pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc to find a process in")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_that_learns_and_dies_is_started_again(tmp_path: Path, workers: int) -> None:
    data = tmp_path / "data"
    with Running(data, workers=workers, synchronous="normal") as server:
        assert server.call("PUT", SHOP, {"seed": 1})[0] == 201
        known = 0
        for life in range(3):
            rewarded(server, range(known, known + 10))
            known += 10
            until(lambda known=known: rounds(server) == known, "what was rewarded is learned")  # type: ignore[misc]
            before = learner_of(server)
            rewarded(server, range(known, known + 3))
            known += 3
            os.kill(before, signal.SIGKILL)
            assert server.call("POST", f"{SHOP}/decide", {"items": ITEMS})[0] == 200
            until(lambda before=before: learner_of(server) not in (0, before), life)  # type: ignore[misc]
        until(lambda: rounds(server) == known, "what came meanwhile is learned")
        model = lim2.from_bytes(server.call("GET", f"{SHOP}/snapshot")[1])
    with lim2.DecisionLog(data / "bandits/shop/log.db") as log:
        fresh = lim2.Bandit(min_propensity=0.05, seed=1)
        assert log.replay(fresh) == known == model.rounds
    question = ({"x": 1.0}, ITEMS)
    assert model.decide(*question, exploit=True).means.tolist() == fresh.decide(*question, exploit=True).means.tolist()
    assert "the process that learns has ended with status -9, and is started again" in server.errors.read_text()


def test_requests_are_answered_while_the_process_that_learns_stands_still(tmp_path: Path) -> None:
    with Running(tmp_path / "data", synchronous="normal") as server:
        server.call("PUT", SHOP, {})
        rewarded(server, range(5))
        until(lambda: rounds(server) == 5, "it learns")
        learner = learner_of(server)
        os.kill(learner, signal.SIGSTOP)
        try:
            rewarded(server, range(5, 40))
            assert server.call("GET", "/healthz")[0] == server.call("GET", "/readyz")[0] == 200
            assert server.call("GET", SHOP)[1]["lag"] >= 34  # a pass may have begun
        finally:
            os.kill(learner, signal.SIGCONT)
        until(lambda: rounds(server) == 40, "it learns what came meanwhile")
        assert learner_of(server) == learner


def test_signals_for_all_processes_end_the_service_in_good_order(tmp_path: Path) -> None:
    """As a terminal sends them by Ctrl-C, and a service manager at a stop."""
    data = tmp_path / "data"
    server = Running(data, synchronous="normal")
    server.call("PUT", SHOP, {})
    rewarded(server, range(7))
    until(lambda: rounds(server) == 7, "it learns")
    for process in (learner_of(server), server.process.pid):
        os.kill(process, signal.SIGTERM)
    server.stop()
    with lim2.DecisionLog(data / "bandits/shop/log.db") as log:
        model = log.model()
        assert model is not None and model.position == 7
    assert is_free(data)


def test_the_process_that_learns_ends_with_one_that_is_killed(tmp_path: Path) -> None:
    server = Running(tmp_path / "data", synchronous="normal")
    learner = learner_of(server)
    server.kill()
    until(lambda: is_free(tmp_path / "data"), "nobody uses the folder")
    until(lambda: not Path(f"/proc/{learner}").exists(), "it has ended")
