"""Run a command on a busy machine: `python -m tools.busy COMMAND...`, with four busy loops per core beside it.

The exit status is that of the command. The loops end with it, also if it fails or this process is killed.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

LOOPS_PER_CORE = 4
# A loop whose parent was killed has another parent, and ends.
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"


@contextmanager
def busy(loops: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep processes busy for the time of the block.

    >>> with busy(2) as loops:
    ...     [loop.poll() for loop in loops]
    [None, None]
    >>> [loop.poll() is None for loop in loops]
    [False, False]
    """
    with ExitStack() as stack:
        started = []
        for _ in range(loops):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", LOOP, str(os.getpid())]))
            stack.callback(loop.kill)
            started.append(loop)
        yield started


def run(command: Sequence[str], loops: int) -> int:
    """Run a command beside busy loops, and return its exit status.

    >>> run([sys.executable, "-c", "raise SystemExit(3)"], 1)
    3
    """
    with busy(loops):
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(run(sys.argv[1:], LOOPS_PER_CORE * (os.cpu_count() or 1)))
