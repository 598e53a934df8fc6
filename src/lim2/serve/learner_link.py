"""Between the processes that decide and the one that learns, on one machine.

A process that decides asks the other one to look at the logs, and takes over what has changed since it asked last. It
says what it has, so that either of them may be restarted at any time.
"""

import contextlib
import os
import socket
import threading
from typing import NamedTuple

from lim2.bandit import RawDecider
from lim2.info import Info
from lim2.serve.messages import receive, send, set_patience

PATIENCE = 15  # seconds for an answer; a pass of the learner takes a few at most
ADDRESS = "LIM2_SERVE_LEARNER"  # the address of the process that learns, for those that decide


class LinkError(Exception):
    """The process that learns does not answer."""


class Question(NamedTuple):
    """What a process that decides asks: look at all logs, and say what has changed.

    Parameters
    ----------
    marks
        Of the reports that it has, by the name of the bandit.
    now
        Name of a bandit that is to be looked at even if it seems to have nothing new.
    publish
        Whether the model of that bandit is to be written to its log.
    """

    marks: dict[str, int]
    now: str | None = None
    publish: bool = False


class Report(NamedTuple):
    """How a bandit is doing where it is learned.

    Parameters
    ----------
    name, created
        Which bandit it is.
    mark
        Of this report; another one has another mark.
    leads
        Whether the process has the right to learn it.
    caught_up
        Whether it has learned what was there at its start.
    failure
        Why it cannot learn; None if it can.
    decider
        The snapshot that decides; None if another process learns the bandit.
    """

    name: str
    created: float
    mark: int
    leads: bool
    caught_up: bool
    failure: str | None
    decider: RawDecider | None


class Lesson(NamedTuple):
    """What a bandit has learned in one pass."""

    name: str
    rewards: int
    seconds: float
    info: Info | None


class Answer(NamedTuple):
    """What has changed, and what the pass did for which it was asked: only who has asked counts that."""

    reports: list[Report]
    lessons: list[Lesson]
    failed: list[str]  # names of the bandits that could not learn
    unfinished: bool  # whether there was no time for some bandits


class Link:
    """The way to the process that learns. Any thread may use it.

    Parameters
    ----------
    address
        Path of the socket on which that process listens.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._asking = threading.Lock()
        self._socket: socket.socket | None = None
        self._closed = False

    def ask(self, question: Question) -> Answer:
        """Return the answer to a question; a LinkError if there is none.

        Parameters
        ----------
        question
            What is asked.
        """
        with self._asking:
            try:
                if self._socket is None:
                    self._socket = self._connected()
                if self._closed:  # looked at after the socket is there, which `close` shuts down
                    raise OSError("this process is ending")
                send(self._socket, question)
                answer: Answer = receive(self._socket)
            except Exception as error:  # also an answer that cannot be read
                self._hang_up()
                raise LinkError(f"the process that learns does not answer: {error}") from error
            return answer

    def close(self) -> None:
        """Hang up, even while another thread waits for an answer."""
        self._closed = True
        own = self._socket
        if own is not None:
            with contextlib.suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
        with self._asking:
            self._hang_up()

    def _connected(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            set_patience(made, PATIENCE)
            made.connect(self._address)
        except OSError:
            made.close()
            raise
        return made

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def link_of_environment() -> Link | None:
    """Return the way to the process that learns for this one; None if there is no such process."""
    address = os.environ.get(ADDRESS)
    return None if address is None else Link(address)
