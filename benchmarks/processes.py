"""The CPU time of processes and of their children, to the nanosecond, by the clocks that the system keeps (Linux)."""

import contextlib
import time
from pathlib import Path

LEARNER = b"lim2.serve.learner"


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of all threads of a process so far; 0 if it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) returns
    except OSError:
        return 0.0


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def is_learner(pid: int) -> bool:
    """Return whether a process is one that learns beside those that decide."""
    try:
        return LEARNER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return False
