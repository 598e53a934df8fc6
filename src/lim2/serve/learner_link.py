"""Between the processes that decide and the one that learns, on one machine.

A process that decides asks the other one to look at the logs, and takes over what has changed since it asked last. It
says what it has, so that either of them may be restarted at any time.
"""

import contextlib
import os
import socket
import threading
from multiprocessing.connection import Connection
from typing import NamedTuple

from lim2.bandit import RawDecider
from lim2.info import Info

PATIENCE = 60.0  # seconds for an answer; a step of the learner takes a few at most
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
        self._connection: Connection | None = None

    def ask(self, question: Question) -> Answer:
        """Return the answer to a question; a LinkError if there is none.

        Parameters
        ----------
        question
            What is asked.
        """
        with self._asking:
            try:
                connection = self._connected()
                connection.send(question)
                if not connection.poll(PATIENCE):
                    raise TimeoutError(f"no answer within {PATIENCE:g} s")
                answer: Answer = connection.recv()
            except (OSError, EOFError) as error:
                self._hang_up()
                raise LinkError(f"the process that learns does not answer: {error or 'it has ended'}") from error
            return answer

    def close(self) -> None:
        """Hang up."""
        with self._asking:
            self._hang_up()

    def _connected(self) -> Connection:
        if self._connection is None:
            with socket.socket(socket.AF_UNIX) as own:
                own.connect(self._address)
                self._connection = Connection(own.detach())
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None


def link_of_environment() -> Link | None:
    """Return the way to the process that learns for this one; None if there is no such process."""
    address = os.environ.get(ADDRESS)
    return None if address is None else Link(address)
