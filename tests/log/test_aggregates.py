"""Several rewards of one decision: what they make, when it is learned, and what comes too late."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from log.world import N_FEATURES, learned, make_agent, make_log

import lim2
from lim2.log import ConflictingRewardError, LogError

X = np.ones(N_FEATURES)
HOW = {"last": 2.0, "sum": 8.0, "mean": 8.0 / 3.0, "max": 5.0}


@pytest.mark.parametrize("aggregate", HOW)
def test_rewards_are_collected_until_the_decision_expires(tmp_path: Path, aggregate: Any) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=60, default_reward=-1.0, aggregate=aggregate, clock=clock) as log:
        id, silent = log.decide(agent, X).id, log.decide(agent, X).id
        for now, reward in ((1.0, 1.0), (30.0, 5.0), (59.0, 2.0)):
            clock.now = now
            assert log.reward(id, reward) == "recorded"
            assert (log.apply(agent), log.get(id).status) == (0, "pending")
        clock.now = 60.0
        assert log.apply(agent) == 2
        assert log.get(id).status == "reward"
        assert log.get(id).reward == pytest.approx(HOW[aggregate])
        assert (log.get(silent).status, log.get(silent).reward) == ("default", -1.0)
        assert log.reward(id, 100.0) == log.reward(silent, 100.0) == "late"
        assert log.get(id).reward == pytest.approx(HOW[aggregate])
        assert log.state.late == 2
        fresh = make_agent()
        assert log.replay(fresh) == 2
    assert learned(fresh) == learned(agent)


def test_the_first_counts_and_settles_at_once(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path, aggregate="first") as log:
        id = log.decide(agent, X).id
        assert [log.reward(id, reward) for reward in (1.0, 3.0, 1.0)] == ["recorded", "ignored", "duplicate"]
        assert (log.apply(agent), log.get(id).reward) == (1, 1.0)
        assert log.replay(make_agent()) == 1  # the second was not learned


def test_a_named_reward_counts_once_however_often_it_comes(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=60, aggregate="sum", clock=clock) as log:
        id = log.decide(agent, X).id
        sent = [("click", 1.0), ("click", 1.0), ("purchase", 20.0), ("click", 1.0), (None, 1.0), (None, 1.0)]
        outcomes = [log.reward(id, reward, name=name) for name, reward in sent]
        assert outcomes == ["recorded", "duplicate", "recorded", "duplicate", "recorded", "recorded"]
        clock.now = 61.0
        log.apply(agent)
        assert log.get(id).reward == 23.0
        assert log.reward(id, 20.0, name="purchase") == "duplicate"
        with pytest.raises(ValueError, match="name of a reward"):
            log.reward(id, 1.0, name="")


def test_a_name_is_known_again_also_where_one_reward_settles(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        id = log.decide(make_agent(), X).id
        assert log.reward(id, 1.0, name="click") == "recorded"
        assert log.reward(id, 1.0, name="click") == "duplicate"
        assert log.reward(id, 1.0, name="the same once more") == "duplicate"
        with pytest.raises(ConflictingRewardError, match="unless the setting aggregate"):
            log.reward(id, 2.0)


def test_many_rewards_may_have_names(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=60, aggregate="sum", clock=clock) as log:
        id = log.decide(agent, X).id
        sent: list[Any] = [(id, 1.0, "click"), (id, 1.0, "click"), (id, 5.0, None), (id, 2.0)]
        assert log.reward_many(sent) == ["recorded", "duplicate", "recorded", "recorded"]
        clock.now = 61.0
        log.apply(agent)
        assert log.get(id).reward == 8.0


def test_slates_collect_by_position(tmp_path: Path) -> None:
    bandit, clock = lim2.Bandit(seed=0), Clock(0.0)
    items = {"a": {"price": 1}, "b": {"price": 2}}
    with make_log(tmp_path, expire_after=60, aggregate="sum", clock=clock) as log:
        slate = log.rank(bandit, {"country": "AT"}, items, 2)
        log.reward(slate.id, {1: 1.0, 2: 2.0})
        log.reward(slate.id, {2: 3.0})
        clock.now = 60.0
        assert log.apply(bandit) == 2
        assert [log.get(entry.id).reward for entry in slate] == [1.0, 5.0]


def test_settings_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one of 'first'"):
        make_log(tmp_path, aggregate="median")
    with pytest.raises(ValueError, match="expire_after="):
        make_log(tmp_path, aggregate="sum")
    with make_log(tmp_path, expire_after=60, aggregate="sum") as log:
        with pytest.raises(LogError, match="aggregate='max'"):
            make_log(tmp_path, expire_after=60, aggregate="max")
        with make_log(tmp_path) as other:
            assert (other.aggregate, other.expire_after, other.default_reward) == ("sum", 60.0, None)
        log.configure(expire_after=60)
        assert log.aggregate is None


def test_what_was_collected_is_settled_by_the_settings_of_then(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=60, aggregate="sum", clock=clock) as log:
        id = log.decide(agent, X).id
        log.reward(id, 1.0)
        log.reward(id, 5.0)
        log.configure(expire_after=10, aggregate="max")
        clock.now = 11.0
        assert (log.apply(agent), log.get(id).reward) == (1, 5.0)


@pytest.mark.parametrize("aggregate", [None, "first", "sum"])
def test_a_decision_that_is_not_active_is_not_learned(tmp_path: Path, aggregate: Any) -> None:
    agent, clock = make_agent(), Clock(0.0)
    settings = {"expire_after": 60, "default_reward": -1.0, "aggregate": aggregate, "clock": clock}
    with make_log(tmp_path, **settings) as log:
        never, rewarded, silent, early = (log.decide(agent, X, active=False).id for _ in range(4))
        assert log.reward(never, 1.0) == log.reward(rewarded, 2.0) == "recorded"
        assert log.activate(rewarded) and log.activate(silent) and log.activate(early)
        assert log.activate(silent)  # once more changes nothing
        assert log.reward(early, 3.0) == "recorded"
        clock.now = 60.0
        log.expire()
        found = {
            id: (log.get(id).status, log.get(id).reward, log.get(id).active) for id in (never, rewarded, silent, early)
        }
        assert found == {
            never: ("dropped", None, False),
            rewarded: ("reward", 2.0, True),
            silent: ("default", -1.0, True),
            early: ("reward", 3.0, True),
        }
        assert not log.activate(never)
        assert log.apply(agent) == 3


def test_an_inactive_decision_has_one_reward_too(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        id = log.decide(make_agent(), X, active=False).id
        assert [log.reward(id, 1.0), log.reward(id, 1.0)] == ["recorded", "duplicate"]
        with pytest.raises(ConflictingRewardError):
            log.reward(id, 2.0)
        with pytest.raises(ValueError, match="active must be"):
            log.decide(make_agent(), X, active=1)  # type: ignore[arg-type]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.sampled_from(["first", "last", "sum", "mean", "max"]))
@pytest.mark.one_store
@settings(max_examples=20, deadline=None)
def test_what_rewards_make(rewards: list[float], how: Any) -> None:
    expected = {"first": rewards[0], "last": rewards[-1], "sum": np.sum(rewards), "mean": np.mean(rewards)}
    now = [0.0]
    with (
        TemporaryDirectory() as folder,
        make_log(Path(folder), expire_after=1.0, aggregate=how, clock=lambda: now[0]) as log,
    ):
        id = log.decide(make_agent(), X).id
        log.reward_many([(id, reward, str(place)) for place, reward in enumerate(rewards)])
        now[0] = 2.0
        log.expire()
        assert log.get(id).reward == pytest.approx(expected.get(how, max(rewards)), abs=1e-6)
