"""Slates: a row per position, and rewards by position, all or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from log.stand_ins import ItemLearner, RawLearner
from log.test_items import CATALOGUE, USERS
from log.world import make_log

from lim2.log import ConflictingRewardError, LogError, UnknownDecisionError


def test_a_slate_is_a_row_per_position(tmp_path: Path) -> None:
    bandit = RawLearner(["country"])
    with make_log(tmp_path) as log:
        slate = log.rank(bandit, USERS[0], CATALOGUE, 3, id="page-1")
        assert (slate.id, len(slate), len(set(slate.arms))) == ("page-1", 3, 3)
        rows = [log.get(f"page-1/{position}") for position in (1, 2, 3)]
        assert [row.position for row in rows] == [1, 2, 3]
        assert [row.arm for row in rows] == list(slate.arms)
        assert rows[0].raw_items == CATALOGUE
        for row in rows[1:]:
            assert (row.arms, row.items) == ((row.arm,), {row.arm: CATALOGUE[str(row.arm)]})
            assert row.propensities.tolist() == [row.propensity]
        made = log.rank(bandit, USERS[0], CATALOGUE, 2)
        assert [row.id for row in made] == [f"{made.id}/1", f"{made.id}/2"]


@pytest.mark.parametrize("by_name", [True, False])
def test_vectors_of_shown_items_are_kept(tmp_path: Path, by_name: bool) -> None:
    agent, array = ItemLearner(4), np.eye(4)
    items: Any = dict(zip("wxyz", array, strict=True)) if by_name else array
    with make_log(tmp_path) as log:
        slate = log.record_slate(agent.rank([0.0], items, 3), [0.0], items=items)
        log.reward(slate.id, {1: 1.0, 2: 2.0, 3: 3.0})
        log.apply(agent)
    names = "wxyz" if by_name else range(4)
    assert [item for _, item, _ in agent.heard] == [array[list(names).index(arm)].tolist() for arm in slate.arms]


def test_rewards_of_positions_are_written_all_or_none(tmp_path: Path) -> None:
    bandit = RawLearner(["country"])
    with make_log(tmp_path) as log:
        id = log.rank(bandit, USERS[0], CATALOGUE, 3).id
        for rewards, message in (
            ({1: 1.0, 4: 1.0}, f"'{id}/4'"),
            ({1: 1.0, 2: float("nan")}, "one finite number"),
            ({1: 1.0, 0: 1.0}, "at least 1"),
            ({1: 1.0, "2": 1.0}, "'slot 2'"),
            ({1: 1.0, "slot 1": 1.0}, "at most once"),
            ({2: 1.0, True: 1.0}, "whole number"),
            ({1: 1.0, "slot x": 2.0}, "whole number"),
            ({}, "got none"),
        ):
            with pytest.raises(ValueError, match=message):
                log.reward(id, rewards)
        assert log.state.pending == 3
        assert log.reward(id, {"slot 2": 1.0}) == {"slot 2": "recorded"}
        with pytest.raises(ConflictingRewardError, match="has the reward 1"):
            log.reward(id, {1: 0.5, 2: 0.5})
        assert log.state.pending == 2
        assert log.reward(id, {1: 0.5, np.int64(2): 1.0}) == {1: "recorded", 2: "duplicate"}
        assert log.reward(f"{id}/3", 0.0) == "recorded"
        assert log.apply(bandit) == 3
    assert [(reward, position) for _, _, reward, _, position in bandit.heard] == [(1.0, 2), (0.5, 1), (0.0, 3)]


def test_a_slate_and_a_decision_are_not_confused(tmp_path: Path) -> None:
    bandit = RawLearner(["country"])
    with make_log(tmp_path) as log:
        slate = log.rank(bandit, USERS[0], CATALOGUE, 2, id="a")
        single = log.decide(bandit, USERS[0], items=CATALOGUE)
        for call in (lambda: log.reward(slate.id, 1.0), lambda: log.get(slate.id)):
            with pytest.raises(UnknownDecisionError, match="'a' is a slate"):
                call()
        with pytest.raises(UnknownDecisionError, match="no decision"):
            log.reward(single.id, {1: 1.0})
        state = bandit.rng.bit_generator.state
        for taken in (lambda: log.rank(bandit, {}, CATALOGUE, 2, id="a"), lambda: log.decide(bandit, {}, id="a/1")):
            with pytest.raises(LogError, match="is taken"):
                taken()
        assert bandit.rng.bit_generator.state == state
        with pytest.raises(LogError, match="is taken"):
            log.record_slate(slate, raw={}, raw_items=CATALOGUE, id=single.id)
        log.record(bandit.decide({}, CATALOGUE), raw={}, raw_items=CATALOGUE, id="b/2")
        with pytest.raises(LogError, match="is taken"):
            log.record_slate(slate, raw={}, raw_items=CATALOGUE, id="b")
        assert log.state.pending == 4


def test_positions_without_a_reward_expire(tmp_path: Path) -> None:
    bandit, clock = RawLearner(["country"]), Clock(0.0)
    with make_log(tmp_path, clock=clock, expire_after=10, default_reward=0.0) as log:
        log.reward(log.rank(bandit, USERS[0], CATALOGUE, 3).id, {2: 1.0})
        clock.now = 20.0
        assert log.apply(bandit) == 3
    assert [(reward, position) for _, _, reward, _, position in bandit.heard] == [(1.0, 2), (0.0, 1), (0.0, 3)]


def test_what_is_no_slate_is_refused(tmp_path: Path) -> None:
    bandit = RawLearner(["country"])
    one = bandit.decide(USERS[0], CATALOGUE)
    other = bandit.decide(USERS[0], {"new": {}})
    with make_log(tmp_path) as log:
        for slate, message in (
            ([], "empty"),
            ([one, one], "each item at most once"),
            ([one, other], "one entry per arm"),
        ):
            with pytest.raises(ValueError, match=message):
                log.record_slate(slate, raw={}, raw_items=list(CATALOGUE.values()))
        assert log.state.pending == 0


def test_the_table_has_first_positions(tmp_path: Path) -> None:
    bandit = RawLearner(["country"])
    with make_log(tmp_path) as log:
        slate = log.rank(bandit, USERS[0], CATALOGUE, 3)
        log.reward(slate.id, {1: 1.0, 2: 0.5})
        log.rank(bandit, USERS[0], CATALOGUE, 3)
        table = log.table()
    assert (table.rewards.tolist(), table.missing) == ([1.0], 1)
