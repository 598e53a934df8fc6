"""Environment of a run: versions, processor, memory."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import lim2
from lim2._kernels import DESCRIPTION


@cache
def here() -> dict[str, str | int]:
    """Return versions and machine, as columns of a run's file."""
    return {
        "version": lim2.__version__,
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "scipy": metadata.version("scipy"),
        "kernels": DESCRIPTION,
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class PeakMemory:
    """Peak growth of the process's memory, for agents without ``nbytes``."""

    def __init__(self) -> None:
        # Linux can forget the peak of earlier runs in this process; elsewhere the peak only ever rises.
        with suppress(OSError):  # not Linux, or not allowed
            Path("/proc/self/clear_refs").write_text("5")
        self._before = _peak_mb()

    def growth_mb(self) -> float | None:
        """Return the growth since the object was made, in MB; None where the system does not say."""
        peak = _peak_mb()
        return None if peak is None or self._before is None else max(peak - self._before, 0.0)


def _peak_mb() -> float | None:
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
