"""The service: settings, keys, bandits, learner and metrics, started and stopped together."""

import asyncio
import logging
from typing import Any

from lim2.serve.config import Config
from lim2.serve.hosted import Hosted
from lim2.serve.keys import Keys, keys_of
from lim2.serve.learner import Learner
from lim2.serve.metrics import Metrics
from lim2.serve.registry import PERSONALIZER, Registry

logger = logging.getLogger("lim2.serve")


class Service:
    """What one process of the service holds.

    Parameters
    ----------
    config
        The settings.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.keys: Keys = keys_of(config)[0]
        self.metrics = Metrics()
        self.registry = Registry(config)
        self.learner = Learner(self.registry, self.metrics, config.poll)
        self._jobs: set[asyncio.Task[Any]] = set()
        self.ending = asyncio.Event()  # set when a signal asks for the end: answers that go on forever end then

    @property
    def personalizer(self) -> Hosted:
        """The bandit behind Personalizer's endpoints."""
        return self.registry.opened[PERSONALIZER]

    @property
    def ready(self) -> bool:
        """Whether every bandit can decide by all that was learned before the start."""
        return self.learner.alive and all(hosted.caught_up for hosted in self.registry.open)

    def start(self) -> None:
        """Begin to learn."""
        self.learner.start()

    async def stop(self) -> None:
        """End: what was acknowledged is on disk already; what was learned is published."""
        for job in self._jobs:
            job.cancel()
        await asyncio.to_thread(self.learner.stop)
        await asyncio.to_thread(self.registry.close)
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
        """Let a bandit read its description and learn now, if this process leads it, before a request is answered.

        Parameters
        ----------
        hosted
            The bandit.
        """
        await asyncio.to_thread(hosted.step)
