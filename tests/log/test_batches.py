"""Events that are learned as one: where batches end is in the log, so all who learn from it learn the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.faults import fails_in_log
from log.world import N_FEATURES, contexts, learned, make_log

import lim2
from lim2.log import PrunedLogError

X = np.ones(N_FEATURES)
ARMS = ["a", "b", "c"]


def linear(seed: int = 0) -> Any:
    return lim2.LinearTS(arms=ARMS, n_features=N_FEATURES, seed=seed)


def adaptive() -> Any:
    return lim2.AdaptiveTS(arms=ARMS, n_features=N_FEATURES, hidden=5, seed=0)


def items() -> Any:
    return lim2.AdaptiveTS(n_features=N_FEATURES, n_item_features=2, hidden=5, seed=0)


def bandit() -> Any:
    return lim2.Bandit(arms=ARMS, seed=0)


def catalogue() -> Any:
    return lim2.Bandit(seed=0)


def decide(log: lim2.DecisionLog, agent: Any, context: Any) -> str:
    """Decide as the kind of agent asks for it."""
    if isinstance(agent, lim2.Bandit):
        raw = {"x": float(context[0]), "country": "AT" if context[1] > 0 else "DE"}
        candidates = {"p": {"price": 1.0}, "q": {"price": float(context[2])}} if agent.arms is None else None
        return str(log.decide(agent, raw, items=candidates).id)
    if isinstance(agent, lim2.ItemAgent):
        return str(log.decide(agent, context, items=context.reshape(2, 2)).id)
    return str(log.decide(agent, context).id)


def fill(log: lim2.DecisionLog, agent: Any, n: int, seed: int = 0) -> None:
    """Decide and reward, and let some be discarded."""
    for number, context in enumerate(contexts(n, seed)):
        id = decide(log, agent, context)
        log.reward(id, float(context.sum()))
        if number % 7 == 3:
            log.discard(id)


def batches_of(log: lim2.DecisionLog) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    after = 0
    while True:
        begin, end = log.store.look(lambda tables: tables.next_batch(after))  # noqa: B023
        if begin is None or end is None:
            return found
        found.append((begin, end))
        after = begin + 1


over_one = [pytest.param(make, marks=pytest.mark.one_store) for make in (items, bandit, catalogue)]


@pytest.mark.parametrize("make", [linear, adaptive, *over_one])
def test_replay_learns_the_same_batches_bit_for_bit(tmp_path: Path, make: Callable[[], Any]) -> None:
    agent, fresh, behind = make(), make(), make()
    with make_log(tmp_path) as log:
        for seed, n in enumerate((40, 3, 90, 1, 60)):  # what has arrived until somebody looks
            fill(log, agent, n, seed)
            log.apply(agent, batch="auto")
            if seed == 1:
                log.apply(behind)
        assert agent.metadata["log_position"] == log.position == 194
        assert max(end - begin for begin, end in batches_of(log)) > 8
        log.replay(fresh)
        log.apply(behind)  # without a word about batches
        assert fresh.rounds == behind.rounds == agent.rounds
    assert learned_by(fresh) == learned_by(behind) == learned_by(agent)


def learned_by(agent: Any) -> bytes:
    """Return all that an agent of any kind has learned, its encoders included."""
    if isinstance(agent, lim2.Bandit):
        return learned_by(agent.agent) + pickle.dumps(agent.core.state.encoders)
    return learned(agent.agent if isinstance(agent, lim2.ItemAgent) else agent)


def learned_state(agent: Any) -> Any:
    return agent.metadata, agent.rounds, agent.means(X).tolist()


def test_batches_grow(tmp_path: Path) -> None:
    agent = linear()
    with make_log(tmp_path) as log:
        log.record_many([agent.decide(x) for x in contexts(400)], contexts(400), ids=[str(i) for i in range(400)])
        log.reward_many([(str(i), 1.0) for i in range(400)])
        assert log.apply(agent, batch="auto") == 400
        found = batches_of(log)
    assert [begin for begin, _ in found] == [0, *(end for _, end in found[:-1])]
    assert [end - begin for begin, end in found[:-1]] == [min(max(begin // 8, 1), 256) for begin, _ in found[:-1]]
    assert found[-1][1] == 400


def test_a_batch_ends_before_arms_change(tmp_path: Path) -> None:
    agent, fresh = linear(), linear()
    with make_log(tmp_path) as log:
        fill(log, agent, 10)
        log.add_arm(agent, "d", like="a", batch=64)  # learns what has arrived
        fill(log, agent, 10, seed=1)
        log.remove_arm(fresh, "b", batch=64)
        fill(log, fresh, 10, seed=2)
        log.apply(agent, batch=64)
        again = linear()
        log.replay(again)
        assert batches_of(log) == [(0, 10), (11, 21), (22, 32)]
    assert agent.arms == again.arms == ("a", "c", "d")
    assert learned(again) == learned(agent)


def test_two_who_learn_at_once_agree_on_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = linear(), linear()
    with make_log(tmp_path) as log, make_log(tmp_path) as beside:
        fill(log, one, 40)
        write, times = log.store.write, [0]

        def late(work: Any) -> Any:
            times[0] += 1
            if times[0] == 2:
                beside.apply(other, batch=5)
            return write(work)

        monkeypatch.setattr(log.store, "write", late)
        log.apply(one, batch=16)
        sizes = [end - begin for begin, end in batches_of(log)]
    assert sizes == [16, 5, 5, 5, 5, 4]
    assert learned(one) == learned(other)


@pytest.mark.one_store
@pytest.mark.parametrize("make", [linear, bandit])
def test_an_interrupt_at_any_moment_lets_nothing_be_learned_twice(tmp_path: Path, make: Callable[[], Any]) -> None:
    agent, fresh = make(), make()
    with make_log(tmp_path) as log:
        for count in range(1, 2000, 3):  # a third of all moments; there are many
            for context in contexts(3, count):
                log.reward(decide(log, agent, context), 1.0)
            failed = fails_in_log(count, lambda: log.apply(agent, batch=8), learning=True)
            log.apply(agent, batch=8)
            assert agent.rounds == agent.metadata["log_position"] == log.position
            if not failed:
                break
        assert count > 20
        log.replay(fresh)
    assert learned_by(fresh) == learned_by(agent)


def test_a_reward_that_cannot_be_learned_stops_its_batch(tmp_path: Path) -> None:
    agent = linear()
    with make_log(tmp_path) as log:
        fill(log, agent, 5)
        bad = log.record(lim2.Decision("z", 1.0, ("z",), np.zeros(1), np.zeros(1), np.ones(1)), X).id
        log.reward(bad, 1.0)
        before = learned_state(agent)
        with pytest.raises(ValueError, match="no arm 'z'") as caught:
            log.apply(agent, batch=64)
        assert "positions 1 to 6" in caught.value.__notes__[0]
        assert learned_state(agent)[1:] == before[1:]
        log.discard(bad)
        assert log.apply(agent, batch=64) == 4


def test_agents_that_learn_one_by_one(tmp_path: Path) -> None:
    paper = lim2.LiM2(arms=ARMS, n_features=N_FEATURES, hidden=(5,), batch=6, buffer=12, seed=0)
    with make_log(tmp_path) as log:
        fill(log, linear(), 20)
        log.apply(linear(), batch=8)
        with pytest.raises(ValueError, match=r"learns one reward at a time.*batch=8"):
            log.apply(paper, batch=8)
        with pytest.raises(ValueError, match="auto"):
            log.apply(linear(), batch="many")  # type: ignore[arg-type]
        assert log.apply(paper, batch="auto") == 17  # as large as it bears: 1


def test_a_limit_and_a_reader(tmp_path: Path) -> None:
    agent, reader = linear(), linear()
    with make_log(tmp_path) as log:
        fill(log, agent, 60)
        assert log.apply(agent, limit=10, batch=32) <= 10
        assert log.apply(agent, batch=32) > 0
        assert log.apply(agent, batch=32) == 0
    with make_log(tmp_path, read_only=True) as log:
        log.apply(reader, batch="auto")
    assert learned(reader) == learned(agent)


def test_batches_are_pruned_with_their_events(tmp_path: Path) -> None:
    agent = linear()
    with make_log(tmp_path, keep=5) as log:
        fill(log, agent, 60)
        log.apply(agent, batch=8)
        assert log.state.pruned > 40
        assert batches_of(log)[0][1] > log.state.pruned
        with pytest.raises(PrunedLogError):
            log.apply(linear(), batch=8)
        partial = linear()
        assert log.replay(partial, allow_partial=True) == log.state.rewards


def test_an_agent_that_learns_is_not_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of thousands of arms would take longer to print than a reward to learn."""
    agent = linear()
    monkeypatch.setattr(type(agent), "__repr__", lambda _: pytest.fail("rendered"))
    with make_log(tmp_path) as log:
        log.reward(log.decide(agent, X).id, 1.0)
        assert log.apply(agent) == 1
