"""Work that gives way to requests: it runs while a processor has nothing else to do, if there is such time."""

import contextlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

SPARE = 0.2  # processors that must have been idle: without any, the work would never be done
STAT = Path("/proc/stat")


class Yielding:
    """Runs work in a thread that any other one interrupts; or in the thread that asks, if the machine is busy.

    Linux has such threads (``SCHED_IDLE``). Elsewhere, work is done in the thread that asks.

    Examples
    --------
    >>> Yielding().run(lambda: 6 * 7)
    42
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "lim2 idle", initializer=_give_way)
        self._before = time.monotonic(), idle_seconds()

    def run(self, work: Callable[[], T]) -> T:
        """Return the result of work.

        Parameters
        ----------
        work
            Takes no arguments.
        """
        if self._spare() < SPARE:
            return work()
        return self._thread.submit(work).result()

    def _spare(self) -> float:
        """Return how many processors were idle since the last call, on average; 0 if nobody knows."""
        (before, idle), now = self._before, (time.monotonic(), idle_seconds())
        self._before = now
        if idle is None or now[1] is None or now[0] <= before:
            return 0.0
        return (now[1] - idle) / (now[0] - before)


def idle_seconds() -> float | None:
    """Return the seconds for which the processors of this process had nothing to do so far; None if nobody knows."""
    if not hasattr(os, "SCHED_IDLE"):
        return None
    try:
        own = {f"cpu{number}" for number in os.sched_getaffinity(0)}  # others may be idle: they are no use here
        with STAT.open() as file:
            lines = map(str.split, takewhile(lambda line: line.startswith("cpu"), file))
            idle = [int(words[4]) for words in lines if words[0] in own]
    except (OSError, ValueError, IndexError):
        return None
    return sum(idle) / os.sysconf("SC_CLK_TCK") if idle else None


def _give_way() -> None:
    with contextlib.suppress(OSError):  # where that is forbidden, the thread is one like others
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
