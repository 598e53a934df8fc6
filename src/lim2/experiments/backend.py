"""Backends that execute runs: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lim2.experiments.plan import Run
from lim2.experiments.runner import Record

# Arithmetic of one run stays on one core: small matrices gain nothing from threads, and runs share the cores.
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "VECLIB", "NUMEXPR")
ONE_THREAD = {f"{name}_{'MAXIMUM' if name == 'VECLIB' else 'NUM'}_THREADS": "1" for name in _LIBRARIES}


@dataclass(frozen=True)
class Ticked:
    """A run has come so far."""

    run: Run
    done: int
    reward: float


@dataclass(frozen=True)
class Finished:
    """A run has ended, well or with a traceback."""

    run: Run
    record: Record


@dataclass(frozen=True)
class Died:
    """The process or machine of a run has gone before it ended."""

    run: Run
    why: str


Event = Ticked | Finished | Died


class Backend(Protocol):
    """Runs up to `slots` runs at a time."""

    @property
    def slots(self) -> int:
        """Largest number of concurrent runs."""
        ...

    def start(self, run: Run) -> None:
        """Start a run; only when a slot is free."""
        ...

    def events(self, timeout: float) -> Iterator[Event]:
        """Return new events; wait up to `timeout` seconds for one."""
        ...

    def close(self) -> None:
        """Stop everything."""
        ...


def cores() -> int:
    """Return the number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
