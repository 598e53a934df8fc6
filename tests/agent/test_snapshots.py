"""Snapshots and states: they stay as they were, also when taken by threads while another one learns."""

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.purity import same, values_of
from helpers.variants import N_FEATURES, NAMES, every_agent, make
from helpers.worlds import beliefs, contexts_of, play, played

import lim2

READERS, UPDATES = 3, 60
SETTINGS: dict[str, dict[str, Any]] = {
    "LinearTS": {},
    "LiM2": {"hidden": (10,), "batch": 12, "buffer": 30},
    "NeuralLinear": {"hidden": (10,), "batch": 12, "train_every": 10, "steps": 5},
    "NeuralLinearNTK": {"hidden": (10,), "batch": 12, "buffer": 30},
    "NeuralTS": {"hidden": 6, "iterations": 30, "training": "batch"},
    "AdaptiveTS": {"hidden": (10,), "buffer": 30, "initial_pulls": 2},
}


def small(name: str) -> lim2.Agent:
    return lim2.AGENTS[name](3, 4, seed=0, **SETTINGS[name])


def while_reading(read: Callable[[], object], work: Callable[[], object]) -> int:
    """Do the work while threads read again and again; raise what fails in them, and return how often they read."""
    done, reads, failures = threading.Event(), [0] * READERS, list[BaseException]()

    def again(reader: int) -> None:
        try:
            while not done.is_set() or not reads[reader]:
                read()
                reads[reader] += 1
        except BaseException as error:  # noqa: BLE001  # of a thread nobody would see it
            failures.append(error)

    threads = [threading.Thread(target=again, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return min(reads)


# One thread


@every_agent
def test_a_snapshot_stays_as_it_was_and_touches_nothing(variant: str) -> None:
    agent, alone = make(variant), make(variant)
    contexts = contexts_of(10, seed=4)
    for learner in (agent, alone):
        play(learner, 40)
    snapshot = agent.snapshot()
    before = beliefs(snapshot, contexts)
    assert before == beliefs(agent, contexts)
    decisions = [snapshot.act(c) for c in contexts]
    again = make(variant)
    play(again, 40)
    assert again.snapshot().act_many(contexts).tolist() == decisions
    assert again.snapshot().act_many(contexts).shape == (10,)
    # Decisions of snapshots do not move the agent's own stream.
    assert play(agent, 60, seed=2) == play(alone, 60, seed=2)
    assert beliefs(snapshot, contexts) == before
    assert snapshot.rounds == 40
    assert {snapshot.act(c, arms=[1]) for c in contexts} == {1}
    with pytest.raises(ValueError, match="context"):
        snapshot.act([np.nan] * N_FEATURES)
    for changing in ("update", "learn_logged", "add_arm", "remove_arm", "reseed"):
        assert not hasattr(snapshot, changing)


@every_agent
def test_a_snapshot_says_what_the_agent_would(variant: str) -> None:
    agent = played(variant)
    snapshot, context, rows = agent.snapshot(), contexts_of(1, seed=5)[0], contexts_of(4, seed=6)
    hows: list[dict[str, Any]] = [{}, {"arms": ["red", 7]}, {"arms": [7], "exploit": True}, {"exploit": True}]
    for how in hows:
        np.testing.assert_array_equal(snapshot.propensities(rows, **how), agent.propensities(rows, **how))
        ours, theirs = snapshot.decide(context, **how), agent.decide(context, **how)
        assert ours.arms == theirs.arms
        np.testing.assert_array_equal(ours.propensities, theirs.propensities)
        np.testing.assert_array_equal(ours.means, theirs.means)
    assert snapshot.act(context, exploit=True) == agent.act(context, exploit=True)
    assert snapshot.act_many(rows, ["red"]).tolist() == ["red"] * 4
    agent.remove_arm("red")
    assert snapshot.arms == NAMES
    assert snapshot.n_arms == len(snapshot.decide(context).means) == 3


@every_agent
def test_a_pickled_snapshot_is_the_same(variant: str) -> None:
    agent, contexts = played(variant), contexts_of(200, seed=5)
    snapshot = agent.snapshot()
    before = snapshot.core.streams.positions()
    loaded = pickle.loads(pickle.dumps(snapshot))
    assert beliefs(loaded, contexts) == beliefs(snapshot, contexts)
    assert (loaded.arms, loaded.rounds) == (snapshot.arms, snapshot.rounds)
    assert loaded.decide(contexts[0]).arm in NAMES
    assert snapshot.core.streams.positions() == before


@pytest.mark.parametrize("seed", [0, None])
def test_a_pickled_snapshot_has_a_stream_of_its_own(seed: int | None) -> None:
    snapshot = lim2.LinearTS(2, 1, seed=seed).snapshot()
    one, other = (pickle.loads(pickle.dumps(snapshot)) for _ in range(2))
    drawn = [own.core.streams.serve.random() for own in (one, other, snapshot)]
    assert len(set(drawn)) == (3 if seed is None else 1)
    one.core.succeed(other.core, draws=True)
    assert one.core.streams is other.core.streams


def test_initial_turns_are_not_given_again_by_a_later_snapshot_from_another_process() -> None:
    agent = lim2.LinearTS(arms=["a", "b", "c"], n_features=1, initial_pulls=2, seed=0)
    first = pickle.loads(pickle.dumps(agent.snapshot()))
    assert [first.act([1.0]) for _ in range(4)] == ["a", "b", "c", "a"]
    agent.update([1.0], "a", 1.0)
    agent.remove_arm("b")
    agent.add_arm("d")
    second, third = (pickle.loads(pickle.dumps(agent.snapshot())) for _ in range(2))
    second.core.succeed(first.core)
    assert [second.act([1.0]) for _ in range(3)] == ["d", "c", "d"]
    third.core.succeed(second.core)
    assert set(third.propensities([1.0])) != {0.0, 1.0}  # no turn is left
    assert set(agent.snapshot().propensities([1.0])) == {0.0, 1.0}  # it has not been asked


@every_agent
@pytest.mark.parametrize("rounds", [0, 10, 40], ids=["fresh", "growing", "full"])
def test_a_state_is_a_value(variant: str, rounds: int) -> None:
    """Whatever happens to the agent, a state that was asked for stays as it was: after every single round, too."""
    agent = make(variant)
    play(agent, rounds)
    kept = []
    for context in contexts_of(25, seed=1):
        kept.append((agent.state, values_of(agent.state)))
        agent.update(context, 1, 0.5)
        agent.update(context, 0, -0.5)  # two updates from one state: the second writes where the first has left room
    agent.add_arm("new", like=1)
    agent.update(contexts_of(1)[0], "new", 1.0)
    agent.remove_arm(0)
    play(agent, 5)
    assert all(same(values_of(state), values) for state, values in kept)


@every_agent
def test_asking_for_states_and_snapshots_changes_nothing(variant: str) -> None:
    agent, alone = make(variant), make(variant)
    for context in contexts_of(45):
        _ = agent.state, agent.snapshot()
        for learner in (agent, alone):
            learner.update(context, learner.act(context), float(context[0]))
    assert agent.to_bytes() == alone.to_bytes()


def test_a_snapshot_is_a_reference_until_the_next_update() -> None:
    agent = make("LiM2")
    play(agent, 20)
    assert agent.state is agent.state
    before = agent.state.posterior.mu
    agent.update(np.ones(N_FEATURES), 0, 1.0)
    assert not np.shares_memory(agent.state.posterior.mu, before)


def test_the_start_is_not_repeated_by_every_snapshot() -> None:
    agent = lim2.LinearTS(3, 1, initial_pulls=2, seed=0)
    turns = [agent.snapshot().act([1.0]), agent.act([1.0])]
    turns += [agent.snapshot().act([1.0]) for _ in range(4)]
    assert turns == [0, 1, 2, 0, 1, 2]


def test_snapshots_decide_alike_in_every_run_and_after_loading() -> None:
    decisions = []
    for reload in (False, True):
        agent = small("LiM2")
        for t, context in enumerate(contexts_of(20)):
            agent.update(context, t % 3, float(t % 2))
        first = agent.snapshot().act_many(np.ones((30, 4))).tolist()
        agent = lim2.from_bytes(agent.to_bytes()) if reload else agent
        decisions.append(first + agent.snapshot().act_many(np.ones((30, 4))).tolist())
    assert decisions[0] == decisions[1]
    assert decisions[0][:30] != decisions[0][30:]  # nothing is drawn twice


def test_repr_of_a_snapshot() -> None:
    agent = lim2.LinearTS(2, 1, seed=0)
    agent.update([1.0], 0, 1.0)
    assert repr(agent.snapshot()) == "Snapshot(LinearTS, n_arms=2, rounds=1)"


# Many threads


def probed(agent: Any) -> bytes:
    probe = contexts_of(5)
    seen: bytes = agent.means(probe).tobytes() + agent.variances(probe).tobytes()
    return seen


@pytest.mark.parametrize("name", SETTINGS)
def test_no_torn_read(name: str) -> None:
    """Each snapshot is the agent after some whole update, and stays it, whatever the writer does meanwhile."""
    contexts, alone, agent = contexts_of(UPDATES), small(name), small(name)
    states = [probed(alone)]
    for t, context in enumerate(contexts):
        alone.update(context, t % 3, 1.0 + t % 2)
        states.append(probed(alone))
    published = [agent.snapshot()]

    def read() -> None:
        # By what the writer published, and taken by this thread in the middle of whatever the writer does
        for snapshot in (published[0], agent.snapshot()):
            for _ in range(3):
                assert probed(snapshot) == states[snapshot.rounds], f"a torn read after {snapshot.rounds} rounds"
                assert snapshot.act(contexts[0]) in (0, 1, 2)

    def work() -> None:
        for t, context in enumerate(contexts):
            agent.update(context, t % 3, 1.0 + t % 2)
            published[0] = agent.snapshot()

    assert while_reading(read, work) > 0
    assert probed(agent) == states[-1]


@pytest.mark.parametrize("name", ["LinearTS", "LiM2", "NeuralLinear"])
def test_states_taken_while_another_thread_learns(name: str) -> None:
    """No one but readers marks the state as shared: the writer finds out in the middle of an update."""
    agent, taken = small(name), list[tuple[Any, Any]]()

    def read() -> None:
        state = agent.state
        first = values_of(state)
        assert same(values_of(state), first)
        taken.append((state, first))
        del taken[:-20]

    def work() -> None:
        for t, context in enumerate(contexts_of(3 * UPDATES)):
            agent.update(context, t % 3, 1.0)

    assert while_reading(read, work) > 0
    assert all(same(values_of(state), values) for state, values in taken)
    alone = small(name)
    for t, context in enumerate(contexts_of(3 * UPDATES)):
        alone.update(context, t % 3, 1.0)
    assert agent.to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("name", ["LinearTS", "LiM2", "NeuralTS"])
def test_arms_change_whole(name: str) -> None:
    """A snapshot or a file taken while arms come and go has all of an arm, or nothing of it."""
    agent, context = small(name), np.ones(4)
    for t in range(20):
        agent.update(context, t % 3, 1.0)

    def read() -> None:
        snapshot, copy = agent.snapshot(), lim2.from_bytes(agent.to_bytes())
        assert len(snapshot.decide(context).means) == snapshot.n_arms == len(snapshot.arms)
        assert len(copy.decide(context).means) == copy.n_arms

    def work() -> None:
        for _ in range(15):
            agent.add_arm("new", like=0)
            agent.update(context, "new", 0.0)
            agent.remove_arm("new")

    assert while_reading(read, work) > 0


@pytest.mark.parametrize("name", ["LinearTS", "LiM2"])
def test_saving_while_another_thread_learns(name: str) -> None:
    agent, alone, files, seen = small(name), small(name), set[bytes](), list[bytes]()
    contexts = contexts_of(UPDATES)
    for t, context in enumerate(contexts):
        files.add(alone.to_bytes())
        alone.update(context, t % 3, 1.0)

    def work() -> None:
        for t, context in enumerate(contexts):
            agent.update(context, t % 3, 1.0)

    assert while_reading(lambda: seen.append(agent.to_bytes()), work) > 0
    assert set(seen) <= {*files, alone.to_bytes()}
    assert agent.to_bytes() == alone.to_bytes()


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


def test_a_decision_has_the_propensity_of_its_turn_if_another_thread_takes_the_turn_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = lim2.LinearTS(3, 1, initial_pulls=1, seed=0)
    first, second = agent.snapshot(), agent.snapshot()
    known = first.core._propensities

    def interrupted(*given: Any) -> Any:
        found = known(*given)
        assert second.decide([1.0]).arm == 0
        return found

    monkeypatch.setattr(first.core, "_propensities", interrupted)
    made = first.decide([1.0])
    assert (made.arm, made.propensity) == (0, 1.0)
    assert [second.decide([1.0]).arm for _ in range(2)] == [1, 2]
