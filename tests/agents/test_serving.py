"""Threads that decide by snapshots while another one learns."""

import threading
from typing import Any

import numpy as np
import pytest

import lim2
from lim2.agents.saving import dump, parse

READERS, UPDATES = 3, 60
SETTINGS: dict[str, dict[str, Any]] = {
    "LinearTS": {},
    "LiM2": {"hidden": (10,), "batch": 12, "buffer": 30},
    "NeuralLinear": {"hidden": (10,), "batch": 12, "train_every": 10, "steps": 5},
    "NeuralLinear-NTK": {"hidden": (10,), "batch": 12, "buffer": 30},
    "NeuralTS": {"hidden": 6, "iterations": 30, "training": "batch"},
    "LiM2-Transport": {"hidden": (10,), "batch": 12, "buffer": 30, "tolerance": 0.05},
}


def make(name: str) -> Any:
    return lim2.AGENTS[name](3, 4, seed=0, **SETTINGS[name])


@pytest.mark.parametrize("name", SETTINGS)
def test_no_torn_read(name: str) -> None:
    """Each snapshot is the agent after some whole update, and stays it, whatever the writer does meanwhile."""
    contexts = np.random.default_rng(0).normal(size=(UPDATES, 4))
    probe = contexts[:5]
    alone = make(name)
    states = [alone.means(probe).tobytes() + alone.variances(probe).tobytes()]
    for t, context in enumerate(contexts):
        alone.update(context, t % 3, 1.0 + t % 2)
        states.append(alone.means(probe).tobytes() + alone.variances(probe).tobytes())

    agent = make(name)
    published = [agent.snapshot()]
    done, failures = threading.Event(), []
    reads = [0] * READERS

    def read(reader: int) -> None:
        try:
            while not done.is_set() or not reads[reader]:
                # By what the writer published, and taken by this thread in the middle of whatever the writer does
                for snapshot in (published[0], agent.snapshot()):
                    for _ in range(3):
                        seen = snapshot.means(probe).tobytes() + snapshot.variances(probe).tobytes()
                        assert seen == states[snapshot.rounds], f"a torn read after {snapshot.rounds} rounds"
                        assert snapshot.act(probe[0]) in (0, 1, 2)
                reads[reader] += 1
        except BaseException as error:  # noqa: BLE001  # of a thread nobody would see it
            failures.append(error)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    for t, context in enumerate(contexts):
        agent.update(context, t % 3, 1.0 + t % 2)
        published[0] = agent.snapshot()
    done.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert min(reads) > 0
    assert agent.means(probe).tobytes() + agent.variances(probe).tobytes() == states[-1]


@pytest.mark.parametrize("name", ["LinearTS", "LiM2", "NeuralTS"])
def test_arms_change_whole(name: str) -> None:
    """A snapshot or a file taken while arms come and go has all of an arm, or nothing of it."""
    agent, context = make(name), np.ones(4)
    for t in range(20):
        agent.update(context, t % 3, 1.0)
    done, failures = threading.Event(), []

    def read() -> None:
        try:
            while not done.is_set():
                snapshot, copy = agent.snapshot(), parse(dump(agent))
                assert len(snapshot.decide(context).means) == snapshot.n_arms
                assert len(copy.decide(context).means) == copy.n_arms
        except BaseException as error:  # noqa: BLE001  # of a thread nobody would see it
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        agent.add_arm("new", like=0)
        agent.update(context, "new", 0.0)
        agent.remove_arm("new")
    done.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_saving_while_another_thread_learns() -> None:
    agent = make("LiM2")
    contexts = np.random.default_rng(0).normal(size=(UPDATES, 4))
    seen: list[bytes] = []
    done = threading.Event()

    def save() -> None:
        while not done.is_set():
            seen.append(dump(agent))

    thread = threading.Thread(target=save)
    thread.start()
    for t, context in enumerate(contexts):
        agent.update(context, t % 3, 1.0)
    done.set()
    thread.join()
    alone, files = make("LiM2"), []
    for t, context in enumerate(contexts):
        files.append(dump(alone))
        alone.update(context, t % 3, 1.0)
    assert set(seen) <= {*files, dump(alone)}
    assert dump(agent) == dump(alone)


def test_the_start_is_not_repeated_by_every_snapshot() -> None:
    agent = lim2.LinearTS(3, 1, initial_pulls=2, seed=0)
    turns = [agent.snapshot().act([1.0]), agent.act([1.0])]
    turns += [agent.snapshot().act([1.0]) for _ in range(4)]
    assert turns == [0, 1, 2, 0, 1, 2]


def test_turns_of_threads_at_once() -> None:
    agent = lim2.LinearTS(5, 1, initial_pulls=40, seed=0)
    chosen: list[int] = []

    def act() -> None:
        snapshot = agent.snapshot()
        chosen.extend(snapshot.act([1.0]) for _ in range(50))

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.bincount(chosen).tolist() == [40] * 5


def test_snapshots_decide_alike_in_every_run_and_after_loading() -> None:
    decisions = []
    for reload in (False, True):
        agent = make("LiM2")
        for t, context in enumerate(np.random.default_rng(0).normal(size=(20, 4))):
            agent.update(context, t % 3, float(t % 2))
        first = agent.snapshot().act_many(np.ones((30, 4))).tolist()
        agent = parse(dump(agent)) if reload else agent
        decisions.append(first + agent.snapshot().act_many(np.ones((30, 4))).tolist())
    assert decisions[0] == decisions[1]
    assert decisions[0][:30] != decisions[0][30:]  # nothing is drawn twice


def test_the_arrays_of_a_snapshot_are_read_only() -> None:
    snapshot = make("LiM2").snapshot()
    for array in (snapshot._agent.posterior.cov, snapshot._agent.representation.head[0], snapshot._agent.pulls):
        assert not array.flags.writeable
    assert not hasattr(snapshot._agent, "memory")  # what deciding does not need is not kept alive
