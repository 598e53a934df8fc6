"""Centre and scale of rewards by running moments, used for priors and targets."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from lim2.checks import LARGEST, number
from lim2.moments import combined
from lim2.state import Array, Count

ROUNDING = 1e-9  # a deviation of rewards below this share of their mean is rounding
SMALLEST = 1e-30  # a smaller scale counts as none

Nonnegative = Annotated[float, "", "nonnegative"]


LIMIT_DEVIATIONS = 20.0  # a reward further from the median than so many deviations counts as so far
LIMIT_STEPS, RARE_REWARDS = 30, 3  # so few rewards do not recur, however few there are in all


class RewardScale(NamedTuple):
    """The moments of the rewards up to the last refit, the scale that they give, and limits of single rewards."""

    scale: Annotated[float, "", "positive"]
    observed: Count
    mean: float  # the centre
    origin: float  # the mean of the first ones: sums of rewards are about it
    squares: Nonnegative  # sum of squared distances from the mean
    low: float  # rewards below count as this one
    high: float


NO_REWARDS = RewardScale(1.0, 0, 0.0, 0.0, 0.0, -LARGEST, LARGEST)


def limits(rewards: Array) -> tuple[float, float]:
    """Return the limits beyond which a single reward is an outlier.

    They are ``LIMIT_DEVIATIONS`` standard deviations from the median, of rewards that are themselves limited: the
    deviation starts at that of the central half and grows until it explains itself. So rewards that recur, more than
    ``RARE_REWARDS`` times and more often than once in ``LIMIT_DEVIATIONS`` squared, are not limited, however large.
    Where at least half of all rewards are equal, as clicks and purchases are, there are no limits: the rare ones are
    the message.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rewards = rng.normal(size=1000)
    >>> rewards[7] = 1000.0
    >>> [round(limit, 1) for limit in limits(rewards)]
    [-19.3, 19.2]
    >>> rewards[:30] = 1000.0  # they recur
    >>> limits(rewards)[1] > 1000.0
    True
    """
    centre = float(np.median(rewards))
    distances = np.sort(np.abs(rewards - centre))[:-RARE_REWARDS]
    scale = 1.4826 * float(np.median(distances)) if len(distances) else 0.0
    if not scale:
        return -LARGEST, LARGEST
    for _ in range(LIMIT_STEPS):
        before = scale
        scale = max(scale, float(np.sqrt(np.mean(np.square(np.minimum(distances, LIMIT_DEVIATIONS * scale))))))
        if scale < 1.01 * before:
            break
    return centre - LIMIT_DEVIATIONS * scale, centre + LIMIT_DEVIATIONS * scale


def limited(rewards: RewardScale, values: Any) -> Any:
    """Return rewards within their limits."""
    if isinstance(values, float):
        return min(max(values, rewards.low), rewards.high)
    return np.clip(values, rewards.low, rewards.high)


def observe(rewards: RewardScale, values: Array, least: float) -> RewardScale:
    """Return the moments with more rewards, at least one, and centre and scale taken from them.

    The scale is the standard deviation of all rewards, or ``least`` if that is larger; where all are equal, their size.

    Examples
    --------
    >>> rewards = observe(NO_REWARDS, np.array([-30.0]), least=0.0)
    >>> rewards = observe(rewards, np.array([10.0]), least=0.0)
    >>> rewards.mean, rewards.scale
    (-10.0, 20.0)
    """
    count, latest = len(values), float(values.mean())
    spread, observed = float(np.square(values - latest).sum()), rewards.observed + count
    mean, squares = combined(rewards.observed, rewards.mean, rewards.squares, count, latest, spread)
    origin = rewards.origin if rewards.observed else mean
    scale = max(scale_of(mean, math.sqrt(squares / observed)), least)
    return rewards._replace(scale=scale, observed=observed, mean=mean, origin=origin, squares=squares)


def scale_of(mean: float, deviation: float, rounding: float = ROUNDING) -> float:
    """Return the scale of rewards: their deviation or, where it is nothing but rounding, their size."""
    scale = deviation if deviation > rounding * abs(mean) else abs(mean)
    return scale if scale > SMALLEST else 1.0


def check(scale: float) -> None:
    """Raise a ValueError unless a loaded scale is one that :func:`scale_of` gives."""
    if scale < SMALLEST:
        raise ValueError(f"the scale of rewards is {scale}: too small")


def half_range(given: Any) -> float:
    """Return half of a range of rewards; a ValueError unless it is the smallest and the largest one."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise ValueError(f"reward_range must be the smallest and the largest reward, got {given!r}")
    low, high = (number("reward_range", value) for value in given)
    if not -LARGEST < low < high < LARGEST:
        raise ValueError(f"reward_range must be two finite rewards, the smaller one first, got {given!r}")
    return 0.5 * (high - low)
