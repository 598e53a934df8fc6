"""Running moments of numbers and of columns of numbers, and the maps that scale by them.

Moments are about the first value, so that numbers near 1e9 with a little noise keep all their digits. What is scaled
stays of moderate size: a column that has not varied is mapped to 0, because nothing is known of its scale, and no value
is mapped further out than sqrt(weight), where no value that the moments include can lie.
"""

import math
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lim2.state import Array

# A deviation of so many units in the last place of the mean is rounding, not a signal.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)

Values = TypeVar("Values", float, Array)  # of one number, or of every column


def combined(
    weight: float, mean: Values, squares: Values, count: float, other_mean: Values, other_squares: Values | float = 0.0
) -> tuple[Values, Values]:
    """Return mean and sum of squares about it of two samples (Chan, Golub and LeVeque, 1983).

    Examples
    --------
    >>> combined(2.0, 1.5, 0.5, 1.0, 6.0)  # 1 and 2, then 6
    (3.0, 14.0)
    """
    total, distance = weight + count, other_mean - mean
    between = distance**2 * (weight * count / total)
    return mean + distance * (count / total), squares + other_squares + between


# Of one number. Python floats, because a context has only a few of the columns, in any combination.


class NumberMoments(NamedTuple):
    """Moments of a number, about the first one observed."""

    weight: int = 0
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


class NumberScaling(NamedTuple):
    """Linear map (x - center) factor, clipped to [-limit, limit]; the factor is 0 until the number has varied."""

    center: float
    factor: float
    limit: float


def observe_number(moments: NumberMoments, x: float) -> NumberMoments:
    """Return the moments with one more number.

    Examples
    --------
    >>> moments = NumberMoments()
    >>> for x in (1e9, 1e9 + 2.0, 1e9 + 4.0):
    ...     moments = observe_number(moments, x)
    >>> moments.mean, round(moments.std, 3)
    (1000000002.0, 1.633)
    >>> round(scaled_number(number_scaling(moments), 1e9), 3)
    -1.225
    """
    weight, origin, offset, squares = moments
    if not weight:
        return NumberMoments(1, x)
    return NumberMoments(weight + 1, origin, *combined(weight, offset, squares, 1, x - origin))


def number_scaling(moments: NumberMoments) -> NumberScaling:
    """Return the map to mean 0 and variance 1."""
    weight, origin, offset, squares = moments
    mean, std = origin + offset, math.sqrt(squares / weight) if weight else 0.0
    varies = std > ROUNDING * abs(mean)
    return NumberScaling(mean, 1.0 / std if varies else 0.0, math.sqrt(weight))


def scaled_number(scaling: NumberScaling, x: float) -> float:
    """Return the scaled number."""
    center, factor, limit = scaling
    z = (x - center) * factor
    return z if -limit <= z <= limit else math.copysign(limit, z)


# Of columns


class Moments(NamedTuple):
    """Moments of every column, about the first row observed."""

    weight: Annotated[float, "", "nonnegative"]  # number of rows; less where lim2 0.2 let them count less
    origin: Annotated[Array, "*context"]
    offset: Annotated[Array, "*context"]  # mean minus origin
    squares: Annotated[Array, "*context"]  # sum of squares about the mean

    @property
    def mean(self) -> Array:
        """The mean of every column."""
        return self.origin + self.offset

    @property
    def std(self) -> Array:
        """The standard deviation of every column."""
        return np.sqrt(np.maximum(self.squares, 0.0) / max(self.weight, 1.0))


class Scaling(NamedTuple):
    """Linear map of every column, (x - center) factor, clipped to [-limit, limit]."""

    center: Annotated[Array, "*context"]
    scale: Annotated[Array, "*context", "positive"]  # 1 for a column that has not varied
    factor: Annotated[Array, "*context", "nonnegative"]  # 1 / scale; 0 for a column that has not varied
    limit: Annotated[float, "", "nonnegative"]


def no_moments(shape: tuple[int, ...]) -> Moments:
    """Return the moments of no rows."""
    zeros = np.zeros(shape)
    return Moments(0.0, zeros, zeros, zeros)


def observe(moments: Moments, row: NDArray[Any]) -> Moments:
    """Return the moments with one more row.

    Examples
    --------
    >>> columns = np.array([[1e9, 5.0, 1.0], [1e9 + 2.0, 5.0, 2.0], [1e9 + 4.0, 5.0, 6.0]])
    >>> moments = no_moments((3,))
    >>> for row in columns:
    ...     moments = observe(moments, row)
    >>> scaled(scaling(moments), columns).round(3).tolist()
    [[-1.225, 0.0, -0.926], [0.0, 0.0, -0.463], [1.225, 0.0, 1.389]]
    >>> moments.mean.tolist(), moments.std.round(3).tolist()
    ([1000000002.0, 5.0, 3.0], [1.633, 0.0, 2.16])
    """
    weight, origin, offset, squares = moments
    if not weight:
        origin = np.array(row, dtype=np.float64)
    return Moments(weight + 1.0, origin, *combined(weight, offset, squares, 1.0, row - origin))


def observe_many(moments: Moments, rows: NDArray[Any]) -> Moments:
    """Return the moments with more rows, at least one.

    Examples
    --------
    >>> columns = np.array([[1e9, 5.0], [1e9 + 2.0, 5.0], [1e9 + 4.0, 5.0]])
    >>> moments = observe_many(observe_many(no_moments((2,)), columns[:1]), columns[1:])
    >>> moments.mean.tolist(), moments.std.round(3).tolist()
    ([1000000002.0, 5.0], [1.633, 0.0])
    """
    count, (weight, origin, offset, squares) = float(len(rows)), moments
    if not weight:
        origin = np.array(rows[0], dtype=np.float64)
    places = rows - origin
    mean = places.mean(axis=0)
    places -= mean
    places *= places
    return Moments(weight + count, origin, *combined(weight, offset, squares, count, mean, places.sum(axis=0)))


def scaling(moments: Moments) -> Scaling:
    """Return the map of every column to mean 0 and variance 1."""
    center, std = moments.mean, moments.std
    varies = std > ROUNDING * np.abs(center)
    scale = np.where(varies, std, 1.0)
    return Scaling(center, scale, varies / scale, math.sqrt(moments.weight))


def scaled(by: Scaling, rows: NDArray[Any]) -> Array:
    """Return one row, or several, scaled; the input does not change."""
    out: Array = rows - by.center
    out *= by.factor
    np.minimum(out, by.limit, out=out)
    return np.maximum(out, -by.limit, out=out)
