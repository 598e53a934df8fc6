"""Starts the attackers, hears them, kills one of them at a time, and starts it again."""

from __future__ import annotations

import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.waiting import PATIENCE
from log.attack.witness import Witness

STACKS = 3.0  # seconds for writing down where everybody stands, when somebody hangs
TALKATIVE = [0, 1, 2, 5, 20, 60, 150]  # after how many lines of its own a process is killed: four threads say more
QUIET = [0, 1, 2, 3, 5, 10]
TESTS = Path(__file__).parents[2]


class Coordinator:
    """Talks to the parent of all attackers."""

    def __init__(self, process: subprocess.Popen[bytes], witness: Witness) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._output = process.stdin, process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        self._witness = witness
        self._rest = b""
        self._lines: list[str] = []
        self.pids: dict[str, int] = {}
        self.lives: dict[str, int] = {}

    def start(self, name: str) -> None:
        self.lives[name] = life = self.lives.get(name, -1) + 1
        self._order("start", name, life)
        self.pids[name] = int(self._hear_until(f"parent started {name} ").split()[-1])

    def listen(self, name: str, lines: int) -> None:
        """Hear everybody until one process has said some lines, in whichever of its threads."""
        for _ in range(lines):
            self._hear_until(name)

    def kill(self, name: str) -> None:
        """End a process at once, and hear what it had said before."""
        pid = self.pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        self._reap(pid, -signal.SIGKILL)

    def stop(self) -> None:
        """Ask all processes to stop, and wait for them."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGTERM)
        for name in list(self.pids):
            self._reap(self.pids[name], 0)
            del self.pids[name]

    def _reap(self, pid: int, expected: int) -> None:
        self._order("reap", pid)
        status = int(self._hear_until(f"parent ended {pid} ").split()[-1])
        assert status == expected, f"process {pid} ended with {status}, not with {expected}"

    def _order(self, *words: object) -> None:
        self._orders.write((" ".join(map(str, words)) + "\n").encode())
        self._orders.flush()

    def _hear_until(self, start: str) -> str:
        """Hear lines until one starts so, and return it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            while self._lines:
                line = self._lines.pop(0)
                self._witness.hear(line)
                if line.startswith(start):
                    return line
            self._read(deadline - time.monotonic())
        for pid in self.pids.values():
            os.kill(pid, signal.SIGUSR1)  # they write to standard error where each thread stands
        while time.monotonic() < deadline + STACKS:
            self._read(deadline + STACKS - time.monotonic())
        raise AssertionError(f"nobody has said {start!r} for {PATIENCE:.0f} seconds: somebody hangs")

    def _read(self, timeout: float) -> None:
        if self._selector.select(timeout):
            found = os.read(self._output.fileno(), 1 << 16)
            assert found, "the parent of all attackers has ended"
            *lines, self._rest = (self._rest + found).split(b"\n")
            self._lines += [line.decode() for line in lines]


@contextmanager
def attackers(folder: Path, witness: Witness) -> Iterator[Coordinator]:
    """Start the parent of all attackers; none of them is left when this ends."""
    command = [sys.executable, "-m", "log.attack.worker", str(folder)]
    paths = [str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"}
    errors = folder / "stderr.txt"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=settings,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Coordinator(process, witness)
        except BaseException as error:
            error.add_note(f"{witness.story()}\nstandard error:\n{errors.read_text()[-6000:]}")
            raise
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def attack(folder: Path, names: list[str], kills: int, harm: Callable[[int], None] = lambda _: None) -> Witness:
    """Let processes attack the log of a folder, and kill one of them at a time; return what they have said.

    What else is to be harmed is called before each kill, with its number.
    """
    moments, witness = random.Random(0), Witness()
    with attackers(folder, witness) as coordinator:
        for name in names:
            coordinator.start(name)
        for number in range(kills):
            harm(number)
            name = moments.choice(names)
            coordinator.listen(name, moments.choice(TALKATIVE if name.startswith("decider") else QUIET))
            for _ in range(moments.randrange(20_000)):  # a little later, never at the same point
                pass
            coordinator.kill(name)
            coordinator.start(name)
        for name in names:
            coordinator.listen(name, 2)
        coordinator.stop()
    return witness
