"""Input that is not what it seems: refused with a message that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log.world import N_FEATURES, make_agent, make_log

import lim2
from lim2.log import LogError, Table

X = np.ones(N_FEATURES)
MASKED = np.ma.masked_array(X, [False, True, False, False])
HUGE = 10**400
NAN = float("nan")

evaluate: Any = lim2.evaluate


@pytest.mark.parametrize(
    "call",
    [
        lambda agent, log: agent.act(MASKED),
        lambda agent, log: agent.act_many(MASKED[None]),
        lambda agent, log: agent.update(MASKED, "a", 1.0),
        lambda agent, log: agent.update(X, "a", np.ma.masked),
        lambda agent, log: agent.update([X], ["a"], np.ma.masked_array([1.0], [True])),
        lambda agent, log: log.decide(agent, MASKED),
        lambda agent, log: Table.of(MASKED[None], ["a"], [1.0], [0.5]),
        lambda agent, log: Table.of([X], ["a"], np.ma.masked_array([1.0], [True]), [0.5]),
    ],
)
def test_masked_arrays_are_refused(tmp_path: Path, call: Callable[..., Any]) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log, pytest.raises(ValueError, match="masked"):
        call(agent, log)
    assert agent.rounds == 0


def test_a_masked_array_that_hides_nothing_is_an_array() -> None:
    agent = make_agent()
    agent.update(np.ma.masked_array(X), "a", 1.0)
    assert agent.rounds == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda agent, log: agent.update(X, "a", HUGE), "a reward must be"),
        (lambda agent, log: agent.act([HUGE, 1, 1, 1]), "real numbers only"),
        (lambda agent, log: log.reward("x", HUGE), "a reward must be"),
        (lambda agent, log: log.configure(expire_after=HUGE), "expire_after must be"),
        (lambda agent, log: log.configure(expire_after=1, default_reward=HUGE), "a reward must be"),
        (lambda agent, log: log.table(last=HUGE), "last must be"),
        (lambda agent, log: log.table(last=-1), "last must be"),
        (lambda agent, log: log.apply(agent, limit="all"), "limit must be"),
        (lambda agent, log: agent.update(X, HUGE, 1.0), "unknown arm"),
        (lambda agent, log: agent.act(X, arms=[2**63]), "unknown arm"),
        (lambda agent, log: lim2.LinearTS(n_arms=2**63, n_features=2), "n_arms must be at most"),
        (lambda agent, log: lim2.LinearTS(n_arms=HUGE, n_features=2), "n_arms must be at most"),
        (lambda agent, log: evaluate("log.db", agent), r"log must be .* lim2\.DecisionLog\('log\.db'\)"),
        (lambda agent, log: evaluate(None, agent), "log must be"),
        (lambda agent, log: log.apply(agent.snapshot()), "cannot learn"),
        (lambda agent, log: log.replay(agent.snapshot()), "cannot learn"),
        (lambda agent, log: log.add_arm(agent.snapshot(), "d"), "cannot learn"),
        (lambda agent, log: log.apply("agent.lim2"), "cannot learn"),
        (lambda agent, log: log.apply(lim2.Bandit(arms=["a", "b"]).snapshot()), "cannot learn"),
        (lambda agent, log: Table.of([X], [NAN], [1.0], [0.5]), "NaN"),
        (lambda agent, log: Table.of([X], ["a"], [1.0], [0.5], arms=["a", NAN]), "NaN"),
        (lambda agent, log: Table.of([X], ["a"], [1.0], [0.5], eligible=[["a", NAN]]), "NaN"),
        (lambda agent, log: Table.of([X], ["a"], [NAN], [0.5]), "rewards must be finite"),
    ],
)
def test_other_input_is_refused(tmp_path: Path, call: Callable[..., Any], message: str) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log, pytest.raises(ValueError, match=message) as caught:
        call(agent, log)
    assert len(str(caught.value)) < 400
    assert (agent.rounds, agent.metadata) == (0, {})


@pytest.mark.parametrize("name", ["order\0", "\ud800", "x" * 513])
def test_what_not_every_store_can_hold_is_no_id_key_or_name(tmp_path: Path, name: str) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        made = log.decide(agent, X, id="order")
        for call in (
            lambda: log.decide(agent, X, id=name),
            lambda: log.decide(agent, X, key=name),
            lambda: log.record(made, X, id=name),
            lambda: log.record_many([made], [X], keys=[name]),
            lambda: log.record_slate([made], X, id=name),
            lambda: log.reward(name, 1.0),
            lambda: log.reward("order", 1.0, name=name),
            lambda: log.activate(name),
            lambda: log.discard(name),
            lambda: log.get(name),
            lambda: log.erase(name),
        ):
            with pytest.raises(ValueError, match=r"must be text of at most 512 characters, without .* NUL") as caught:
                call()
            assert len(str(caught.value)) < 700
        assert (log.state.pending, log.state.position) == (1, 0)


def test_ids_and_keys_of_the_largest_size_are_found_again(tmp_path: Path) -> None:
    agent, longest = make_agent(), "".join(chr(0x10000 + 7 * n) for n in range(512))  # four bytes each
    with make_log(tmp_path) as log:
        assert log.decide(agent, X, id=longest, key=longest).id == longest
        assert log.reward(longest, 5e-324, name=longest) == "recorded"
        assert (log.get(longest).reward, log.get(longest).key) == (5e-324, longest)
        log.decide(agent, X, id="'; DROP SCHEMA lim2 CASCADE; -- %s {}")
        assert log.erase(longest) == 1
        assert log.record_slate([agent.decide(X)], X, id=longest).id == longest


def test_texts_within_json_are_kept_as_they_came(tmp_path: Path) -> None:
    odd = {"\0": "a\0b", "half": "\ud800", "\udc00": 2**90}
    with make_log(tmp_path) as log:
        bandit = lim2.Bandit(arms=["a\0", "\ud800"], algorithm="LinearTS", log=log, seed=0)
        made = bandit.decide(odd, metadata=odd)
        log.reward(made.id, 1.0)
        assert log.add_arm(bandit, "c\0")
        for entry in (made, log.get(made.id)):
            assert (entry.raw, entry.metadata, entry.arms) == (odd, odd, ("a\0", "\ud800"))
        again = bandit.clone()
        assert log.replay(again) == 1 and again.arms == ("a\0", "\ud800", "c\0")


def test_a_snapshot_of_an_agent_of_another_kind_is_refused_too(tmp_path: Path) -> None:
    snapshot = lim2.LinearTS(n_features=1, n_item_features=1).snapshot()
    with make_log(tmp_path) as log, pytest.raises(LogError, match="cannot learn"):
        log.apply(snapshot)
