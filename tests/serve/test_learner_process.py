"""The process that learns is killed, stopped, and left alone: requests are answered, and nothing is learned twice."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import PATIENCE, until
from serve.running import Running
from serve.test_processes import ITEMS, is_free

import lim2
from lim2.serve.config import load
from lim2.serve.learner import LearnerProcess

SHOP, LEARNER = "/v1/bandits/shop", b"lim2.serve.learner"


def learner_of(server: Running) -> int:
    """Return the number of the process that learns; 0 while there is none."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == server.process.pid and LEARNER in (path.parent / "cmdline").read_bytes():
                return int(path.parent.name)
    return 0


def rewarded(server: Running, ids: range) -> None:
    for id in map(str, ids):
        assert server.call("POST", f"{SHOP}/decide", {"items": ITEMS, "id": id})[0] == 200
        assert server.call("POST", f"{SHOP}/reward", {"id": id, "reward": 1.0}) == (200, {"status": "recorded"})


def snapshot(server: Running, rounds: int) -> Any:
    """Return the model, if it has learned so many rewards: a learner that does not answer in time publishes later."""
    model = lim2.from_bytes(server.call("GET", f"{SHOP}/snapshot")[1])
    return model if model.rounds == rounds else None


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
            until(lambda before=before: learner_of(server) not in (0, before), f"learner {life}")  # type: ignore[misc]
        until(lambda: rounds(server) == known, "what came meanwhile is learned")
        model = until(lambda: snapshot(server, known), "a model that has learned everything")
    with lim2.DecisionLog(data / "bandits/shop/log.db") as log:
        fresh = lim2.Bandit(epsilon=0.05, seed=1)
        assert log.replay(fresh) == known == model.rounds
    question = ({"x": 1.0}, ITEMS)
    assert model.decide(*question, exploit=True).means.tolist() == fresh.decide(*question, exploit=True).means.tolist()
    assert "the learner has ended with status -9, and is started again" in server.errors.read_text()


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


def test_requests_that_change_a_bandit_wait_only_a_little_for_a_process_that_stands_still(tmp_path: Path) -> None:
    with Running(tmp_path / "data", synchronous="normal") as server:
        server.call("PUT", SHOP, {})
        rewarded(server, range(1))
        until(lambda: server.call("GET", SHOP)[1]["leads"], "it learns")
        learner = learner_of(server)
        os.kill(learner, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(8) as threads:
                change = {"expire_after": 5.0, "default_reward": 0.0}
                changes = [threads.submit(server.call, "PATCH", SHOP, change) for _ in range(8)]
                large = {f"item {number}": {"kind": number} for number in range(900)}
                assert server.call("POST", f"{SHOP}/decide", {"items": large})[0] == 200
                assert [one.result()[0] for one in changes] == [200] * 8
            until(lambda: b"lim2_learner_answers 0.0" in server.call("GET", "/metrics")[1], "it is said")
            assert server.call("GET", f"{SHOP}/snapshot")[0] == 200
        finally:
            os.kill(learner, signal.SIGCONT)
        until(lambda: b"lim2_learner_answers 1.0" in server.call("GET", "/metrics")[1], "it answers again")


def test_a_process_that_learns_and_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(environment={}, given={"data": str(tmp_path / "data"), "api_key": "a-key-for-the-tests"})
    monkeypatch.setattr("lim2.serve.learner.END_SECONDS", 0.1)
    process = LearnerProcess(config)
    os.kill(process._process.pid, signal.SIGSTOP)
    process.stop()
    assert process._process.returncode == -signal.SIGKILL
    assert not process.ready.parent.exists()


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(environment={}, given={"data": str(tmp_path / "data"), "api_key": "a-key-for-the-tests"})
    monkeypatch.setattr("lim2.serve.learner.RESTART_SECONDS", 0.0)
    process = LearnerProcess(config)
    started, tries = process._started, list[int]()

    def failing() -> "subprocess.Popen[bytes]":
        tries.append(1)
        if len(tries) < 3:
            raise BlockingIOError("too many processes")
        return started()

    monkeypatch.setattr(process, "_started", failing)
    first = process._process
    first.kill()
    until(lambda: process._process is not first, "it is started again")
    process.stop()
    assert len(tries) == 3 and process._process.returncode == 0


def test_a_process_that_is_being_started_again_at_the_end_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(environment={}, given={"data": str(tmp_path / "data"), "api_key": "a-key-for-the-tests"})
    monkeypatch.setattr("lim2.serve.learner.RESTART_SECONDS", 0.0)
    process = LearnerProcess(config)
    started, starts, stops = process._started, threading.Event(), threading.Event()

    def slow() -> "subprocess.Popen[bytes]":
        starts.set()
        assert stops.wait(PATIENCE)
        return started()

    monkeypatch.setattr(process, "_started", slow)
    first = process._process
    first.kill()
    assert starts.wait(PATIENCE)
    stopping = threading.Thread(target=process.stop, daemon=True)
    stopping.start()
    until(process._ending.is_set, "it is to end")
    time.sleep(0.1)
    stops.set()
    stopping.join(PATIENCE)
    try:
        assert not stopping.is_alive()
        assert process._process is not first and process._process.returncode == 0
    finally:
        process._process.kill()


def test_a_program_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit(7)\n")
    command = [str(Path(sys.executable).parent / "lim2"), "serve"]
    own = {**os.environ, "LIM2_PORT": "0", "LIM2_LOG_LEVEL": "warning"}
    with subprocess.Popen(command, cwd=tmp_path, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        assert served.stdout is not None and served.stderr is not None
        url = served.stdout.readline().split()[-1].decode()
        try:
            until(lambda: _is_ready(url), "it learns")
        finally:
            served.terminate()
        assert served.stderr.read() == b""


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_read_only_machine_needs_no_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp

    def refused(prefix: str, dir: str | None = None) -> str:
        if dir is None:
            raise FileNotFoundError("No usable temporary directory found")
        return make(prefix=prefix, dir=dir)

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    config = load(environment={}, given={"data": str(tmp_path / "data"), "api_key": "a-key-for-the-tests"})
    process = LearnerProcess(config)
    until(process.ready.exists, "it has caught up")
    process.stop()
    assert not process.ready.parent.exists() and process.ready.parent.parent == tmp_path / "data"
