"""A person's decisions are deleted for good: from the log, from its file, and from what is learned of it later."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from helpers.clock import Clock
from log.world import N_FEATURES, contents, contexts, learned, make_agent, make_log

import lim2
from lim2.log import LogError, UnknownDecisionError

X = np.ones(N_FEATURES)
SECRET = "Mozartgasse 7"


def test_metadata_and_key_come_back(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        made = log.decide(make_agent(), X, key="ann", metadata={"version": "2.1", "at": (1, 2)})
        for entry in (made, log.get(made.id)):
            assert (entry.key, entry.metadata, entry.active) == ("ann", {"at": [1, 2], "version": "2.1"}, True)
        plain = log.decide(make_agent(), X)
        assert (plain.key, plain.metadata) == (None, None)
        with pytest.raises(ValueError, match="key must be a non-empty string"):
            log.decide(make_agent(), X, key="")
        with pytest.raises(ValueError, match="metadata has a value of type bytes"):
            log.decide(make_agent(), X, metadata={"x": b""})
        assert log.state.pending == 2


def test_many_carry_their_own(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        made = log.decide_many(
            agent, contexts(3), ids=["a", "b", "c"], keys=["ann", None, "bea"], metadata=[1, None, 2]
        )
        assert [(log.get(one.id).key, log.get(one.id).metadata) for one in made] == [
            ("ann", 1),
            (None, None),
            ("bea", 2),
        ]
        with pytest.raises(ValueError, match="keys must be a sequence of 2"):
            log.decide_many(agent, contexts(2), keys=["ann"])
        with pytest.raises(LogError, match="taken"):
            log.decide_many(agent, contexts(2), ids=["d", "a"])
        with pytest.raises(LogError, match="the same id"):
            log.record_many([agent.decide(X)] * 2, [X, X], ids=["e", "e"])
        assert log.state.pending == 3


def test_bandits_pass_them_on(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = lim2.Bandit(arms=["a", "b"], seed=0, log=log)
        assert log.get(bandit.decide({"x": 1}, key="ann", metadata={"n": 1}).id).key == "ann"
        assert log.get(bandit.rank({"x": 1}, key="bea").id + "/2").key == "bea"
    with pytest.raises(ValueError, match="this bandit has none"):
        lim2.Bandit(arms=["a", "b"]).decide({"x": 1}, key="ann")


def test_nothing_of_a_person_is_left_in_the_file(tmp_path: Path) -> None:
    bandit, clock = lim2.Bandit(arms=["a", "b"], algorithm="LinearTS", seed=0), Clock(0.0)
    with make_log(tmp_path, expire_after=100, aggregate="sum", clock=clock) as log:
        for number in range(30):
            key = "ann" if number % 3 == 0 else f"person {number}"
            street = SECRET if key == "ann" else "elsewhere"
            made = log.decide(bandit, {"street": street, "n": number}, key=key, metadata={"home": street})
            if number < 20:
                log.reward(made.id, 1.0, name=street)
        clock.now = 50.0
        assert SECRET.encode() in contents(tmp_path)
        assert log.erase("ann") == 10
        assert SECRET.encode() not in contents(tmp_path)
        assert b"person 1" in contents(tmp_path)
        assert log.erase("ann") == 0
        assert log.state.pending == 20


def test_what_is_erased_is_neither_learned_nor_replayed(tmp_path: Path) -> None:
    agent, fresh, slow, other = make_agent(), make_agent(), make_agent(), make_agent()
    with make_log(tmp_path) as log:
        for number, context in enumerate(contexts(30)):
            made = log.decide(agent, context, key="ann" if number % 3 else "bea")
            log.reward(made.id, float(context[0]))
            if not number % 3:
                other.update(context, made.arm, float(context[0]))
        waiting = log.decide(agent, X, key="ann").id
        log.apply(agent)
        assert log.erase("ann") == 21
        assert (log.position, log.state.erased, log.state.rewards, log.state.pending) == (30, 20, 10, 0)
        assert log.apply(agent) == 0  # it stays as it is
        assert (log.apply(slow), log.replay(fresh), len(log.table())) == (10, 10, 10)
        assert learned(slow) == learned(fresh)
        np.testing.assert_array_equal(fresh.means(X), other.means(X))
        with pytest.raises(UnknownDecisionError):
            log.reward(waiting, 1.0)


def test_what_was_erased_is_pruned_like_the_rest(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, keep=timedelta(seconds=10), clock=clock) as log:
        for _ in range(4):
            log.reward(log.decide(agent, X, key="ann").id, 1.0)
        log.erase("ann")
        log.apply(agent)
        clock.now = 20.0
        log.reward(log.decide(agent, X, key="bea").id, 1.0)
        log.apply(agent)
        assert (log.state.erased, log.state.pruned, log.position) == (0, 4, 5)
