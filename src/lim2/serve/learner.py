"""The thread that learns: it applies the logs of all bandits, and swaps the snapshots that decide.

Where another process learns, the thread asks that one to, and takes the snapshots over from it.
"""

import logging
import math
import threading
import time
from typing import Protocol

from lim2.info import Info
from lim2.log import StoreUnavailableError
from lim2.serve.catalog import NoBanditError
from lim2.serve.hosted import Hosted
from lim2.serve.learner_link import Answer, Link, LinkError, Question
from lim2.serve.registry import Registry

logger = logging.getLogger("lim2.serve")

SHARE = 0.1  # of the time, in which a learner works
SHORT, LONG = 0.05, 0.25  # seconds between two passes, whatever that share is
RETRY = 5.0  # seconds before a bandit whose learning failed is tried again
WAIT = 2.0  # seconds that a request waits until the process that learns has answered others
GRACE = 2.0  # seconds after an outage in which nothing is learned: rewards in spools come before what is overdue


def pause(took: float) -> float:
    """Return the seconds for which rewards are gathered after a pass: fewer passes, larger batches, less waiting.

    Parameters
    ----------
    took
        Seconds of the pass. If it was long, there is much to do, and requests should have the processor meanwhile.

    Examples
    --------
    >>> [pause(took) for took in (0.001, 0.02, 3.0)]
    [0.05, 0.18, 0.25]
    """
    return min(max(SHORT, took / SHARE - took), LONG)


class Counting(Protocol):
    """What counts the passes of a learner, as :class:`lim2.serve.metrics.Metrics` does."""

    def learned(self, bandit: str, rewards: int, seconds: float, info: Info | None) -> None:
        """Count what a bandit has learned in a pass."""

    def learner_failed(self, bandit: str) -> None:
        """Count a pass that failed."""


class Learner:
    """Learns in a thread of its own, as long as it is started.

    Parameters
    ----------
    registry
        The bandits.
    metrics
        Where it counts.
    poll
        Seconds between looks for what other processes have written, and for what has expired.
    link
        The way to the process that learns; None: this one does.
    """

    def __init__(self, registry: Registry, metrics: Counting, poll: float, link: Link | None = None) -> None:
        self._registry, self._metrics, self._poll, self._link = registry, metrics, poll, link
        registry.attach(self.wake, None if link is None else self.ask)
        self._answering = threading.Lock()  # answers are taken over in the order in which they come
        self.answers = True  # whether the process that learns has answered the last time
        self._left: set[str] = set()  # bandits for which the last pass had no time
        self._wake, self._stop = threading.Event(), False
        self._retry: dict[str, float] = {}
        self._resumes = 0.0  # when learning goes on after an outage
        self._looks = 0.0  # when bandits are looked at again after a failure
        self._thread = threading.Thread(target=self._run, name="lim2 learner", daemon=True)
        self.rounds = 0  # passes over all bandits
        self._took = 0.0  # seconds of the latest one

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once: something has arrived."""
        self._wake.set()

    def stop(self) -> None:
        """End after the pass that is under way."""
        self._stop = True
        self._wake.set()
        if self._link is not None:
            self._link.close()  # whatever it waits for
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def reach(self) -> bool:
        """Return whether the database is there; if it is back, do what has waited for it, and open all bandits."""
        catalog = self._registry.catalog
        outage = catalog.outage
        spool, away = outage.spool, outage.since is not None
        try:
            if away:
                catalog.ping()
            if spool is not None and spool.pending:
                spool.replay(catalog.store_of)
            outage.end()
            if self._registry.started:
                self._registry.discover()
            else:
                self._registry.start()
        except StoreUnavailableError as error:
            outage.begin(error)
            return False
        if away:
            self._resumes = time.monotonic() + GRACE
        return True

    def _run(self) -> None:
        while not self._stop:
            self.rest(self.look())

    def rest(self, learned: int) -> None:
        """Wait for something new, unless there was something just now.

        Parameters
        ----------
        learned
            How many rewards were learned just now.
        """
        if not learned:
            self._wake.wait(self._poll)
        self._wake.clear()
        if not self._stop:
            time.sleep(pause(self._took))

    def look(self, first: str | None = None, seconds: float = math.inf) -> int:
        """Pass over all bandits once; return how many rewards were learned.

        Parameters
        ----------
        first
            Name of a bandit that comes first, even if it has failed just now.
        seconds
            After which the pass ends; the next one goes on with the bandits that are left.
        """
        if first is not None:
            self._retry.pop(first, None)
        began = time.monotonic()
        learned = self._pass(first, began + seconds)
        self.rounds, self._took = self.rounds + 1, time.monotonic() - began
        return learned

    @property
    def unfinished(self) -> bool:
        """Whether the last pass had no time for some bandits."""
        return bool(self._left)

    def _pass(self, first: str | None, until: float) -> int:
        if self._looks > time.monotonic():
            return 0
        try:
            if not self.reach():
                return 0
        except Exception:  # it is said in the log, and tried again: requests are still answered
            logger.exception("the bandits cannot be looked at")
            self._looks = time.monotonic() + RETRY
            return 0
        learned = 0 if self._link is None or self._resumes > time.monotonic() else self.ask()
        left = self._left or set(self._registry.opened)  # the bandits for which the last pass had no time, or all
        waiting = [hosted for hosted in self._registry.open if hosted.name in left or hosted.name == first]
        waiting.sort(key=lambda hosted: hosted.name != first)
        self._left = {hosted.name for hosted in waiting}
        for hosted in waiting:
            learned += self._step(hosted)
            self._left.discard(hosted.name)
            if time.monotonic() >= until:
                break
        return learned

    def _step(self, hosted: Hosted) -> int:
        name, now = hosted.name, time.monotonic()
        if self._retry.get(name, 0.0) > now or (hosted.learns and self._resumes > now) or not hosted.due:
            return 0
        began = time.perf_counter()
        try:
            learned = hosted.step()
        except NoBanditError:  # deleted by another process
            self._registry.let_go(hosted, publish=False)
            return 0
        except StoreUnavailableError as error:
            self._registry.catalog.outage.begin(error)
            return 0
        except Exception as error:
            notes = "; ".join(getattr(error, "__notes__", ()))
            hosted.own_failure = f"{type(error).__name__}: {error} {notes}".strip()
            logger.exception("the bandit %s cannot learn: %s", name, notes)
            self._metrics.learner_failed(name)
            hosted.caught_up = True  # it goes on deciding by the model that it has
            self._retry[name] = time.monotonic() + RETRY
            return 0
        hosted.own_failure = None
        if learned:
            self._metrics.learned(name, learned, time.perf_counter() - began, hosted.info)
        return learned

    # Where another process learns

    def ask(self, now: str | None = None, publish: bool = False) -> int:
        """Let the process that learns look at the logs now, and take over what it has learned; return how many rewards.

        If it does not answer, this thread asks again in its next pass. Requests do not wait for it then: what they
        have changed is learned later. A request for a model waits for as long as others are answered: the model
        published before would be an older one.

        Parameters
        ----------
        now, publish
            As for :class:`Question`. A name means that a request waits.
        """
        if now is None:
            with self._answering:
                return self._asked(Question(self._marks()))
        if not self.answers or not self._answering.acquire(timeout=-1 if publish else WAIT):
            return 0
        try:
            return self._asked(Question(self._marks(), now, publish))
        finally:
            self._answering.release()

    def _marks(self) -> dict[str, int]:
        return {hosted.name: hosted.mark for hosted in self._registry.open}

    def _asked(self, question: Question) -> int:
        assert self._link is not None
        try:
            answer = self._link.ask(question)
        except LinkError as error:
            if self.answers and not self._stop:
                logger.warning("nothing is learned at the moment: %s", error)
            self.answers = False
            for hosted in self._registry.open:
                hosted.unanswered()
            return 0
        if not self.answers:
            logger.info("the process that learns answers again")
        self.answers = True
        return self._take(answer)

    def _take(self, answer: Answer) -> int:
        for report in answer.reports:
            hosted = self._registry.opened.get(report.name)
            if hosted is not None:
                hosted.take(report)
        for lesson in answer.lessons:
            self._metrics.learned(*lesson)
        for name in answer.failed:
            self._metrics.learner_failed(name)
        if answer.unfinished:
            self._wake.set()  # it is asked again at once
        return sum(lesson.rewards for lesson in answer.lessons)
