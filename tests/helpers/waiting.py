"""Waiting for a condition, however busy the machine is."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 180.0  # seconds until something must have happened, beside many other busy processes
PAUSE = 0.01  # seconds between two looks

T = TypeVar("T")


def until(condition: Callable[[], T | None], expected: str | Callable[[], str]) -> T:
    """Return the first true value of a condition; fail, saying what was expected, if there is none in time."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {expected if isinstance(expected, str) else expected()}")
        time.sleep(PAUSE)
    return value
