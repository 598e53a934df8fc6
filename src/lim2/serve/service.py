"""The service: settings, keys, bandits, learner and metrics, started and stopped together."""

import asyncio
import contextlib
import fcntl
import logging
import os
from pathlib import Path
from typing import Any

from lim2.serve.audit import AuditLog
from lim2.serve.background import BackgroundPool
from lim2.serve.bandits import PERSONALIZER, Bandits, DecidingBandit, Follower
from lim2.serve.catalog import open_catalog
from lim2.serve.config import Config
from lim2.serve.errors import ApiError
from lim2.serve.keys import Keys, keys_of
from lim2.serve.learner import READY, Learner, answers
from lim2.serve.limits import most_logs
from lim2.serve.metrics import Metrics

logger = logging.getLogger("lim2.serve")


class Service:
    """What one process of the service holds."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.catalog = open_catalog(config)
        self.keys: Keys = keys_of(config, self.catalog)[0]
        self.audit = AuditLog(Path(config.data) / "audit")
        self.metrics = Metrics(config.bandit_metrics)
        self.bandits = Bandits(config, self.catalog, min(most_logs(), config.open_bandits))
        counts = self.metrics if config.workers == 1 else FirstCounts(self.metrics, Path(config.data))
        self.follower = Follower(self.bandits, self.catalog, config.poll, counts)
        self.learner: Learner | None = None
        if config.role == "learn":
            self.learner = Learner(self.catalog, config.open_bandits, most_logs(), self.metrics, poll=config.poll)
        else:
            self.follower.look()  # if the database is unreachable, bandits are opened when it is back
        self._learner_ready = Path(os.environ[READY]) if READY in os.environ else None
        self._caught_up = self._learner_ready is None
        self.background = BackgroundPool()
        self._jobs: set[asyncio.Task[Any]] = set()
        self.ending = asyncio.Event()  # set when a signal asks for the end: answers that go on forever end then
        self.draining = False  # whether it is about to end, and others should be asked

    @property
    def personalizer(self) -> DecidingBandit:
        """The bandit behind Personalizer's endpoints."""
        found = self.bandits.opened.get(PERSONALIZER)
        if found is None:
            reason = self.failures.get(PERSONALIZER, "the service has not started yet")
            raise ApiError(503, "ServiceUnavailable", reason, headers={"retry-after": "1"})
        return found

    @property
    def ready(self) -> bool:
        """Whether requests should be sent here: it can decide by all that was learned before the start.

        An outage of the database later does not end that: decisions go on.
        """
        if self.learner is not None:
            works = self.learner.alive and self.learner.caught_up and self.catalog.outage.since is None
        else:
            self._caught_up = self._caught_up or self.learner_answers
            works = self.follower.alive and self.bandits.started and self._caught_up
        return works and not self.draining

    @property
    def learner_answers(self) -> bool:
        """Whether the learner of this service runs; also if it has none, and follows those of others."""
        return self._learner_ready is None or answers(self._learner_ready)

    @property
    def failures(self) -> dict[str, str]:
        """Why bandits cannot be learned or opened, by their names."""
        return self.follower.failures if self.learner is None else self.learner.failures

    def start(self) -> None:
        """Begin to follow the learner, or to learn."""
        if self.learner is None:
            self.follower.start()
        else:
            self.learner.start()

    async def stop(self) -> None:
        """End: what was acknowledged is on disk already; what was learned is published."""
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.to_thread(self.follower.stop if self.learner is None else self.learner.stop)
        await asyncio.to_thread(self.bandits.close)
        await asyncio.to_thread(self.catalog.close)
        logger.info("stopped")

    def in_background(self, work: Any) -> None:
        """Run a coroutine beside the requests; it is cancelled when the service stops."""
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._done)

    def _done(self, job: "asyncio.Task[Any]") -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            logger.error("work in the background failed", exc_info=error)

    async def stepped(self, bandit: DecidingBandit, position: int = 0) -> None:
        """Wait until a change of a bandit decides, if there is a learner; no longer than a few seconds."""
        if self.learner_answers:
            await asyncio.to_thread(bandit.reach, position)


class FirstCounts:
    """Counts what learners have done, in one of several processes."""

    def __init__(self, metrics: Metrics, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._metrics, self._is_first = metrics, False
        self._lock = os.open(folder / ".counts", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _counts(self) -> bool:
        if not self._is_first:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._is_first = True
        return self._is_first

    def learned(self, bandit: str, rewards: int, seconds: float, info: Any) -> None:
        """Count what a bandit has learned."""
        if self._counts():
            self._metrics.learned(bandit, rewards, seconds, info)

    def learner_failed(self, bandit: str) -> None:
        """Count a pass that failed."""
        if self._counts():
            self._metrics.learner_failed(bandit)
