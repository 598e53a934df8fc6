"""Who learns which bandits: each of several owners has those whose names hash to it, and opens those that need it."""

import hashlib
import math
import threading
import time
from typing import Any

import msgspec

from lim2.log import StoreUnavailableError
from lim2.serve.catalog import open_catalog
from lim2.serve.catalog.postgres import PostgresCatalog
from lim2.serve.config import Config
from lim2.serve.learner import Learner
from lim2.serve.metrics import Metrics
from lim2.serve.registry import Registry

IDLE = 30.0  # seconds for which a bandit stays open that has nothing to learn
LOOK = 1.0  # seconds between looks for bandits that have something to learn; open ones are woken
CARE = 3600.0  # seconds between looks for bandits that have something to delete
FEW = 4  # of them are opened at once


def owner_of(name: str, owners: int) -> int:
    """Return which owner learns a bandit.

    Parameters
    ----------
    name
        Name of the bandit.
    owners
        How many there are.

    Examples
    --------
    >>> [owner_of(name, 4) for name in ("shop-1", "shop-2", "shop-3")]
    [1, 3, 0]
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") % owners


class Owner:
    """Learns its bandits, in a thread of its own. Those that have nothing to learn are in the database, not in memory.

    Two owners never learn one bandit at once, whatever their numbers: who learns needs the lease of the bandit's log.

    Parameters
    ----------
    config
        Settings of the service.
    number, owners
        Number of this owner, from 0, and number of all owners.
    """

    def __init__(self, config: Config, number: int, owners: int) -> None:
        config = msgspec.structs.replace(config, role="learn", poll=LOOK)
        catalog = open_catalog(config)
        assert isinstance(catalog, PostgresCatalog)
        self.number, self._owners, self._most, self._catalog = number, owners, config.ray.models, catalog
        self._registry = Registry(config, catalog, self._wanted)
        self._learner = Learner(self._registry, Metrics(), config.poll)
        self._used: dict[str, float] = {}  # when each open bandit last had something to learn
        self._stamps: dict[str, int] = {}  # of descriptions at which this owner has still to look
        self._aged: list[str] = []  # bandits that have something to delete
        self._cared = -math.inf  # when it was looked for them
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lim2 owner", daemon=True)
        self.learned = 0

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def stop(self) -> None:
        """Publish what was learned, and let go of all bandits."""
        self._stop.set()
        self._learner.wake()
        self._thread.join()
        self._registry.close()
        self._catalog.close()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def state(self) -> dict[str, Any]:
        """How it is doing: which bandits are open here, which of them it learns, and what fails."""
        opened = self._registry.open
        return {
            "number": self.number,
            "open": sorted(hosted.name for hosted in opened),
            "leads": sorted(hosted.name for hosted in opened if hosted.leads),
            "failures": {hosted.name: hosted.failure for hosted in opened if hosted.failure},
            "learned": self.learned,
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            learned = self.step()
            if not self._stop.is_set():
                self._learner.rest(learned)

    def step(self) -> int:
        """Open what has something to learn, learn it, close what has been idle; return how many rewards."""
        learned = self._learner.look()
        self.learned += learned
        try:
            self._note_looks()
        except StoreUnavailableError as error:  # they are noted when it is back
            self._catalog.outage.begin(error)
        before = time.monotonic() - IDLE
        for name in [name for name, last in self._used.items() if last < before]:
            self._close(name)
        return learned

    def _wanted(self) -> list[str]:
        """Return the bandits to open, of this owner, that have something to do; close others to make room."""
        waiting = self._catalog.waiting(time.time())
        self._stamps = {name: stamp for name, stamp in waiting.items() if self._owns(name)}
        opened, now = self._registry.opened, time.monotonic()
        new = [name for name in self._stamps if name not in opened]
        new += [name for name in self._some_aged() if name not in opened and name not in new]
        for name in sorted(self._used, key=self._used.__getitem__)[: max(len(opened) + len(new) - self._most, 0)]:
            self._close(name)
        new = new[: max(self._most - len(opened), 0)]
        self._used |= dict.fromkeys((*new, *(name for name in self._stamps if name in opened)), now)
        return new

    def _some_aged(self) -> list[str]:
        """Return some bandits whose decisions have been kept for too long: who learns a bandit deletes them."""
        if time.monotonic() - self._cared >= CARE:
            self._aged = [name for name in self._catalog.aged(time.time()) if self._owns(name)]
            self._cared = time.monotonic()
        some, self._aged = self._aged[:FEW], self._aged[FEW:]
        return some

    def _owns(self, name: str) -> bool:
        return owner_of(name, self._owners) == self.number

    def _note_looks(self) -> None:
        done = {}
        for name, stamp in self._stamps.items():
            hosted = self._registry.opened.get(name)
            if hosted is not None and hosted.leads and hosted.stamp == stamp and hosted.failure is None:
                done[name] = stamp
        if done and self._catalog.outage.since is None:
            self._catalog.looked(done)
        self._stamps = {name: stamp for name, stamp in self._stamps.items() if name not in done}

    def _close(self, name: str) -> None:
        self._used.pop(name, None)
        self._registry.drop(name)  # which publishes what was learned, and lets go of the lease
