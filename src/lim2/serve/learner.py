"""The thread that learns: it applies the logs of all bandits, and swaps the snapshots that decide."""

import logging
import threading
import time

from lim2.serve.hosted import Hosted
from lim2.serve.metrics import Metrics
from lim2.serve.registry import Registry

logger = logging.getLogger("lim2.serve")

GATHER = 0.05  # seconds that rewards are gathered before they are learned: fewer steps, larger batches, less waiting
RETRY = 5.0  # seconds before a bandit whose learning failed is tried again


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
    """

    def __init__(self, registry: Registry, metrics: Metrics, poll: float) -> None:
        self._registry, self._metrics, self._poll = registry, metrics, poll
        self._wake, self._stop = threading.Event(), False
        self._retry: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="lim2 learner", daemon=True)
        self.rounds = 0  # passes over all bandits

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
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop:
            learned = sum(self._step(hosted) for hosted in self._registry.open)
            self.rounds += 1
            if not learned:
                self._wake.wait(self._poll)
            self._wake.clear()
            if not self._stop:
                time.sleep(GATHER)

    def _step(self, hosted: Hosted) -> int:
        name = hosted.name
        if self._retry.get(name, 0.0) > time.monotonic():
            return 0
        began = time.perf_counter()
        try:
            learned = hosted.step()
        except FileNotFoundError:  # deleted by another process
            self._registry.drop(name)
            return 0
        except Exception as error:
            notes = "; ".join(getattr(error, "__notes__", ()))
            hosted.failure = f"{type(error).__name__}: {error} {notes}".strip()
            logger.exception("the bandit %s cannot learn: %s", name, notes)
            self._metrics.learner_failed(name)
            hosted.caught_up = True  # it goes on deciding by the model that it has
            self._retry[name] = time.monotonic() + RETRY
            return 0
        hosted.failure = None
        self._metrics.learned(hosted, learned, time.perf_counter() - began)
        return learned
