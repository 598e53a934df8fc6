"""The units of a problem: how large its contexts are, and where its rewards lie, learned from what has been seen."""

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lim2._state import Stateful

# A spread of rewards below this share of their size is rounding, not a spread.
ROUNDING = 1e-9


class Units(Stateful):
    """Running statistics, and the units taken from them when they were last adopted.

    What is computed in these units (the network's targets and inputs, the start of the beliefs) is the same whatever
    the rewards are multiplied by or shifted, and whatever the contexts are multiplied by.

    Attributes
    ----------
    size
        Root mean square of a context's values.
    centre, scale
        Mean and standard deviation of the rewards.

    Examples
    --------
    >>> units = Units()
    >>> for reward in (-30.0, 10.0):
    ...     units = units.including(np.array([3.0, 4.0]), reward)
    >>> units.drift
    inf
    >>> units.adopt()
    >>> units.centre, units.scale, round(units.size, 3), units.drift
    (-10.0, 20.0, 3.536, 0.0)
    """

    _kept: ClassVar[tuple[str, ...]] = (
        "size", "centre", "scale", "_count", "_mean", "_squares", "_context_squares",
    )  # fmt: skip

    nbytes = 7 * 8

    def __init__(self) -> None:
        self.size, self.centre, self.scale = 1.0, 0.0, 0.0  # no units yet
        self._count = 0
        self._mean, self._squares = 0.0, 0.0  # of the rewards: their mean, and squares of the distances from it
        self._context_squares = 0.0  # mean over contexts

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        super().restore(state)
        sizes = self.scale, self._squares, self._context_squares
        if not (0.0 < self.size < math.inf and all(0.0 <= size < math.inf for size in sizes)):
            raise ValueError("sizes, spreads and squares must be finite and not negative")
        if not (math.isfinite(self.centre) and math.isfinite(self._mean)):
            raise ValueError("means must be finite")

    def including(self, context: NDArray[Any], reward: float) -> "Units":
        """Return the statistics with one more context and reward; these stay, and so do the units in use."""
        more = copy.copy(self)
        values = context.reshape(-1)
        more._count += 1
        more._context_squares += (float(np.dot(values, values)) / len(values) - self._context_squares) / more._count
        distance = reward - self._mean
        more._mean += distance / more._count
        more._squares += distance * (reward - more._mean)
        return more

    @property
    def drift(self) -> float:
        """How far the statistics are from the units in use, relative to these; the centre relative to the scale."""
        if self.scale == 0.0:
            return math.inf
        size, centre, scale = self._now()
        return max(abs(size / self.size - 1.0), abs(scale / self.scale - 1.0), abs(centre - self.centre) / self.scale)

    def adopt(self) -> None:
        """Take the units from what has been seen."""
        self.size, self.centre, self.scale = self._now()

    def _now(self) -> tuple[float, float, float]:
        spread = math.sqrt(self._squares / self._count)
        scale = spread if spread > ROUNDING * abs(self._mean) else abs(self._mean)
        return math.sqrt(self._context_squares) or 1.0, self._mean, scale or 1.0
