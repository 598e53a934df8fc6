"""The published numbers on Statlog: cumulative reward of 5,000 rounds, mean of 5 runs."""

import os

import numpy as np
import pytest

import lim2
from lim2 import problems

RUNS, ROUNDS = 5, 5000
needs_data = pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="needs Statlog: set LIM2_DATA to its folder")

# (paper's mean, how far below and above ours may be); LiM2 may be better
PUBLISHED = {
    "LiM2": (4820.0, 40.0, 180.0),
    "LinearTS": (4460.0, 60.0, 60.0),
    "NeuralLinear": (4729.0, 60.0, 60.0),
    "NeuralLinear-MM": (4545.0, 60.0, 60.0),
    "NeuralLinear-Naive": (4476.0, 60.0, 60.0),
    "NeuralLinear-NTK": (4722.0, 60.0, 60.0),
}


def cumulative_reward(name: str, seed: int) -> float:
    problem = problems.load("statlog", rounds=ROUNDS, seed=seed)
    agent = lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=seed)
    total = 0.0
    for context, rewards in zip(problem.contexts, problem.rewards, strict=True):
        arm = agent.act(context)
        agent.update(context, arm, rewards[arm])
        total += rewards[arm]
    return total


@needs_data
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_reward(name: str) -> None:
    rewards = [cumulative_reward(name, seed) for seed in range(RUNS)]
    published, below, above = PUBLISHED[name]
    mean = float(np.mean(rewards))
    assert published - below <= mean <= published + above, f"{name}: {mean:.0f}, published {published:.0f}; {rewards}"
