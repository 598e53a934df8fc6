"""Running mean and standard deviation of one column of numbers, as a value.

The moments are about the first number, so that a column of 1e9 with a little noise keeps all its digits. They are
Python floats per column, because a context has only a few of the columns, in any combination.
"""

import math
import sys
from typing import NamedTuple

# A deviation of so many units in the last place of the mean is rounding, not a signal.
ROUNDING = 4.0 * sys.float_info.epsilon


class Moments(NamedTuple):
    """Moments of the observed numbers, about the first of them."""

    weight: int = 0  # how many there were
    origin: float = 0.0
    offset: float = 0.0  # mean minus origin
    squares: float = 0.0  # sum of squares about the mean

    @property
    def mean(self) -> float:
        """The mean."""
        return self.origin + self.offset

    @property
    def std(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.squares / self.weight) if self.weight else 0.0


class Scale(NamedTuple):
    """Linear map (x - center) factor, clipped to [-limit, limit]; the factor is 0 until the column has varied."""

    center: float
    factor: float
    limit: float


def observe(moments: Moments, x: float) -> Moments:
    """Return the moments with one more number, by Welford's recursion.

    Examples
    --------
    >>> moments = Moments()
    >>> for x in (1e9, 1e9 + 2.0, 1e9 + 4.0):
    ...     moments = observe(moments, x)
    >>> moments.mean, round(moments.std, 3)
    (1000000002.0, 1.633)
    >>> round(scaled(scale(moments), 1e9), 3)
    -1.225
    """
    weight = moments.weight + 1
    origin = moments.origin if moments.weight else x
    place = x - origin
    distance = place - moments.offset
    offset = moments.offset + distance / weight
    return Moments(weight, origin, offset, moments.squares + max(distance * (place - offset), 0.0))


def scale(moments: Moments) -> Scale:
    """Return the map computed from the moments.

    No observed number is further than sqrt(weight) deviations from the mean. Numbers further out are clipped there.
    """
    mean, std = moments.mean, moments.std
    varies = std > ROUNDING * abs(mean)
    return Scale(mean, 1.0 / std if varies else 0.0, math.sqrt(moments.weight))


def scaled(by: Scale, x: float) -> float:
    """Return the scaled number."""
    center, factor, limit = by
    z = (x - center) * factor
    return z if -limit <= z <= limit else math.copysign(limit, z)
