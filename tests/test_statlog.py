"""The published numbers on Statlog: cumulative reward of 5,000 rounds, mean of 5 runs."""

import os

import numpy as np
import pytest

from benchmarks.statlog import PUBLISHED, cumulative_reward

needs_data = pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="needs Statlog: set LIM2_DATA to its folder")


@needs_data
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_reward(name: str) -> None:
    rewards = [cumulative_reward(name, seed) for seed in range(5)]
    below, above = (40, 180) if name == "LiM2" else (60, 60)  # LiM2 may be better
    published, mean = PUBLISHED[name][0], float(np.mean(rewards))
    assert published - below <= mean <= published + above, f"{name}: {mean:.0f}, published {published}; {rewards}"
