"""Decisions, late rewards, expiry, restarts: what the log promises, on one thread."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from log.world import ARMS, N_FEATURES, contexts, learned, live, make_agent, make_log

import lim2
from lim2.log import ConflictingRewardError, LogError, PrunedLogError, UnknownDecisionError

X = np.arange(N_FEATURES) / 10


def test_a_decision_is_kept_as_it_was_made(tmp_path: Path) -> None:
    agent, twin, clock = make_agent(), make_agent(), Clock(123.5)
    with make_log(tmp_path, clock=clock) as log:
        for context in contexts(20):
            decision = log.decide(agent, context, arms=["c", "a"])
            same = twin.decide(context, arms=["c", "a"])
            again = log.get(decision.id)
            for other in (same, again):
                assert (decision.arm, decision.propensity, decision.arms) == (other.arm, other.propensity, other.arms)
                assert decision.means.tobytes() == other.means.tobytes()
                assert decision.stds.tobytes() == other.stds.tobytes()
                assert decision.propensities.tobytes() == other.propensities.tobytes()
            assert isinstance(decision, lim2.Decision)
            assert again.context.tobytes() == context.tobytes()
            assert (again.time, again.status, again.reward, again.exploit) == (123.5, "pending", None, False)
            assert log.decide(agent, context, exploit=True).exploit


@pytest.mark.parametrize("dtype", ["float32", "int64", ">f8", "bool", "uint8"])
def test_contexts_keep_their_type_and_shape(tmp_path: Path, dtype: str) -> None:
    context = np.array([[0, 1, 0], [1, 1, 0]], dtype=dtype)
    decision = make_agent().decide(X)
    with make_log(tmp_path) as log:
        kept = log.get(log.record(decision, context[:, ::-1]).id).context
    np.testing.assert_array_equal(kept, context[:, ::-1])
    assert kept.dtype.newbyteorder("<") == context.dtype.newbyteorder("<")


def test_rewards_are_learned_in_order_of_arrival(tmp_path: Path) -> None:
    agent, twin = make_agent(), make_agent()
    with make_log(tmp_path) as log:
        decisions = [log.decide(agent, context) for context in contexts(10)]
        order = np.random.default_rng(1).permutation(10)
        for place in order:
            assert log.reward(decisions[place].id, float(place)) == "recorded"
        assert log.apply(agent, limit=4) == 4
        assert agent.metadata["log_position"] == 4
        assert log.apply(agent) == 6
        assert log.apply(agent) == 0
    for place in order:
        twin.update(decisions[place].context, decisions[place].arm, float(place))
    twin.metadata = agent.metadata
    assert learned(agent) == learned(twin)


def test_a_decision_has_one_reward(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        assert [log.reward(id, 1.0), log.reward(id, 1), log.reward(id, float(np.float32(1)))] == [
            "recorded",
            "duplicate",
            "duplicate",
        ]
        with pytest.raises(ConflictingRewardError, match=r"already has the reward 1\.0, got 0\.0"):
            log.reward(id, 0.0)
        assert log.get(id).reward == 1.0
        assert log.apply(agent) == 1
        assert log.reward(id, 1.0) == "duplicate"
        assert log.apply(agent) == 0


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -1e30, "1", None, [1.0, 2.0]])
def test_bad_rewards_are_refused_at_once(tmp_path: Path, reward: Any) -> None:
    with make_log(tmp_path) as log:
        id = log.decide(make_agent(), X).id
        with pytest.raises(ValueError, match="a reward must be one finite number"):
            log.reward(id, reward)
        assert log.get(id).status == "pending"


def test_many_rewards_are_written_all_or_none(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        ids = [log.decide(agent, X).id for _ in range(3)]
        with pytest.raises(UnknownDecisionError, match="'who'"):
            log.reward_many([(ids[0], 1.0), ("who", 1.0)])
        assert log.state.pending == 3
        assert log.reward_many([(ids[1], 1.0), (ids[0], 2.0), (ids[1], 1.0)]) == ["recorded", "recorded", "duplicate"]
        assert log.apply(agent) == 2


def test_own_ids_are_used_once(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        assert log.decide(agent, X, id="order-7").id == "order-7"
        before = agent.to_bytes()
        with pytest.raises(LogError, match="'order-7' is taken"):
            log.decide(agent, X, id="order-7")
        assert agent.to_bytes() == before  # nothing was drawn, and no turn was taken
        with pytest.raises(LogError, match="'order-7' is taken"):
            log.record(agent.decide(X), X, id="order-7")
        for bad in ("", 7, b"x"):
            with pytest.raises(ValueError, match="an id must be a non-empty string"):
                log.decide(agent, X, id=bad)  # type: ignore[arg-type]


def test_expired_decisions_get_the_default_reward(tmp_path: Path) -> None:
    agent, twin, clock = make_agent(), make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=10, default_reward=-1.0, clock=clock) as log:
        first = log.decide(agent, X)
        clock.now = 5.0
        second = log.decide(agent, 2 * X)
        clock.now = 9.0
        assert log.apply(agent) == 0
        clock.now = 12.0
        assert log.reward(second.id, 3.0) == "recorded"  # the first is overdue by now, and settled before
        assert log.get(first.id).status == "default"
        assert log.apply(agent) == 2
        assert log.reward(first.id, 7.0) == "late"
        assert (log.get(first.id).reward, log.state.late) == (-1.0, 1)
        assert log.apply(agent) == 0
    twin.update(X, first.arm, -1.0)
    twin.update(2 * X, second.arm, 3.0)
    twin.metadata = agent.metadata
    assert learned(agent) == learned(twin)


def test_expired_decisions_without_default_are_dropped(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=timedelta(seconds=10), clock=clock) as log:
        id = log.decide(agent, X).id
        clock.now = 10.0
        assert log.expire() == 1
        assert log.expire() == 0
        assert (log.get(id).status, log.get(id).reward) == ("dropped", None)
        assert (log.apply(agent), agent.rounds, agent.metadata["log_position"]) == (0, 0, 1)
        assert log.reward(id, 1.0) == "late"
        assert (log.state.dropped, log.state.pending, len(log.table())) == (1, 0, 0)


def test_whether_a_reward_is_late_depends_on_the_times_alone(tmp_path: Path) -> None:
    outcomes = []
    for looks in (0, 1):
        clock = Clock(0.0)
        (tmp_path / str(looks)).mkdir()
        with make_log(tmp_path / str(looks), expire_after=10, default_reward=0.0, clock=clock) as log:
            ids = []
            for now in (0.0, 4.0, 8.0):
                clock.now = now
                ids.append(log.decide(make_agent(), X).id)
            clock.now = 14.0
            for _ in range(looks):
                log.expire()
            outcomes.append([log.reward(id, 1.0) for id in ids])
            outcomes[-1] += [event[:4] for event in log.store.look(lambda tables: tables.events(0, 3, 9))]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][:3] == ["late", "late", "recorded"]


def test_discarded_decisions_are_left_out(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        ids = [log.decide(agent, X).id for _ in range(3)]
        log.discard(ids[0])
        log.reward(ids[1], 1.0)
        log.reward(ids[2], 1.0)
        log.discard(ids[1])
        assert log.reward(ids[0], 1.0) == "late"
        assert log.apply(agent) == 1
        assert (len(log.table()), log.state.discarded) == (1, 2)


def test_a_reward_that_cannot_be_learned_stops_before_it_and_can_be_discarded(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        good, bad = log.decide(agent, X), log.record(agent.decide(X), X[:2])
        after = log.decide(agent, X)
        for decision in (good, bad, after):
            log.reward(decision.id, 1.0)
        with pytest.raises(ValueError, match="a context must be") as caught:
            log.apply(agent)
        assert "log.discard(id)" in caught.value.__notes__[0]
        assert bad.id in caught.value.__notes__[0]
        assert (agent.rounds, agent.metadata["log_position"]) == (1, 1)
        log.discard(bad.id)
        assert (log.apply(agent), agent.rounds) == (1, 2)


@pytest.mark.parametrize("kind", ["LinearTS", "LiM2", "NeuralLinearNTK"])
def test_replay_gives_the_same_agent(tmp_path: Path, kind: str) -> None:
    agent, fresh, whole = make_agent(kind), make_agent(kind), make_agent(kind)
    with make_log(tmp_path) as log:
        live(log, agent)
        assert log.replay(fresh) == 60
        assert learned(fresh) == learned(agent)
        assert log.replay(whole, decisions=True) == 60
        assert whole.metadata == agent.metadata
        for context in contexts(20, seed=5):
            assert whole.decide(context).arm == agent.decide(context).arm
        with pytest.raises(LogError, match="give replay a new agent"):
            log.replay(fresh)
        with pytest.raises(LogError, match="comes out differently"):
            log.replay(make_agent(kind, seed=1), decisions=True)


def test_a_copy_of_an_earlier_moment_catches_up(tmp_path: Path) -> None:
    import copy

    agent = make_agent("LiM2")
    with make_log(tmp_path) as log:
        live(log, agent, 30)
        saved = copy.deepcopy(agent)
        live(log, agent, 30, seed=1)
    with make_log(tmp_path) as log:
        assert log.apply(saved) == 30
        assert learned(saved) == learned(agent)


def test_old_decisions_are_deleted_once_learned(tmp_path: Path) -> None:
    agent, slow = make_agent(), make_agent()
    with make_log(tmp_path, keep=20) as log:
        ids = live(log, agent, 100)
        state = log.state
        assert state.rewards <= 22
        assert (state.position, state.pruned) == (100, 100 - state.rewards)
        assert len(log.table()) == state.rewards
        with pytest.raises(PrunedLogError, match="a full replay is impossible"):
            log.replay(make_agent())
        with pytest.raises(PrunedLogError, match="Save the agent more often"):
            log.apply(slow)
        assert log.replay(slow, allow_partial=True) == state.rewards
        with pytest.raises(UnknownDecisionError, match="never recorded, or it was settled and has been deleted"):
            log.reward(ids[0], 1.0)
        assert agent.rounds == 100


def test_nothing_is_deleted_before_it_is_learned_or_settled(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path, keep=0) as log:
        waiting = log.decide(agent, X)
        ids = [log.decide(agent, X).id for _ in range(5)]
        for id in ids:
            log.reward(id, 1.0)
        assert log.state.rewards == 5
        log.apply(agent, limit=2)
        assert log.state.rewards == 3
        log.apply(agent)
        assert (log.state.rewards, log.state.pending) == (0, 1)
        assert log.reward(waiting.id, 1.0) == "recorded"


def test_decisions_are_kept_for_a_time(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, keep=timedelta(seconds=100), clock=clock) as log:
        for now in range(0, 300, 10):
            clock.now = float(now)
            log.reward(log.decide(agent, X).id, 1.0)
            log.apply(agent)
        assert log.state.rewards == 10
        assert agent.rounds == 30


def test_an_agent_belongs_to_one_log(tmp_path: Path) -> None:
    agent = make_agent()
    (tmp_path / "other").mkdir()
    with make_log(tmp_path) as log, make_log(tmp_path / "other") as other:
        live(log, agent, 5)
        with pytest.raises(LogError, match="another log"):
            other.apply(agent)
        agent.metadata["log_position"] = 99
        with pytest.raises(LogError, match=r"position 99, .* ends at 5"):
            log.apply(agent)


def test_an_arm_that_nobody_removed_is_an_error(tmp_path: Path) -> None:
    other = lim2.LinearTS(arms=["a", "b"], n_features=N_FEATURES, seed=0)
    with make_log(tmp_path) as log:
        live(log, make_agent(), 10)
        with pytest.raises(LogError, match="no arm 'c'"):
            log.replay(other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expire_after": 0}, "expire_after must be"),
        ({"expire_after": float("nan")}, "expire_after must be"),
        ({"expire_after": "1h"}, "expire_after must be"),
        ({"default_reward": 0.0}, "give expire_after="),
        ({"expire_after": 1, "default_reward": float("nan")}, "a reward must be"),
        ({"keep": -1}, "keep must be"),
        ({"keep": 1.5}, "keep must be"),
        ({"synchronous": "off"}, "synchronous must be"),
    ],
)
def test_settings_are_checked(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_log(tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    log.close()
    log.close()
    with pytest.raises(LogError, match="has been closed"):
        log.decide(make_agent(), X)
    assert log.store.name in repr(log)


def test_the_table_has_what_was_logged(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        one = log.decide(agent, X)
        two = log.decide(agent, 2 * X, arms=["c", "b"])
        log.decide(agent, X)
        log.reward(two.id, 0.25)
        log.reward(one.id, 0.5)
        table = log.table()
        assert log.table(last=2).rewards.tolist() == [0.25]
    assert table.arms == ARMS
    assert (table.rewards.tolist(), table.missing) == ([0.5, 0.25], 1)
    assert [table.arms[i] for i in table.chosen] == [one.arm, two.arm]
    assert table.eligible.tolist() == [[True, True, True], [False, True, True]]
    assert table.propensities is not None
    assert table.propensities[1].tolist() == [0.0, *two.propensities[::-1].tolist()]
    assert table.means is not None
    assert table.means[0].tolist() == one.means.tolist()
