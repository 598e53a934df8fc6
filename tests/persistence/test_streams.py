"""Random streams in other processes: loaded from a file, or forked, also while other threads are busy."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.waiting import PATIENCE

import lim2

SETTINGS: dict[str, dict[str, Any]] = {
    "LinearTS": {},
    "LiM2": {"hidden": (6,), "batch": 500, "buffer": 30},  # long draws: other threads run meanwhile
    "NeuralTS": {"hidden": 4, "iterations": 20},
    "AdaptiveTS": {"hidden": (6,), "buffer": 30},
    "Uniform": {},
}
CONTEXTS = np.random.default_rng(0).normal(size=(40, 3))
FORKS = 8

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
no_warning = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def make(name: str, seed: int | None) -> lim2.Agent:
    """Return an agent that is unsure: 4 arms, no turns to take."""
    agent = lim2.AGENTS[name](4, 3, seed=seed, initial_pulls=0, **SETTINGS[name])
    agent.update(CONTEXTS[:12], [0, 1, 2, 3] * 3, [0.5] * 12)
    return agent


def decisions(agent: Any) -> list[int]:
    return [int(agent.act(context)) for context in CONTEXTS]


def learned(agent: lim2.Agent) -> str:
    """Return what an agent knows after some more updates."""
    for t, context in enumerate(CONTEXTS[:5]):
        agent.update(context, t % 4, 1.0)
    return agent.means(CONTEXTS).tobytes().hex() if agent.name != "Uniform" else ""


def in_a_child(work: Callable[[], Any]) -> Any:
    """Fork, and return what the work returns in the child; fail if it hangs."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writes, json.dumps(work()).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writes)
    answer = b""
    try:
        while not answer.endswith(b"\n"):
            if not select.select([reads], [], [], PATIENCE)[0]:
                pytest.fail("the child hangs")
            part = os.read(reads, 2**16)
            assert part, "the child failed"
            answer += part
    finally:
        os.close(reads)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return json.loads(answer)


# Files


def in_processes(path: Path, count: int, **how: Any) -> list[list[Any]]:
    """Load a file in several new processes; return their decisions, and what they know after learning on."""
    code = """
import sys, json
sys.path.insert(0, sys.argv[1])
import lim2
from persistence.test_streams import decisions, learned
agent = lim2.load(sys.argv[2], **json.loads(sys.argv[3]))
print(json.dumps([decisions(agent), decisions(agent.snapshot()), learned(agent)]))
"""
    folder = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", code, folder, str(path), json.dumps(how)]
    runs = [subprocess.run(command, capture_output=True, check=True, text=True) for _ in range(count)]
    return [json.loads(run.stdout) for run in runs]


@pytest.mark.parametrize("name", ["LiM2", "LinearTS"])
def test_processes_that_load_an_agent_without_a_seed_decide_apart(name: str, tmp_path: Path) -> None:
    agent = make(name, None)
    agent.save(tmp_path / "agent.lim2")
    one, other = in_processes(tmp_path / "agent.lim2", 2)
    assert one[0] != other[0]
    assert one[1] != other[1]
    assert one[0] != one[1]
    assert one[2] == other[2] == learned(agent)
    alike, same = in_processes(tmp_path / "agent.lim2", 2, seed=7)
    assert alike == same
    assert alike[0] != one[0]
    assert alike[2] == one[2]


def test_processes_that_load_an_agent_with_a_seed_decide_alike(tmp_path: Path) -> None:
    agent = make("LiM2", 3)
    agent.save(tmp_path / "agent.lim2")
    one, other = in_processes(tmp_path / "agent.lim2", 2)
    assert one == other == [decisions(agent), decisions(agent.snapshot()), learned(agent)]
    (another,) = in_processes(tmp_path / "agent.lim2", 1, seed=7)
    assert another[0] != one[0]
    assert another[2] == one[2]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_seed_at_loading_is_that_of_reseed(name: str) -> None:
    agent = make(name, None)
    loaded, again = (lim2.from_bytes(agent.to_bytes(), seed=7) for _ in range(2))
    agent.reseed(7)
    assert decisions(loaded) == decisions(again) == decisions(agent)
    assert decisions(loaded.snapshot()) == decisions(agent.snapshot())
    assert loaded.to_bytes() != lim2.from_bytes(make(name, None).to_bytes()).to_bytes()


def test_without_a_seed_a_file_does_not_depend_on_decisions() -> None:
    agent = make("LiM2", None)
    before = agent.to_bytes()
    decisions(agent)
    assert agent.to_bytes() == before == lim2.from_bytes(before).to_bytes()
    agent.reseed(1)
    assert agent.to_bytes() != before
    agent.reseed()
    assert agent.to_bytes() == before


# Forks


@forks
@no_warning
@pytest.mark.parametrize("name", SETTINGS)
def test_children_without_a_seed_decide_apart_and_learn_alike(name: str) -> None:
    agent = make(name, None)
    snapshot, twin = agent.snapshot(), agent.copy()

    def decide() -> list[Any]:
        return [decisions(agent), decisions(snapshot), learned(agent)]

    first, second, here = in_a_child(decide), in_a_child(decide), decide()
    assert len({tuple(drawn) for run in (first, second, here) for drawn in run[:2]}) == 6
    assert first[2] == second[2] == here[2] == learned(twin)


@forks
@no_warning
@pytest.mark.parametrize("name", SETTINGS)
def test_children_with_a_seed_do_as_the_parent_would_have(name: str) -> None:
    agent = make(name, 3)
    snapshot = agent.snapshot()

    def do() -> list[Any]:
        return [decisions(agent), decisions(snapshot), learned(agent)]

    first, second = in_a_child(do), in_a_child(do)
    assert first == second == do()


@forks
@no_warning
def test_a_child_of_a_child_decides_apart() -> None:
    agent = make("LiM2", None)
    inner = in_a_child(lambda: [decisions(agent), in_a_child(lambda: decisions(agent))])
    assert inner[0] != inner[1]


@forks
@no_warning
@pytest.mark.parametrize("name", SETTINGS)
def test_a_fork_while_threads_work_does_not_hang_the_child(name: str) -> None:
    agent, other = make(name, None), make(name, 0)
    done, failures = threading.Event(), []

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def loop() -> None:
            try:
                while not done.is_set():
                    work()
            except BaseException as error:  # noqa: BLE001  # of a thread nobody would see it
                failures.append(error)

        return loop

    def work() -> list[Any]:
        both = [agent, other, lim2.from_bytes(agent.to_bytes())]
        for busy in both:
            busy.act_many(CONTEXTS)
            busy.snapshot().act(CONTEXTS[0])
            busy.update(CONTEXTS[0], 1, 1.0)
            busy.copy().reseed(2)
        return [busy.rounds for busy in both]

    works: list[Callable[[], object]] = [
        lambda: agent.update(CONTEXTS[1], 1, 0.5),
        lambda: other.act_many(np.tile(CONTEXTS, (50, 1))),
        lambda: agent.snapshot().act_many(np.tile(CONTEXTS, (50, 1))),
        lambda: agent.to_bytes(),
    ]
    threads = [threading.Thread(target=repeat(each)) for each in works]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            assert len(in_a_child(work)) == 3
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
