"""Reward and context scale: how large contexts are, and where rewards lie, by running statistics.

What is computed in these scales (the network's targets and inputs, the prior of an arm) does not depend on what rewards
are multiplied by or shifted by, nor on what contexts are multiplied by.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.state import Count

# A deviation of rewards below this share of their mean is rounding.
ROUNDING = 1e-9
# A smaller scale counts as none: it is as far below 1 as contexts and rewards may be above.
SMALLEST = 1e-30

Nonnegative = Annotated[float, "", "nonnegative"]


class Scales(NamedTuple):
    """The scales in use, and running statistics of everything learned from, from which they are refreshed."""

    size: Annotated[float, "", "positive"]  # root mean square of a context's values
    centre: float  # mean of the rewards
    scale: Nonnegative  # standard deviation of the rewards; 0: nothing is known yet
    observed: Count
    mean: float  # of the rewards
    squares: Nonnegative  # sum of the squared distances of the rewards from their mean
    context_squares: Nonnegative  # mean square of the contexts' values


NO_SCALES = Scales(1.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0)


def observe(scales: Scales, context: NDArray[np.generic], reward: float) -> Scales:
    """Return the statistics with one more context and reward; the scales in use stay.

    Examples
    --------
    >>> scales = NO_SCALES
    >>> for reward in (-30.0, 10.0):
    ...     scales = observe(scales, np.array([3.0, 4.0]), reward)
    >>> drift(scales)
    inf
    >>> scales = refresh(scales)
    >>> scales.centre, scales.scale, round(scales.size, 3), drift(scales)
    (-10.0, 20.0, 3.536, 0.0)
    """
    size, centre, scale, observed, mean, squares, context_squares = scales
    values = context.reshape(-1)
    observed += 1
    context_squares += (float(np.dot(values, values)) / len(values) - context_squares) / observed
    distance = reward - mean
    mean += distance / observed
    squares += distance * (reward - mean)
    return Scales(size, centre, scale, observed, mean, squares, context_squares)


def drift(scales: Scales) -> float:
    """Return how far the statistics are from the scales in use, relative to these; the centre relative to the scale."""
    if scales.scale == 0.0:
        return math.inf
    size, centre, scale = _latest(scales)
    return max(
        abs(size / scales.size - 1.0), abs(scale / scales.scale - 1.0), abs(centre - scales.centre) / scales.scale
    )


def refresh(scales: Scales) -> Scales:
    """Return the scales that the statistics give."""
    size, centre, scale = _latest(scales)
    return scales._replace(size=size, centre=centre, scale=scale)


def check(scales: Scales) -> None:
    """Raise a ValueError unless loaded scales are ones that :func:`refresh` gives."""
    if scales.size < SMALLEST or 0.0 < scales.scale < SMALLEST:
        raise ValueError(f"the scales of contexts and rewards are {scales.size} and {scales.scale}: too small")


def _latest(scales: Scales) -> tuple[float, float, float]:
    size, mean, deviation = math.sqrt(scales.context_squares), scales.mean, math.sqrt(scales.squares / scales.observed)
    scale = deviation if deviation > ROUNDING * abs(mean) else abs(mean)
    return size if size > SMALLEST else 1.0, mean, scale if scale > SMALLEST else 1.0
