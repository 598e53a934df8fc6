"""Decisions that wait for rewards, so that rewards in any order tell when they were decided.

A click comes within minutes, and that there was none is known an hour later. An algorithm that tests for a change must
see rewards in the order of the decisions. An agent that is updated with vectors does not know which decision a reward
belongs to; it recognises the decision by its context and arm.
"""

from collections.abc import Hashable
from typing import Any

from numpy.typing import NDArray

MOST_PENDING = 4096
UNKNOWN = 0  # number of a decision that cannot be distinguished from others with the same context and arm


class Pending:
    """The latest decisions without a reward, by context and arm; bounded.

    Examples
    --------
    >>> import numpy as np
    >>> pending, x, y = Pending(), np.zeros(2), np.ones(2)
    >>> for context, arm in ((x, "red"), (y, "red"), (x, "blue"), (x, "red")):
    ...     pending.add(context, arm, after=0)
    >>> pending.pop(y, "red"), pending.pop(x, "red"), pending.pop(y, "blue")  # the second, one of two, none
    (2, 0, None)
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, Hashable], tuple[int, int]] = {}  # number and count
        self._last = 0

    def add(self, context: NDArray[Any], arm: Hashable, after: int) -> None:
        """Give a decision a number beyond ``after`` and those of all decisions before it."""
        self._last = max(self._last, after) + 1
        key, waiting = (hash(context.tobytes()), arm), self._waiting
        count = waiting[key][1] if key in waiting else 0
        waiting[key] = (UNKNOWN if count else self._last, count + 1)
        if len(waiting) > MOST_PENDING:
            del waiting[next(iter(waiting))]

    def pop(self, context: NDArray[Any], arm: Hashable) -> int | None:
        """Return the number of the decision that a reward belongs to; None if it is not known here."""
        if not self._waiting:
            return None
        key = (hash(context.tobytes()), arm)
        number, count = self._waiting.pop(key, (None, 0))
        if count > 1:
            self._waiting[key] = (UNKNOWN, count - 1)
        return number
