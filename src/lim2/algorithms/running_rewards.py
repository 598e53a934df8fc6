"""Running moments of rewards, and the centre and the scale in use, which follow them from time to time.

The moments are about the centre in use, which is renewed from the first reward on. So rewards of 1e9 with a little
noise keep all their digits.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from lim2.algorithms import reward_scale
from lim2.algorithms.reward_scale import scale_of
from lim2.checks import LARGEST
from lim2.representation.scaling import ROUNDING
from lim2.state import Array

Nonnegative = Annotated[float, "", "nonnegative"]


class Rewards(NamedTuple):
    """The centre and the scale in use, and the moments of all rewards."""

    center: float  # in use
    scale: Annotated[float, "", "positive"]  # in use; the size of rewards that have not varied
    limit: Nonnegative  # how far from the centre a reward may be before the two in use are out of date
    weight: Nonnegative  # of all rewards, each with what it still counts
    offset: float  # mean minus centre
    squares: Nonnegative  # sum of squares about the mean


NO_REWARDS = Rewards(0.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def observe(rewards: Rewards, reward: float, keep: float = 1.0) -> Rewards:
    """Return the moments with one more reward; earlier ones count less by ``keep``. Centre and scale in use stay."""
    weight, place = keep * rewards.weight + 1.0, reward - rewards.center
    distance = place - rewards.offset
    offset = rewards.offset + distance / weight
    squares = keep * rewards.squares + distance * (place - offset)
    return rewards._replace(weight=weight, offset=offset, squares=max(squares, 0.0))


def observe_many(rewards: Rewards, values: Array, keep: float = 1.0) -> Rewards:
    """Return the moments with more rewards, at least one, all at once; with each, earlier ones count less.

    Examples
    --------
    >>> one = observe(observe(NO_REWARDS, 2.0, keep=0.5), 5.0, keep=0.5)
    >>> observe_many(NO_REWARDS, np.array([2.0, 5.0]), keep=0.5) == one
    True
    """
    places, weights = values - rewards.center, keep ** np.arange(len(values) - 1.0, -1.0, -1.0)
    count, fading = float(weights.sum()), keep ** len(values)
    before, mean = fading * rewards.weight, float(np.dot(weights, places)) / count
    weight, distance = before + count, mean - rewards.offset
    squares = fading * rewards.squares + float(np.dot(weights, np.square(places - mean)))
    squares += distance**2 * (before * count / weight)
    return rewards._replace(weight=weight, offset=rewards.offset + distance * (count / weight), squares=squares)


def renew(rewards: Rewards) -> Rewards:
    """Renew centre and scale from the moments.

    Examples
    --------
    >>> rewards = NO_REWARDS
    >>> for reward in (1e9 + 1.0, 1e9 + 3.0):
    ...     rewards = renew(observe(rewards, reward))
    >>> rewards.center - 1e9, rewards.scale
    (2.0, 1.0)
    >>> covers(rewards, 1e9 + 3.0), covers(rewards, 1e9 + 4.0)
    (True, False)
    """
    center = rewards.center + rewards.offset
    deviation, rounding = math.sqrt(rewards.squares / rewards.weight), ROUNDING * abs(center)
    limit = math.sqrt(rewards.weight) * deviation if deviation > rounding else rounding
    left = rewards.offset - (center - rewards.center)  # what rounding kept out of the centre
    return rewards._replace(center=center, scale=scale_of(center, deviation, ROUNDING), limit=limit, offset=left)


def covers(rewards: Rewards, reward: float) -> bool:
    """Return whether a reward is within the range that the current scale allows."""
    return abs(reward - rewards.center) <= rewards.limit


def check(rewards: Rewards) -> None:
    """Raise a ValueError unless loaded moments are ones that rewards can have."""
    reward_scale.check(rewards.scale)
    if not max(abs(rewards.center), abs(rewards.center + rewards.offset), rewards.scale) <= LARGEST:
        raise ValueError("the centre, the mean or the scale of the rewards is larger than rewards can be")
