"""Arms that come and go through the log: at the same place in every life."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from log.world import N_FEATURES, learned, live, make_agent, make_log

import lim2
from lim2.log import LogError

X = np.ones(N_FEATURES)


@pytest.mark.parametrize("kind", ["LinearTS", "LiM2"])
def test_restart_and_replay_change_arms_at_the_same_place(tmp_path: Path, kind: str) -> None:
    agent, fresh, again = make_agent(kind), make_agent(kind), make_agent(kind)
    with make_log(tmp_path) as log:
        live(log, agent, 20)
        agent.save(tmp_path / "agent.lim2")
        log.add_arm(agent, ("d", 1), like="a")
        live(log, agent, 20, seed=1)
        log.remove_arm(agent, "b")
        log.add_arm(agent, "e")
        live(log, agent, 20, seed=2)
        assert agent.arms == ("a", "c", ("d", 1), "e")
    with make_log(tmp_path) as log:
        saved = lim2.load(tmp_path / "agent.lim2")
        assert log.apply(saved) == 40
        assert log.replay(fresh) == 60
        assert saved.arms == fresh.arms == agent.arms
        assert learned(saved) == learned(fresh) == learned(agent)
        assert log.replay(again, decisions=True) == 60
        assert again.decide(X).arm == agent.decide(X).arm


def test_rewards_of_a_removed_arm_are_passed_over(tmp_path: Path) -> None:
    agent, fresh = make_agent(), make_agent()
    with make_log(tmp_path) as log:
        decisions = [log.decide(agent, X) for _ in range(6)]
        log.remove_arm(agent, "b")
        assert [log.reward(decision.id, 1.0) for decision in decisions] == ["recorded"] * 6
        assert log.apply(agent) == 4
        assert agent.metadata["log_position"] == log.position == 7
        assert log.replay(fresh) == 4
    assert learned(fresh) == learned(agent)


def test_a_change_learns_what_arrived_before_it(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        decisions = [log.decide(agent, X) for _ in range(6)]
        for decision in decisions:
            log.reward(decision.id, 1.0)
        log.remove_arm(agent, "b")
        assert agent.rounds == 6


def test_what_cannot_be_changed_is_not_written_down(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        live(log, agent, 5)
        before = learned(agent)
        with pytest.raises(ValueError, match="'a'"):
            log.add_arm(agent, "a")
        with pytest.raises(ValueError, match="'x'"):
            log.add_arm(agent, "d", like="x")
        with pytest.raises(ValueError, match="'x'"):
            log.remove_arm(agent, "x")
        with pytest.raises(ValueError, match="cannot be logged"):
            log.add_arm(agent, frozenset())
        assert log.position == 5
        assert learned(agent) == before


def test_an_arm_added_beside_the_log_is_missed_on_restart(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        agent.add_arm("d")
        log.reward(log.decide(agent, X, arms=["d"]).id, 1.0)
        log.apply(agent)
        with pytest.raises(LogError, match=r"no arm 'd'.*log\.add_arm"):
            log.replay(make_agent())
