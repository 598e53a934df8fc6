"""The service: settings, keys, bandits, learner and metrics, started and stopped together."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lim2.serve.audit import AuditLog
from lim2.serve.background import BackgroundPool
from lim2.serve.catalog import open_catalog
from lim2.serve.config import Config
from lim2.serve.errors import ApiError
from lim2.serve.hosted import Hosted
from lim2.serve.keys import Keys, keys_of
from lim2.serve.learner import Learner
from lim2.serve.learner_link import Link
from lim2.serve.metrics import Metrics
from lim2.serve.registry import PERSONALIZER, Registry

logger = logging.getLogger("lim2.serve")


class Service:
    """What one process of the service holds.

    Parameters
    ----------
    config
        The settings.
    wanted
        As for :class:`Registry`.
    link
        The way to the process that learns; None: this one learns, in a thread.
    """

    def __init__(
        self, config: Config, wanted: Callable[[], Iterable[str]] | None = None, link: Link | None = None
    ) -> None:
        self.config = config
        self.catalog = open_catalog(config)
        self.keys: Keys = keys_of(config, self.catalog)[0]
        self.audit = AuditLog(Path(config.data) / "audit")
        self.metrics = Metrics(config.bandit_metrics)
        self.registry = Registry(config, self.catalog, wanted)
        self.learner = Learner(self.registry, self.metrics, config.poll, link)
        self.learner.reach()  # if the database is unreachable, bandits are opened when it is back
        self.background = BackgroundPool()
        self._jobs: set[asyncio.Task[Any]] = set()
        self.ending = asyncio.Event()  # set when a signal asks for the end: answers that go on forever end then
        self.draining = False  # whether it is about to end, and others should be asked

    @property
    def personalizer(self) -> Hosted:
        """The bandit behind Personalizer's endpoints."""
        found = self.registry.opened.get(PERSONALIZER)
        if found is None:
            raise ApiError(503, "ServiceUnavailable", "the service has not started yet", headers={"retry-after": "1"})
        return found

    @property
    def ready(self) -> bool:
        """Whether requests should be sent here.

        Every bandit can decide by all that was learned before the start; and the database is there, or what is to be
        written is kept on disk until it is back.
        """
        outage = self.catalog.outage
        works = outage.since is None or (outage.spool is not None and self.config.role != "learn")
        caught_up = self.registry.started and all(hosted.caught_up for hosted in self.registry.open)
        return self.learner.alive and caught_up and works and not self.draining

    def start(self) -> None:
        """Begin to learn."""
        self.learner.start()

    async def stop(self) -> None:
        """End: what was acknowledged is on disk already; what was learned is published."""
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.to_thread(self.learner.stop)
        await asyncio.to_thread(self.registry.close)
        await asyncio.to_thread(self.catalog.close)
        logger.info("stopped")

    def in_background(self, work: Any) -> None:
        """Run a coroutine beside the requests; it is cancelled when the service stops.

        Parameters
        ----------
        work
            The coroutine.
        """
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._done)

    def _done(self, job: "asyncio.Task[Any]") -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            logger.error("work in the background failed", exc_info=error)

    async def stepped(self, hosted: Hosted) -> None:
        """Let a bandit read its description and learn now, before a request is answered.

        Parameters
        ----------
        hosted
            The bandit.
        """
        await asyncio.to_thread(hosted.learn_now)
