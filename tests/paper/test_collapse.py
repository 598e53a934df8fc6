"""Diverged training plays arm 0, and the report says of which datasets that explains the published rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from paper.fabricated import tables

from lim2.experiments.names import agent_named
from lim2.experiments.runner import make, play
from lim2.paper.run import EXPERIMENTS
from lim2.problems import Problem


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("method", ["NeuralUCB", "NeuralTS"])
def test_diverged_training_plays_the_first_arm(method: str) -> None:
    contexts = np.random.default_rng(0).normal(size=(80, 4)) * 30.0
    problem = Problem("large contexts", contexts, np.eye(3)[np.arange(80) % 3])
    spec = agent_named("lim2.paper.diverging:Diverging").with_settings({"method": method})
    agent: Any = make(spec, problem, 0)
    played = play(agent, problem)
    [[at]] = played.traces.values()
    assert 1 <= at < 80
    assert (played.arms[int(at) :] == 0).all()


def runs(reward: float, diverged: float | None = None) -> list[dict[str, Any]]:
    trace = [] if diverged is None else [{"name": "diverged", "values": [diverged]}]
    return [{"reward": reward + change, "traces": trace} for change in (-10.0, 0.0, 10.0)]


def test_the_report_says_what_the_collapse_explains() -> None:
    cells = {
        ("adult", "arm 0"): runs(3760.0), ("adult", "NeuralUCB"): runs(3750.0, 20.0),
        ("adult", "NeuralTS"): runs(2900.0, 900.0), ("adult", "Uniform"): runs(2500.0),
    }  # fmt: skip
    section = EXPERIMENTS["collapse"].section(tables(cells))
    assert section is not None
    assert "NeuralUCB: the simulated collapse comes within 5% of the published reward on Adult;" in section.findings[0]
    assert (
        "NeuralTS: the simulated collapse comes within 5% of the published reward on no dataset" in section.findings[1]
    )
    [row] = section.sheets[0].rows
    assert row[2].below == "paper 3,768 ± 2; diverged in 3 of 3, round 20"
