"""The published numbers on Statlog: cumulative reward of 5,000 rounds.

One run of the slow methods, two or three of the others; with LIM2_STATLOG=1 five of each. docs/results has ten of each.
"""

import os

import numpy as np
import pytest

import lim2
from lim2 import problems
from lim2.experiments import play
from lim2.paper.published import dataset

needs_data = pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="needs Statlog: set LIM2_DATA to its folder")

PUBLISHED = dataset("statlog").raw
WHOLE = bool(os.environ.get("LIM2_STATLOG"))
RUNS = {"LiM2": 2, "NeuralLinearMM": 1, "NeuralLinearNaive": 1, "NeuralUCB": 1, "NeuralTS": 1}
# How far below and above the paper the mean may be; LiM2, NeuralUCB and NeuralTS may be better.
TOLERANCE = {"LiM2": (60, 180), "NeuralUCB": (3, 925), "NeuralTS": (265, 652)}


def cumulative_reward(name: str, seed: int) -> float:
    problem = problems.load("statlog", rounds=5000, seed=seed)
    played = play(lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=seed), problem)
    return float(problem.rewards[np.arange(5000), played.arms].sum())


@needs_data
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_reward(name: str) -> None:
    runs = 5 if WHOLE else RUNS.get(name, 3)
    rewards = [cumulative_reward(name, seed) for seed in range(runs)]
    below, above = TOLERANCE.get(name, (100, 100) if runs == 1 else (60, 60))
    published, mean = PUBLISHED[name][0], float(np.mean(rewards))
    assert published - below <= mean <= published + above, f"{name}: {mean:.0f}, published {published}; {rewards}"
