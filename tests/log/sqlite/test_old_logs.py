"""Logs and files of lim2 0.2, whose agents had a floor per arm, `min_propensity`, instead of `epsilon`.

They are in tests/data/logs-0.2: 30 decisions each of LinearTS(arms=ARMS, n_features=2, initial_pulls=1, seed=5,
min_propensity=0.1), with Thompson sampling and with UCB(2.0), and of LinearTS(n_features=2, n_item_features=2, seed=5,
min_propensity=0.3), every seventh a slate. The agents were saved after 20 decisions.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lim2
from lim2.exploration import UCB
from lim2.log import LogError

FOLDER = Path(__file__).parents[2] / "data" / "logs-0.2"
ARMS = ["red", "green", "blue"]
AGENTS: dict[str, dict[str, Any]] = {
    "arms": {"arms": ARMS, "n_features": 2, "initial_pulls": 1},
    "arms-ucb": {"arms": ARMS, "n_features": 2, "initial_pulls": 1, "exploration": UCB(2.0)},
    "items": {"n_features": 2, "n_item_features": 2},
}
EPSILON = 0.3  # a floor of 0.1 for each of three arms, and a share of 0.3 with items

every_log = pytest.mark.parametrize("name", AGENTS)


@pytest.fixture
def log(name: str, tmp_path: Path) -> lim2.DecisionLog:
    shutil.copy(FOLDER / f"{name}.db", tmp_path)
    return lim2.DecisionLog(tmp_path / f"{name}.db")


@every_log
def test_a_log_replays_to_the_same_decisions_and_propensities(name: str, log: lim2.DecisionLog) -> None:
    with log:
        assert log.replay(lim2.LinearTS(**AGENTS[name], epsilon=EPSILON, seed=5), decisions=True) == 30
        for other in (0.0, 0.1, EPSILON + 1e-10):
            with pytest.raises(LogError, match="comes out differently"):
                log.replay(lim2.LinearTS(**AGENTS[name], epsilon=other, seed=5), decisions=True)


@every_log
def test_a_saved_agent_has_the_share_and_decides_as_logged(name: str, log: lim2.DecisionLog) -> None:
    agent = lim2.load(FOLDER / f"{name}.lim2")
    assert agent.epsilon == pytest.approx(EPSILON, abs=1e-15)
    assert agent.get_params()["epsilon"] == agent.epsilon
    with log:
        for t in range(20, 30):
            logged: Any = log.get(f"{t}/1" if name == "items" and t % 7 == 6 else str(t))
            items = [] if name != "items" else [dict(zip(logged.arms, logged.items, strict=True))]
            np.testing.assert_allclose(agent.propensities(logged.context, *items), logged.propensities, atol=1e-12)
            log.apply(agent, limit=1)
    assert agent.rounds == 30


def test_a_saved_bandit_has_the_share() -> None:
    bandit = lim2.load(FOLDER / "bandit.lim2")
    assert bandit.epsilon == pytest.approx(EPSILON, abs=1e-15)
    propensities = bandit.propensities({"age": 30, "device": "phone"})
    assert propensities.min() >= EPSILON / 3 - 1e-12
    assert lim2.from_bytes(bandit.to_bytes()).epsilon == bandit.epsilon
