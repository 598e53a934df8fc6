"""Which learner is for which bandits: each of several has those whose names hash to it."""

import hashlib
from typing import Any

from lim2.serve.catalog import open_catalog
from lim2.serve.config import Config
from lim2.serve.learner import Learner
from lim2.serve.limits import most_logs, raise_file_limit
from lim2.serve.metrics import Metrics


def owner_of(name: str, owners: int) -> int:
    """Return which owner learns a bandit.

    Examples
    --------
    >>> [owner_of(name, 4) for name in ("shop-1", "shop-2", "shop-3")]
    [1, 3, 0]
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") % owners


class Owner:
    """The learner of some bandits, in a thread."""

    def __init__(self, config: Config, number: int, owners: int) -> None:
        raise_file_limit()
        self.number, self._catalog = number, open_catalog(config)
        self.learner = Learner(
            self._catalog,
            config.ray.models,
            most_logs(),
            Metrics(),
            lambda name: owner_of(name, owners) == number,
            config.poll,
        )

    def start(self) -> None:
        """Begin to learn."""
        self.learner.start()

    def stop(self) -> None:
        """Save what was learned, and let go of all bandits."""
        self.learner.stop()
        self._catalog.close()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self.learner.alive

    @property
    def state(self) -> dict[str, Any]:
        """How it is doing: which bandits are open here, which of them it learns, and what fails."""
        opened = dict(self.learner.opened)
        return {
            "number": self.number,
            "open": sorted(opened),
            "leads": sorted(name for name, own in opened.items() if own.leads),
            "failures": dict(self.learner.failures),
            "learned": self.learner.learned,
        }
