"""An agent that learns from a log learns from nothing else, and from no other file."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.learning import learn
from log.world import N_FEATURES, live, make_agent, make_log

import lim2
from lim2.log import LogError, Table

X = np.ones(N_FEATURES)


@pytest.mark.parametrize(
    ("agent", "update"),
    [
        (make_agent(), lambda agent: agent.update(X, "a", 1.0)),
        (make_agent(), lambda agent: agent.update([X], ["a"], [1.0])),
        (make_agent(), lambda agent: Table.of([X], ["a"], [1.0], [0.5]).replay(agent)),
        (lim2.LinearTS(n_features=1, n_item_features=1), lambda agent: agent.update([1.0], [1.0], 1.0)),
        (lim2.LinearTS(n_features=1, n_item_features=1), lambda agent: agent.update([[1.0]], [[1.0]], [1.0])),
        (lim2.Bandit(), lambda agent: learn(agent, {"x": 1}, "a", 1.0, item={"y": 1})),
        (lim2.Bandit(arms=["a", "b"]), lambda agent: learn(agent, {"x": 1}, "a", 1.0)),
        (lim2.Bandit(arms=["a", "b"]), lambda agent: agent.update(agent.decide({"x": 1}), 1.0)),
    ],
)
def test_updates_beside_the_log_are_refused(tmp_path: Path, agent: Any, update: Callable[[Any], None]) -> None:
    agent = copy.deepcopy(agent)
    with make_log(tmp_path) as log:
        log.apply(agent)
        with pytest.raises(ValueError, match=r"log\.reward\(id, reward\)"):
            update(agent)
        assert agent.rounds == 0
        for key in [key for key in agent.metadata if key.startswith("log_")]:
            del agent.metadata[key]
        update(agent)
        assert agent.rounds == 1


@pytest.mark.parametrize("keep", [None, 0])
def test_an_agent_ahead_of_its_log_is_refused_after_new_rewards(tmp_path: Path, keep: int | None) -> None:
    agent, other = make_agent(), make_agent()
    with make_log(tmp_path) as log:
        live(log, agent, 5)
        log.backup(tmp_path / "copy.db")
        live(log, agent, 3)
        log.apply(agent)
    with lim2.DecisionLog(tmp_path / "copy.db", synchronous="normal", keep=keep) as earlier:
        live(earlier, other, 3)
        with pytest.raises(LogError, match=r"position 8, .*older copy"):
            earlier.apply(agent)
        live(earlier, other, 7)
        with pytest.raises(LogError, match=r"older copy|Save the agent more often"):
            earlier.apply(agent)
        assert agent.rounds == 8
