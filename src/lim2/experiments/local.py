"""Runs in processes of this machine, one BLAS thread each."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

import cloudpickle

from lim2.experiments.backend import ONE_THREAD, Died, Event, Finished, Ticked
from lim2.experiments.plan import Run

TAIL = 2000  # characters of what a dead process had printed


class Worker:
    """A process, and what it runs.

    Not `multiprocessing.Process`: that would import the user's script again, which fails in a notebook and in a script
    without a guard, and the environment could not be set before NumPy is imported. Not a pool of joblib's or of the
    standard library: when a process of theirs dies, they do not say which run it had.
    """

    def __init__(self, inbox: SimpleQueue[tuple[Worker, Any]]) -> None:
        self.run: Run | None = None
        self.printed: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # closed by `stop`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lim2.experiments.worker"],
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
        )
        self._inbox = inbox
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.send(pickle.dumps(sys.path))

    def send(self, message: bytes) -> None:
        """Send the process something; should it be dead, the listener notices."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(message)
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self._inbox.put((self, pickle.load(self.process.stdout)))
        except (EOFError, pickle.UnpicklingError):  # it ended, perhaps in the middle of a message
            self._inbox.put((self, None))

    def end(self) -> str:
        """End the process; return its exit status and its last output."""
        self.process.kill()
        code = self.process.wait()
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # what was still to be sent
                stream.close()
        self.printed.seek(0)
        text = self.printed.read()[-TAIL:].strip()
        self.printed.close()
        return _cause(code, text)


def _cause(code: int, printed: str) -> str:
    why = f"its process ended with status {code}" if code >= 0 else f"signal {-code} ended its process"
    if code == -9:
        why += " (so the system ends processes when memory runs out)"
    return f"{why}. It had printed:\n{printed}" if printed else why


class Local:
    """Processes of this machine."""

    def __init__(self, jobs: int) -> None:
        self.slots = jobs
        self._inbox: SimpleQueue[tuple[Worker, Any]] = SimpleQueue()
        self._workers: list[Worker] = []

    def start(self, run: Run) -> None:
        """Start a run in an idle process, or in a new one."""
        worker = next((worker for worker in self._workers if worker.run is None), None)
        if worker is None:
            worker = Worker(self._inbox)
            self._workers.append(worker)
        worker.run = run
        worker.send(pickle.dumps(cloudpickle.dumps(run)))  # unpacked where a failure shows

    def events(self, timeout: float) -> Iterator[Event]:
        """Return the messages of the processes, and the processes that died."""
        try:
            worker, message = self._inbox.get(timeout=timeout)
        except Empty:
            return
        run = worker.run
        if message is None:
            self._workers.remove(worker)
            why = worker.end()
            if run is not None:
                yield Died(run, why)
        elif run is not None:
            kind, *rest = message
            if kind == "tick":
                yield Ticked(run, *rest)
            else:
                worker.run = None
                yield Finished(run, rest[0])

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()
