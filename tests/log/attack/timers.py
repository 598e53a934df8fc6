"""Exceptions that come at random moments of the main thread, as KeyboardInterrupt does."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class TimerError(BaseException):
    """What the timer raises; not an Exception, so that nobody takes it for a failure of their own."""


class Timer:
    """Interrupts calls of the main thread."""

    def __init__(self, moments: random.Random, interrupted: Callable[[], None]) -> None:
        self._moments, self._interrupted = moments, interrupted
        self._armed = False
        signal.signal(signal.SIGALRM, self._ring)

    def _ring(self, *_: Any) -> None:
        if self._armed:
            self._armed = False
            raise TimerError

    def attempt(self, call: Callable[[], Result]) -> tuple[bool, Result | None]:
        """Call, perhaps with an exception in the middle; return whether it came to its end, and the result."""
        if self._moments.random() < 0.5:
            return True, call()
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, 10 ** self._moments.uniform(-4.5, -1.5))
            return True, call()
        except TimerError:
            self._interrupted()
            return False, None
        finally:
            self._armed = False  # a signal that is still on its way finds nothing to interrupt
