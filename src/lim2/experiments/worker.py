"""Worker process that executes runs one after another: ``python -m lim2.experiments.worker``.

Runs come in through its standard input, results go out through its standard output, as pickles. It ends when the
process that started it is gone.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import time
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

# The least time between two reports of progress, in seconds.
EVERY = 0.1


class Reporter:
    """Report how far a run is, but not too often."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out = out
        self.last = 0.0

    def __call__(self, done: int, reward: float) -> None:
        """Report rounds and reward so far."""
        now = time.monotonic()
        if now - self.last >= EVERY:
            self.last = now
            send(self.out, ("tick", done, reward))


def send(out: IO[bytes], message: Any) -> None:
    """Write a message for the starter."""
    pickle.dump(message, out)
    out.flush()


def receive(inbox: SimpleQueue[Any]) -> None:
    """Receive messages of the parent, and end the process at once when the parent is gone."""
    try:
        while True:
            inbox.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        os._exit(0)  # not sys.exit: that would end this thread only


def main() -> None:
    """Execute incoming runs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the starter's to handle
    faulthandler.enable()
    # What agents print must not get between the messages: it goes where errors go.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = pickle.load(sys.stdin.buffer)

    from lim2.experiments.runner import run_once

    inbox: SimpleQueue[Any] = SimpleQueue()
    Thread(target=receive, args=(inbox,), daemon=True).start()
    while True:
        send(out, ("done", run_once(pickle.loads(inbox.get()), Reporter(out))))


if __name__ == "__main__":
    main()
