"""Raw columns: a running mean and deviation of the contexts, by which an agent scales what it takes in.

A context is scaled by what *updates* have shown, never by decisions, so that what is learned depends on the updates
alone. A column in which nothing has varied yet is 0: nothing is known of its scale. No context that the moments include
can be further than sqrt(weight) deviations from the mean. What lies further out, which only a decision can meet, is
clipped to there: whatever comes, the features stay of moderate size.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.state import Array

# A deviation of so many units in the last place of a column's mean is rounding, not a signal.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


class Moments(NamedTuple):
    """The moments of every column over all contexts learned from, about the first context.

    So a column of 1e9 with a little noise keeps all its digits.
    """

    weight: Annotated[float, "", "nonnegative"]  # number of contexts; less where lim2 0.2 let them count less
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
    """A fixed affine map of every column: (x - center) / scale where the column is known to vary, else 0."""

    center: Annotated[Array, "*context"]
    scale: Annotated[Array, "*context", "positive"]  # 1 for a column that has not varied
    factor: Annotated[Array, "*context", "nonnegative"]
    limit: Annotated[float, "", "nonnegative"]  # largest size of a scaled value


def no_moments(shape: tuple[int, ...]) -> Moments:
    """Return the moments of no contexts."""
    zeros = np.zeros(shape)
    return Moments(0.0, zeros, zeros, zeros)


def observe(moments: Moments, context: NDArray[Any]) -> Moments:
    """Return the moments with one more context, by Welford's recursion.

    Examples
    --------
    >>> columns = np.array([[1e9, 5.0, 1.0], [1e9 + 2.0, 5.0, 2.0], [1e9 + 4.0, 5.0, 6.0]])
    >>> moments = no_moments((3,))
    >>> for context in columns:
    ...     moments = observe(moments, context)
    >>> scaled(scaling(moments), columns).round(3).tolist()
    [[-1.225, 0.0, -0.926], [0.0, 0.0, -0.463], [1.225, 0.0, 1.389]]
    >>> moments.mean.tolist(), moments.std.round(3).tolist()
    ([1000000002.0, 5.0, 3.0], [1.633, 0.0, 2.16])
    """
    origin = moments.origin if moments.weight else np.array(context, dtype=np.float64)
    weight = moments.weight + 1.0
    place = context - origin
    distance = place - moments.offset
    offset = moments.offset + distance / weight
    return Moments(weight, origin, offset, moments.squares + distance * (place - offset))


def observe_many(moments: Moments, contexts: NDArray[Any]) -> Moments:
    """Return the moments with more contexts, at least one, all at once (Chan, Golub and LeVeque, 1983).

    Examples
    --------
    >>> columns = np.array([[1e9, 5.0], [1e9 + 2.0, 5.0], [1e9 + 4.0, 5.0]])
    >>> moments = observe_many(observe_many(no_moments((2,)), columns[:1]), columns[1:])
    >>> moments.mean.tolist(), moments.std.round(3).tolist()
    ([1000000002.0, 5.0], [1.633, 0.0])
    """
    count = float(len(contexts))
    origin = moments.origin if moments.weight else np.array(contexts[0], dtype=np.float64)
    places = contexts - origin
    mean = places.mean(axis=0)
    places -= mean
    places *= places
    spread = places.sum(axis=0)
    weight, distance = moments.weight + count, mean - moments.offset
    squares = moments.squares + spread + distance**2 * (moments.weight * count / weight)
    return Moments(weight, origin, moments.offset + distance * (count / weight), squares)


def scaling(moments: Moments) -> Scaling:
    """Return the map that the moments give."""
    center, std = moments.mean, moments.std
    varies = std > ROUNDING * np.abs(center)
    scale = np.where(varies, std, 1.0)
    return Scaling(center, scale, varies / scale, math.sqrt(moments.weight))


def scaled(by: Scaling, contexts: NDArray[Any]) -> Array:
    """Return one context, or rows of contexts, scaled; the input does not change."""
    out: Array = contexts - by.center
    out *= by.factor
    np.minimum(out, by.limit, out=out)
    return np.maximum(out, -by.limit, out=out)
