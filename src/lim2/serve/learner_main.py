"""`python -m lim2.serve.learner_main`: the process that learns, which `learner_process.py` starts.

It makes a pass over the logs whenever one of the processes that decide asks for it. It ends when its standard input
ends: with the process that has started it, however that ends.
"""

import contextlib
import itertools
import logging
import logging.config
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lim2.info import Info
from lim2.log import LogError
from lim2.serve.catalog import NoBanditError, open_catalog
from lim2.serve.config import Config
from lim2.serve.hosted import Hosted
from lim2.serve.learner import Learner
from lim2.serve.learner_link import Answer, Lesson, Question, Report
from lim2.serve.learner_process import SETTINGS
from lim2.serve.log_format import log_settings
from lim2.serve.messages import packed, receive, send_packed, set_patience
from lim2.serve.registry import ALONE, SHARED, Registry
from lim2.serve.yielding import Yielding

logger = logging.getLogger("lim2.serve")

NICE = 10  # requests come first where processors are scarce; then it has a tenth of one
SEND = 10  # seconds in which another process must take an answer
PASS = 0.5  # seconds after which a pass ends, and what was learned is sent


class Tally:
    """What a pass of the learner has done, in the place of metrics: the process that has asked for it counts."""

    def __init__(self) -> None:
        self._lessons: list[Lesson] = []
        self._failed: list[str] = []

    def learned(self, bandit: str, rewards: int, seconds: float, info: Info | None) -> None:
        """Note what a bandit has learned."""
        self._lessons.append(Lesson(bandit, rewards, seconds, info))

    def learner_failed(self, bandit: str) -> None:
        """Note that a bandit could not learn."""
        self._failed.append(bandit)

    def taken(self) -> tuple[list[Lesson], list[str]]:
        """Return what was noted since the last call."""
        found = self._lessons, self._failed
        self._lessons, self._failed = [], []
        return found

    def put_back(self, answer: Answer) -> None:
        """Note again what nobody has received."""
        self._lessons, self._failed = answer.lessons + self._lessons, answer.failed + self._failed


class Answering:
    """Answers the processes that decide: a pass over the logs, and what they do not know yet.

    Parameters
    ----------
    config
        The settings of this process.
    """

    def __init__(self, config: Config) -> None:
        self._catalog = open_catalog(config)
        every = SHARED if self._catalog.shared else ALONE
        self._registry = Registry(config, self._catalog, publish_every=every)
        self._tally = Tally()
        self._learner = Learner(self._registry, self._tally, config.poll)
        self._marks = itertools.count(time.time_ns())  # no two processes give the same
        self._reports: dict[str, Report] = {}  # the latest of each bandit

    def answer(self, question: Question) -> Answer:
        """Learn what has arrived, and return what has changed.

        Parameters
        ----------
        question
            Of a process that decides.
        """
        asked = None if question.now is None else self._opened(question.now)
        if asked is not None:
            asked.has_news()
        self._learner.look(question.now, PASS)
        if asked is not None and question.publish:
            self._publish(asked)
        self._reports = {hosted.name: self._report(hosted) for hosted in self._registry.open}
        changed = [one for name, one in self._reports.items() if question.marks.get(name) != one.mark]
        return Answer(changed, *self._tally.taken(), self._learner.unfinished)

    def packed(self, question: Question) -> "Packed":
        """Return an answer, and the parts of the message that has it: what scores items is computed for that.

        Parameters
        ----------
        question
            Of a process that decides.
        """
        answer = self.answer(question)
        return answer, packed(answer)

    def not_received(self, answer: Answer) -> None:
        """Keep for the next answer what is said only once.

        Parameters
        ----------
        answer
            One that could not be sent.
        """
        self._tally.put_back(answer)

    def _opened(self, name: str) -> Hosted | None:
        """Return a bandit, which another process may have made just now; None if it cannot be opened."""
        with contextlib.suppress(NoBanditError, LogError):
            self._registry.renew(name)  # another one may have its name
            return self._registry.opening(name)
        return None

    def _publish(self, hosted: Hosted) -> None:
        try:
            hosted.publish()
        except NoBanditError:  # deleted meanwhile
            self._registry.let_go(hosted, publish=False)
        except LogError as error:  # the one that was published before is taken then
            logger.warning("the model of the bandit %s is not published: %s", hosted.name, error)

    def _report(self, hosted: Hosted) -> Report:
        report = Report(
            name=hosted.name,
            created=hosted.stored.created,
            mark=self._reports[hosted.name].mark if hosted.name in self._reports else -1,
            leads=hosted.leads,
            caught_up=hosted.caught_up,
            failure=hosted.failure,
            decider=hosted.latest,
        )
        same = report == self._reports.get(hosted.name)
        return report if same else report._replace(mark=next(self._marks))

    def close(self) -> None:
        """Publish what was learned, and let go of all bandits."""
        self._registry.close()
        self._catalog.close()


Packed = tuple[Answer, list[memoryview]]
Run = Callable[[Callable[[], Packed]], Packed]


def serve(listener: socket.socket, parent: int, answering: Answering, run: Run = lambda work: work()) -> None:
    """Answer whoever connects, until the parent ends.

    Parameters
    ----------
    listener
        Where others connect.
    parent
        A file that ends with the parent.
    answering
        Who answers.
    run
        Does the work of an answer.
    """
    with selectors.DefaultSelector() as watched:
        watched.register(parent, selectors.EVENT_READ)
        watched.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fileobj == parent:
                    return
                if key.fileobj is listener:
                    client = listener.accept()[0]
                    set_patience(client, SEND)  # one that stands still does not keep others waiting
                    watched.register(client, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket) and not served(key.fileobj, answering, run):
                    watched.unregister(key.fileobj)
                    key.fileobj.close()


def served(client: socket.socket, answering: Answering, run: Run) -> bool:
    """Answer one question; return whether there can be another one.

    Parameters
    ----------
    client
        The connection on which there is a question, or its end.
    answering, run
        As for :func:`serve`.
    """
    try:
        question = receive(client)
    except (EOFError, OSError):
        return False
    try:
        answer, parts = run(lambda: answering.packed(question))
    except Exception:  # the client asks again
        logger.exception("a question of a process that decides cannot be answered")
        return False
    try:
        send_packed(client, parts)
    except OSError:
        answering.not_received(answer)
        return False
    return True


def main(listener: int) -> None:
    """Learn until the parent ends.

    Parameters
    ----------
    listener
        File descriptor of the socket on which others connect.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent gets them, too, and then ends this process
        signal.signal(number, signal.SIG_IGN)
    config = msgspec.json.decode(os.environ[SETTINGS], type=Config)
    logging.config.dictConfig(log_settings(config))
    os.nice(NICE)
    answering = Answering(config)
    with socket.socket(fileno=listener) as own:
        try:
            serve(own, sys.stdin.fileno(), answering, Yielding().run)
        finally:
            answering.close()
        shutil.rmtree(Path(own.getsockname()).parent, ignore_errors=True)  # which a parent that was killed has left


if __name__ == "__main__":
    main(int(sys.argv[1]))
