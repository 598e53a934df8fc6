"""An exception at any moment inside a call, such as KeyboardInterrupt: the file stays free, nothing is done by half."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.faults import fails_in_log
from log.world import N_FEATURES, make_agent, make_log

import lim2
from lim2.log import LogError

X = [0.5] * N_FEATURES


def writes(other: lim2.DecisionLog) -> bool:
    """Return whether another handle can write, as another process would."""
    other.configure()
    return True


def decides(log: lim2.DecisionLog, agent: Any, waiting: list[str]) -> None:
    log.decide(agent, X)


def rewards(log: lim2.DecisionLog, agent: Any, waiting: list[str]) -> None:
    log.reward(waiting[-1], 1.0)


def applies(log: lim2.DecisionLog, agent: Any, waiting: list[str]) -> None:
    log.apply(agent)


@pytest.mark.parametrize("call", [decides, rewards, pytest.param(applies, marks=pytest.mark.one_store)])
def test_an_interrupt_at_any_moment_leaves_the_file_free(tmp_path: Path, call: Callable[..., None]) -> None:
    agent, waiting = make_agent(), []
    with make_log(tmp_path, keep=1) as log, make_log(tmp_path) as other:
        for count in range(1, 1000):
            waiting.append(log.decide(agent, X).id)
            log.reward(log.decide(agent, X).id, 1.0)
            if not fails_in_log(count, lambda: call(log, agent, waiting)):
                break
            assert writes(other)
            assert log.reward(waiting[-1], 1.0) in ("recorded", "duplicate")
        assert count > 20
        log.apply(agent)
        assert agent.rounds == log.position


def test_a_signal_handler_cannot_use_a_log_in_the_middle_of_a_call(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        with pytest.raises(LogError, match="signal handler"):
            log.store.write(lambda tables: log.reward(id, 1.0))
        assert log.get(id).status == "pending"


def vectors(log: lim2.DecisionLog, agent: Any) -> str:
    return log.decide(agent, X).id


def items(log: lim2.DecisionLog, agent: Any) -> str:
    return log.decide(agent, X, items=[[0.5], [1.0]]).id


def raw(log: lim2.DecisionLog, agent: Any) -> str:
    return log.decide(agent, {"country": "AT"}).id


@pytest.mark.one_store
@pytest.mark.parametrize(
    ("agent", "decide"),
    [
        (lim2.LinearTS(arms=["a", "b", "c"], n_features=N_FEATURES, seed=0), vectors),
        (lim2.LinearTS(n_features=N_FEATURES, n_item_features=1, seed=0), items),
        (lim2.Bandit(arms=["a", "b", "c"], algorithm=lim2.LinearTS, seed=0), raw),
    ],
)
def test_an_interrupt_at_any_moment_of_learning_lets_nothing_be_learned_twice(
    tmp_path: Path, agent: Any, decide: Callable[..., str]
) -> None:
    with make_log(tmp_path) as log:
        for count in range(1, 1000):
            log.reward(decide(log, agent), 1.0)
            failed = fails_in_log(count, lambda: log.apply(agent), learning=True)
            log.apply(agent)
            assert agent.rounds == agent.metadata["log_position"] == log.position
            if not failed:
                break
        assert count > 20


@pytest.mark.one_store
def test_an_interrupt_at_any_moment_of_a_change_of_arms_changes_them_once(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        for count in range(1, 1000, 3):  # a third of all moments; there are many
            before = log.position
            failed = fails_in_log(count, lambda: log.add_arm(agent, "d"), learning=True)
            log.apply(agent)
            assert agent.metadata["log_position"] == log.position
            assert ("d" in agent.arms) == (log.position > before)
            if not failed:
                break
            if "d" in agent.arms:
                log.remove_arm(agent, "d")
        assert count > 20
