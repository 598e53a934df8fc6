"""Where rewards lie and how much they vary, by running moments: the scale in which priors and targets are given."""

import math
from typing import Annotated, NamedTuple

from lim2.state import Count

ROUNDING = 1e-9  # a deviation of rewards below this share of their mean is rounding
SMALLEST = 1e-30  # a smaller scale counts as none

Nonnegative = Annotated[float, "", "nonnegative"]


class RewardScale(NamedTuple):
    """The centre and the scale in use, and the moments of all rewards from which they are refreshed."""

    centre: float
    scale: Annotated[float, "", "positive"]
    observed: Count
    mean: float
    squares: Nonnegative  # sum of squared distances from the mean


NO_REWARDS = RewardScale(0.0, 1.0, 0, 0.0, 0.0)


def observe(rewards: RewardScale, reward: float) -> RewardScale:
    """Return the moments with one more reward; centre and scale stay.

    Examples
    --------
    >>> rewards = refreshed(observe(observe(NO_REWARDS, -30.0), 10.0), least=0.0)
    >>> rewards.centre, rewards.scale
    (-10.0, 20.0)
    """
    centre, scale, observed, mean, squares = rewards
    distance = reward - mean
    mean += distance / (observed + 1)
    return RewardScale(centre, scale, observed + 1, mean, squares + distance * (reward - mean))


def refreshed(rewards: RewardScale, least: float) -> RewardScale:
    """Return the moments with centre and scale taken from them; the scale is at least ``least``."""
    deviation = math.sqrt(rewards.squares / max(rewards.observed, 1))
    scale = deviation if deviation > ROUNDING * abs(rewards.mean) else abs(rewards.mean)
    scale = max(scale if scale > SMALLEST else 1.0, least)
    return rewards._replace(centre=rewards.mean, scale=scale)


def check(rewards: RewardScale) -> None:
    """Raise a ValueError unless a loaded scale is one that :func:`refreshed` gives."""
    if rewards.scale < SMALLEST:
        raise ValueError(f"the scale of rewards is {rewards.scale}: too small")
