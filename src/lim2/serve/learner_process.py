"""The process that learns, beside those that answer requests: so that they never wait for it.

`LearnerProcess` starts it, and starts it again if it dies. `python -m lim2.serve.learner_process` is that process. It
makes a pass over the logs whenever one of the others asks for it, and ends when its standard input ends: with the
process that has started it, however that ends.
"""

import contextlib
import itertools
import logging
import logging.config
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

import msgspec

from lim2.info import Info
from lim2.log import LogError
from lim2.serve.config import Config
from lim2.serve.home import NoBanditError, open_home
from lim2.serve.hosted import Hosted
from lim2.serve.learner import Learner
from lim2.serve.learner_link import ADDRESS, Answer, Lesson, Question, Report
from lim2.serve.log_format import log_settings
from lim2.serve.registry import ALONE, SHARED, Registry

logger = logging.getLogger("lim2.serve")

SETTINGS = "LIM2_SERVE_SETTINGS"  # the settings, for all processes of the service
NICE = 10  # requests come first where cores are scarce; then it has a tenth of one
AGAIN = 1.0  # seconds before it is started again
SEND = 10  # seconds in which another process must take an answer


class LearnerProcess:
    """Starts the process that learns, and keeps it running until :meth:`stop`.

    The socket on which it listens belongs to this process, so that others can connect before it is there, and while it
    is started again.

    Parameters
    ----------
    config
        The settings of the service.
    """

    def __init__(self, config: Config) -> None:
        self._folder = tempfile.mkdtemp(prefix="lim2-")  # only its owner can enter it
        self.address = str(Path(self._folder) / "learner")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._config, self._ending = own_settings(config), threading.Event()
        self._process = self._started()
        self._thread = threading.Thread(target=self._keep, name="lim2 learner process", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it: it publishes what it has learned first."""
        self._ending.set()
        _end(self._process)
        self._thread.join()
        _end(self._process)  # if it was being started again just now
        self._process.wait()
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self) -> "subprocess.Popen[bytes]":
        listener = self._listener.fileno()
        return subprocess.Popen(
            [sys.executable, "-m", "lim2.serve.learner_process", str(listener)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listener],
            env={**os.environ, SETTINGS: msgspec.json.encode(self._config).decode()},
        )  # fmt: skip

    def _keep(self) -> None:
        while not self._ending.is_set():
            status = self._process.wait()
            if self._ending.is_set():
                return
            logger.error("the process that learns has ended with status %d, and is started again", status)
            _end(self._process)
            if not self._ending.wait(AGAIN):
                self._process = self._started()


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


@contextlib.contextmanager
def learner_process(config: Config) -> Iterator[None]:
    """Run the process that learns for as long as requests are answered, if this service does both.

    Parameters
    ----------
    config
        The settings of the service.
    """
    if config.role != "all":
        yield
        return
    process = LearnerProcess(config)
    os.environ[ADDRESS] = process.address
    try:
        yield
    finally:
        del os.environ[ADDRESS]
        process.stop()


def own_settings(config: Config) -> Config:
    """Return the settings of the process that learns.

    It acknowledges nothing, so its writes to a folder need not be flushed: SQLite keeps the order of all writes, so
    whatever others acknowledge later is on disk with all that came before. If power is lost, it learns again what is
    lost.

    Parameters
    ----------
    config
        Those of the service.
    """
    synchronous = "normal" if config.store is None else config.synchronous
    return msgspec.structs.replace(
        config, role="learn", workers=1, synchronous=synchronous, on_outage="refuse", demo=False
    )


class Tally:
    """What a pass of the learner has done, in the place of metrics: the process that has asked for it counts."""

    def __init__(self) -> None:
        self._lessons: list[Lesson] = []
        self._failed: list[str] = []

    def learned(self, bandit: str, rewards: int, seconds: float, info: Info | None) -> None:
        """Note what a bandit has learned."""
        if rewards:
            self._lessons.append(Lesson(bandit, rewards, seconds, info))

    def learner_failed(self, bandit: str) -> None:
        """Note that a bandit could not learn."""
        self._failed.append(bandit)

    def taken(self) -> tuple[list[Lesson], list[str]]:
        """Return what was noted since the last call."""
        found = self._lessons, self._failed
        self._lessons, self._failed = [], []
        return found


class Answering:
    """Answers the processes that decide: a pass over the logs, and what they do not know yet.

    Parameters
    ----------
    config
        The settings of this process.
    """

    def __init__(self, config: Config) -> None:
        self._home = open_home(config)
        every = SHARED if self._home.shared else ALONE
        self._registry = Registry(config, self._home, publish_every=every)
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
        self._learner.look()
        if asked is not None and question.publish:
            self._publish(asked)
        reports = [self._report(hosted) for hosted in self._registry.open]
        changed = [report for report in reports if question.marks.get(report.name) != report.mark]
        return Answer(changed, *self._tally.taken())

    def _opened(self, name: str) -> Hosted | None:
        """Return a bandit, which another process may have made just now; None if it cannot be opened."""
        with contextlib.suppress(NoBanditError, LogError):
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
            decider=hosted.decider if hosted.leads else None,
        )
        if report != self._reports.get(hosted.name):
            self._reports[hosted.name] = report = report._replace(mark=next(self._marks))
        return report

    def close(self) -> None:
        """Publish what was learned, and let go of all bandits."""
        self._registry.close()
        self._home.close()


def serve(listener: socket.socket, parent: int, answering: Answering) -> None:
    """Answer whoever connects, until the parent ends.

    Parameters
    ----------
    listener
        Where others connect.
    parent
        A file that ends with the parent.
    answering
        Who answers.
    """
    clients: list[Connection] = []
    while True:
        for ready in wait([listener, parent, *clients]):
            if ready == parent:
                return
            if isinstance(ready, socket.socket):
                clients.append(_accepted(ready))
            elif isinstance(ready, Connection) and not _served(ready, answering):
                ready.close()
                clients.remove(ready)


def _accepted(listener: socket.socket) -> Connection:
    client, _ = listener.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND, 0))  # one that stands still
    return Connection(client.detach())


def _served(client: Connection, answering: Answering) -> bool:
    """Answer one question; return whether there can be another one."""
    try:
        client.send(answering.answer(client.recv()))
    except (EOFError, OSError):
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
    try:
        with socket.socket(fileno=listener) as own:
            serve(own, sys.stdin.fileno(), answering)
    finally:
        answering.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
