"""Random streams: seeds, reseeding, and processes that share an agent."""

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.variants import N_FEATURES, NO_DRAWS, every_agent, make
from helpers.worlds import contexts_of, play

import lim2

CHILDREN = 6
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def drawing(variant: str) -> None:
    if variant in NO_DRAWS:
        pytest.skip("UCB draws nothing; only the network's initial weights differ")


@every_agent
def test_same_seed_same_decisions(variant: str) -> None:
    assert play(make(variant, seed=3), 80) == play(make(variant, seed=3), 80)


@every_agent
@pytest.mark.usefixtures("drawing")
def test_other_seed_other_decisions(variant: str) -> None:
    assert play(make(variant, seed=3), 80) != play(make(variant, seed=4), 80)


@every_agent
@pytest.mark.usefixtures("drawing")
def test_without_a_seed_runs_differ(variant: str) -> None:
    assert play(make(variant, seed=None), 120) != play(make(variant, seed=None), 120)


# Reseeding


def decisions(agent: Any, rows: int = 60) -> list[Any]:
    chosen: list[Any] = agent.act_many(contexts_of(rows, seed=9)).tolist()
    return chosen


@every_agent
@pytest.mark.usefixtures("drawing")
def test_reseeding_changes_decisions_and_nothing_that_is_learned(variant: str) -> None:
    agents = [make(variant) for _ in range(3)]
    for agent in agents:
        agent.update(contexts_of(20), [t % 3 for t in range(20)], np.zeros(20))
        agent.act_many(contexts_of(6))
    one, two, plain = agents
    one.reseed(5)
    two.reseed(5)
    assert decisions(one) == decisions(two) != decisions(plain)
    assert decisions(one.snapshot()) == decisions(two.snapshot()) != decisions(plain.snapshot())
    two.reseed(6)
    assert decisions(two) != decisions(one)
    for agent in agents:
        agent.update(contexts_of(20, seed=1), [t % 3 for t in range(20)], np.ones(20))
    np.testing.assert_array_equal(one.means(contexts_of(5)), plain.means(contexts_of(5)))
    np.testing.assert_array_equal(one.variances(contexts_of(5)), plain.variances(contexts_of(5)))


def test_reseeding_without_a_seed_is_different_every_time() -> None:
    agent = lim2.Uniform(5, 4, seed=0)
    drawn = []
    for _ in range(3):
        agent.reseed()
        drawn.append(tuple(decisions(agent)))
    assert len(set(drawn)) == 3


def test_a_reseeded_agent_goes_on_after_a_copy_and_a_file() -> None:
    agent = lim2.Uniform(5, 4)
    agent.reseed(3)
    expected = decisions(agent.copy())
    assert decisions(lim2.from_bytes(agent.to_bytes())) == expected == decisions(agent)


def test_an_agent_without_a_seed_decides_anew_whenever_it_is_loaded() -> None:
    content = lim2.Uniform(5, 4).to_bytes()
    drawn = {tuple(decisions(lim2.from_bytes(content))) for _ in range(5)}
    assert len(drawn) == 5
    assert decisions(lim2.from_bytes(content, seed=1)) == decisions(lim2.from_bytes(content, seed=1))


def test_learning_goes_on_alike_whenever_an_agent_without_a_seed_is_loaded() -> None:
    agent = make("LiM2", seed=None)
    play(agent, 30)
    content = agent.to_bytes()
    believed = []
    for _ in range(2):
        loaded = lim2.from_bytes(content)
        loaded.update(contexts_of(10), [0] * 10, np.ones(10))
        believed.append(loaded.means(contexts_of(5)).tobytes())
    assert believed[0] == believed[1]


# Forks


def in_child(work: Callable[[], str]) -> str:
    """Fork; return what the child returns. A child that hangs is ended by its alarm."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(60)
        try:
            os.write(writing, work().encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  # of a child nobody would see it
            os.write(writing, repr(error).encode())
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"a child ended with {status}: {said}"
    return said


@needs_fork
@forks
@pytest.mark.parametrize("by_snapshot", [False, True], ids=["agent", "snapshot"])
def test_forked_children_decide_from_streams_of_their_own(by_snapshot: bool) -> None:
    agent = make("LinearTS", seed=None)
    play(agent, 12)
    decider = agent.snapshot() if by_snapshot else agent
    drawn = [in_child(lambda: str(decisions(decider, 200))) for _ in range(CHILDREN)]
    assert len({*drawn, str(decisions(decider, 200))}) == CHILDREN + 1


@needs_fork
@forks
@pytest.mark.parametrize("by_snapshot", [False, True], ids=["agent", "snapshot"])
def test_with_a_seed_forked_children_decide_alike(by_snapshot: bool) -> None:
    agent = make("LinearTS", seed=1)
    play(agent, 12)
    decider = agent.snapshot() if by_snapshot else agent
    drawn = [in_child(lambda: str(decisions(decider, 200))) for _ in range(CHILDREN)]
    assert {*drawn, str(decisions(decider, 200))} == {drawn[0]}


@needs_fork
@forks
def test_children_of_children_and_reseeded_ones() -> None:
    agent = lim2.Uniform(5, 4)

    def grandchild() -> str:
        return str(decisions(agent)) + "|" + in_child(lambda: str(decisions(agent)))

    own, theirs = in_child(grandchild).split("|")
    assert len({own, theirs, str(decisions(agent))}) == 3
    agent.reseed(4)
    assert in_child(lambda: str(decisions(agent))) == str(decisions(agent))


@needs_fork
@forks
@pytest.mark.parametrize("seed", [None, 1])
def test_forked_children_learn_alike(seed: int | None) -> None:
    """What is learned depends on the updates alone."""
    agent = make("LiM2", seed=seed)
    play(agent, 30)

    def learned() -> str:
        agent.update(contexts_of(10), [0] * 10, np.ones(10))
        return agent.means(contexts_of(5)).tobytes().hex()

    assert in_child(learned) == in_child(learned) == learned()


@needs_fork
@forks
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", ["LinearTS", "LiM2"])
def test_a_fork_while_other_threads_work_does_not_hang(name: str, seed: int | None) -> None:
    """Threads decide for many contexts, learn, take snapshots and save: no lock of theirs may be held in a child."""
    agent, many = make(name, seed=seed), np.ones((20_000, N_FEATURES))
    play(agent, 20)
    done = threading.Event()

    def work(call: Callable[[], object]) -> Callable[[], None]:
        def again() -> None:
            while not done.is_set():
                call()

        return again

    snapshot = agent.snapshot()
    calls: list[Callable[[], object]] = [
        lambda: snapshot.act_many(many),
        lambda: agent.update(np.ones(N_FEATURES), 0, 1.0),
        lambda: agent.snapshot().act(np.ones(N_FEATURES)),
        lambda: agent.to_bytes(),
    ]
    threads = [threading.Thread(target=work(call)) for call in calls]
    for thread in threads:
        thread.start()

    def child() -> str:
        twin = agent.snapshot()
        for context in contexts_of(3):
            snapshot.act(context)
            twin.decide(context)
            agent.update(context, agent.act(context), 1.0)
        agent.add_arm("new")
        return str(len(agent.to_bytes()) > 0 and bool(np.isfinite(agent.means(many[0])).all()))

    try:
        said = [in_child(child) for _ in range(8)]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert said == ["True"] * 8
