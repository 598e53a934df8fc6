"""Checks of arms returned by agents."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]


class NoArmError(ValueError):
    """The result of ``act`` is not an arm."""


def check_arm(arm: Any, number: int, count: int) -> None:
    """Raise a `NoArmError` unless it is an arm.

    Examples
    --------
    >>> check_arm("left", 7, 3)
    Traceback (most recent call last):
        ...
    lim2.experiments.arms.NoArmError: act returned 'left', a str, in round 7; expected a whole number from 0 to 2
    """
    try:
        index = None if isinstance(arm, bool | np.bool_) else operator.index(arm)
    except TypeError:
        index = None
    if index is None or not 0 <= index < count:
        kind = "" if index is not None else f", a {type(arm).__name__},"
        raise NoArmError(f"act returned {arm!r}{kind} in round {number}; expected a whole number from 0 to {count - 1}")


def checked(chosen: list[Any], start: int, limits: Array) -> Array:
    """Return the arms of some rounds as an array; raise a `NoArmError` for the first that is none."""
    try:
        arms = np.asarray(chosen)
    except ValueError:  # of different shapes
        arms = np.empty(0)
    if arms.dtype.kind in "iu" and arms.ndim == 1 and ((arms >= 0) & (arms < limits)).all():
        return arms
    for i, arm in enumerate(chosen):
        check_arm(arm, start + i + 1, int(limits[i]))
    return np.array([operator.index(arm) for arm in chosen])
