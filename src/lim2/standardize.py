"""Raw columns: a running mean and deviation of the contexts, by which an agent scales what it sees.

A context is scaled by what *updates* have shown, never by decisions, so that what is learned depends on the updates
alone. A column in which nothing has varied yet is 0: nothing is known of its scale. No context that the moments include
can be further than sqrt(count) deviations from the mean, so what lies further out, which only a decision can meet, is
drawn in to there: whatever comes, the features stay of moderate size.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lim2._state import Stateful

Array = NDArray[np.float64]

# A deviation of so many units in the last place of a column's mean is rounding, not a signal.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


class Scaling(Stateful):
    """A fixed affine map of every column: (x - center) / scale where the column is known to vary, else 0.

    Parameters
    ----------
    center, scale
        In the shape of a context; the scale of a column that has not varied is 1.
    varies
        Which columns have.
    limit
        Largest size of a scaled value.
    """

    _kept: ClassVar[tuple[str, ...]] = ("center", "scale", "factor", "limit")

    def __init__(self, center: Array, scale: Array, varies: NDArray[np.bool_], limit: float) -> None:
        self.center, self.scale, self.limit = center, scale, limit
        self.factor: Array = varies / scale

    def __call__(self, contexts: NDArray[Any]) -> Array:
        """Return one context, or rows of them, scaled; the input stays as it is."""
        scaled: Array = contexts - self.center
        scaled *= self.factor
        np.minimum(scaled, self.limit, out=scaled)
        return np.maximum(scaled, -self.limit, out=scaled)

    def covers(self, context: Array) -> bool:
        """Whether a context is scaled without loss: no value is drawn in, and only known columns vary."""
        moved = context - self.center
        inside = np.abs(moved) * self.factor <= self.limit
        return bool(inside.all() and not moved[self.factor == 0.0].any())

    def map_from(self, other: "Scaling") -> Array:
        """Return T with (z, 1) = T (z', 1), for z scaled by this and z' by the other scaling: (d + 1, d + 1)."""
        width = self.center.size
        out = np.eye(width + 1)
        out.ravel()[: -1 : width + 2] = (other.scale / self.scale).ravel()
        out[:-1, -1] = ((other.center - self.center) / self.scale).ravel()
        return out

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.center.nbytes + self.scale.nbytes + self.factor.nbytes


class Standardizer(Stateful):
    """The moments of every column over all contexts learned from, and the scaling that follows from them.

    Welford's recursion about the first context, so that a column of 1e9 with a little noise keeps all its digits.
    Arrays are replaced, never changed in place: who holds the moments of a moment ago may put them back.

    Parameters
    ----------
    shape
        The shape of a context.
    forget
        Contexts count less by this share with every later one; 0 counts all alike.

    Attributes
    ----------
    scaling
        The map that the moments give now.

    Examples
    --------
    >>> columns = np.array([[1e9, 5.0, 1.0], [1e9 + 2.0, 5.0, 2.0], [1e9 + 4.0, 5.0, 6.0]])
    >>> standardizer = Standardizer(shape=3)
    >>> for context in columns:
    ...     standardizer.observe(context)
    >>> standardizer(columns).round(3).tolist()
    [[-1.225, 0.0, -0.926], [0.0, 0.0, -0.463], [1.225, 0.0, 1.389]]
    >>> standardizer.mean.tolist(), standardizer.std.round(3).tolist()
    ([1000000002.0, 5.0, 3.0], [1.633, 0.0, 2.16])
    """

    _kept: ClassVar[tuple[str, ...]] = ("count", "_origin", "_offset", "_squares")

    def __init__(self, shape: int | tuple[int, ...], forget: float = 0.0) -> None:
        self.keep = 1.0 - forget
        self.count = 0.0  # contexts seen, each with the weight that it still has
        self._origin: Array = np.zeros(shape)
        self._offset: Array = np.zeros(shape)  # mean less origin
        self._squares: Array = np.zeros(shape)  # sum of squares about the mean
        self.scaling = self._scaled_so_far()

    def observe(self, context: NDArray[Any]) -> None:
        """Take one more context into the moments."""
        if not self.count:
            self._origin = np.array(context, dtype=np.float64)
        self.count = self.keep * self.count + 1.0
        place = context - self._origin
        surprise = place - self._offset
        self._offset = self._offset + surprise / self.count
        self._squares = self.keep * self._squares + surprise * (place - self._offset)
        self.scaling = self._scaled_so_far()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        super().restore(state)
        self.scaling = self._scaled_so_far()

    def __call__(self, contexts: NDArray[Any]) -> Array:
        """Return one context, or rows of them, scaled by what has been seen so far."""
        return self.scaling(contexts)

    def _scaled_so_far(self) -> Scaling:
        center, std = self.mean, self.std
        varies = std > ROUNDING * np.abs(center)
        return Scaling(center, np.where(varies, std, 1.0), varies, math.sqrt(self.count))

    @property
    def mean(self) -> Array:
        """The mean of every column."""
        return self._origin + self._offset

    @property
    def std(self) -> Array:
        """The standard deviation of every column."""
        return np.sqrt(np.maximum(self._squares, 0.0) / max(self.count, 1.0))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._origin.nbytes + self._offset.nbytes + self._squares.nbytes + self.scaling.nbytes

    def __repr__(self) -> str:
        return f"Standardizer(shape={self._origin.shape}, count={self.count:g})"
