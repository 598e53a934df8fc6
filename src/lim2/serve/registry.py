"""The bandits that a process has open. Their catalog is the truth; every process opens what it finds there."""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable

from lim2.log import LogFileError
from lim2.log.errors import GoneLogError
from lim2.serve import spec as specs
from lim2.serve.catalog import Catalog, LeftLogError, NoBanditError
from lim2.serve.config import Config
from lim2.serve.errors import ApiError, not_found
from lim2.serve.hosted import Ask, Hosted
from lim2.serve.spec import CATEGORIES, BanditSpec, PersonalizerSettings, Stored

# Seconds between models that are published: to restart from, and for other processes. While one is written, which is
# megabytes, decisions wait for the disk; what is lost by a crash is learned again from the log.
ALONE, SHARED = 60.0, 1.0
PERSONALIZER = "personalizer"  # the bandit behind Personalizer's endpoints


class Registry:
    """The bandits that this process has open.

    Parameters
    ----------
    config
        Settings of the service.
    catalog
        Catalog of the bandits.
    wanted
        Returns the names of the bandits that are to be open, whether or not somebody has asked for them. None: all.
    publish_every
        Seconds between models that are published. None: as it suits a process that serves alone, or one of several.
    """

    def __init__(
        self,
        config: Config,
        catalog: Catalog,
        wanted: Callable[[], Iterable[str]] | None = None,
        publish_every: float | None = None,
    ) -> None:
        self.config, self.catalog = config, catalog
        alone = config.workers == 1 and config.role == "all" and not catalog.shared
        self._publish_every = (ALONE if alone else SHARED) if publish_every is None else publish_every
        self._wanted, self.opens_all = wanted or catalog.names, wanted is None
        self.opened: dict[str, Hosted] = {}
        self._opening = threading.RLock()  # Python may collect what lets go of a bandit at any time
        self.started = False  # whether all bandits have been opened that were there at the start
        self._wake: Callable[[], None] = lambda: None
        self._ask: Ask | None = None
        self._looked = -math.inf

    def attach(self, wake: Callable[[], None], ask: Ask | None) -> None:
        """Connect the bandits that are opened from now on with who learns.

        Parameters
        ----------
        wake
            Called when there is something new in the log of a bandit.
        ask
            As for :class:`Hosted`.
        """
        self._wake, self._ask = wake, ask

    def start(self) -> None:
        """Open the bandits that are wanted, and make the one behind Personalizer's endpoints."""
        if PERSONALIZER not in self.catalog.names():
            self._create_personalizer()
        self._open_all(self._wanted())
        self.started = True

    def discover(self) -> None:
        """Open the bandits that are wanted by now, if it is time to look: other processes may have made some."""
        if time.monotonic() - self._looked >= self.config.poll:
            self._open_all(self._wanted())

    def _open_all(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.opened:
                with contextlib.suppress(NoBanditError, GoneLogError):  # deleted meanwhile
                    self.opening(name)
        self._looked = time.monotonic()

    async def get(self, name: str) -> Hosted:
        """Return a bandit; an ApiError if there is none.

        Parameters
        ----------
        name
            Name of the bandit.
        """
        found = self.opened.get(name)
        if found is not None:
            return found
        try:
            return await asyncio.to_thread(self.opening, specs.checked_name(name))
        except NoBanditError as error:
            raise not_found(str(error)) from error

    @property
    def open(self) -> list[Hosted]:
        """The bandits that are open."""
        return list(self.opened.values())

    def create(self, name: str, spec: BanditSpec) -> bool:
        """Make a bandit; return False if the very same is there already, an ApiError if another one has the name.

        Parameters
        ----------
        name
            Name of the bandit.
        spec
            What it is.
        """
        log = self.catalog.log_name(specs.checked_name(name), 0)
        specs.made(spec)  # what cannot be made is refused before anything is written
        try:
            there = self.catalog.create(name, Stored(spec=spec, created=specs.now(), log=log))
        except LogFileError:
            raise
        except LeftLogError as error:
            raise ApiError(409, "InvalidRequest", str(error), "name") from error
        except ValueError as error:
            raise ApiError(400, "BadRequest", str(error), "spec") from error
        if there is not None and there.spec != spec:
            message = f"there is a bandit {name!r} with another description: delete it first, or take another name"
            raise ApiError(409, "InvalidRequest", message, "name")
        self.renew(name)
        self.opening(name)
        return there is None

    def delete(self, name: str) -> None:
        """Remove a bandit and all that it has logged and learned; the one of Personalizer's endpoints begins anew.

        Parameters
        ----------
        name
            Name of the bandit.
        """
        try:
            self.catalog.delete(specs.checked_name(name))
        except NoBanditError as error:
            raise not_found(str(error)) from error
        self.renew(name)
        if name == PERSONALIZER:  # its endpoints need one
            self._create_personalizer()
            self.opening(name)

    def _create_personalizer(self) -> None:
        self.catalog.create(PERSONALIZER, personalizer_of(self.config, self.catalog.log_name(PERSONALIZER, 0)))

    def renew(self, name: str) -> None:
        """Take over what other processes have done to a bandit: let go of it if it was deleted.

        Parameters
        ----------
        name
            Name of the bandit, open or not.
        """
        found = self.opened.get(name)
        if found is not None:
            try:
                found.refresh()
            except NoBanditError:
                self.let_go(found, publish=False)

    def drop(self, name: str) -> None:
        """Let go of a bandit, here only; what was learned is published.

        Parameters
        ----------
        name
            Name of the bandit.
        """
        found = self.opened.get(name)
        if found is not None:
            self.let_go(found)

    def let_go(self, hosted: Hosted, publish: bool = True) -> None:
        """Let go of a bandit, here only, and not of another one that has its name by now.

        Parameters
        ----------
        hosted
            The bandit.
        publish
            As for :meth:`Hosted.close`.
        """
        with self._opening:
            if self.opened.get(hosted.name) is hosted:
                del self.opened[hosted.name]
        hosted.close(publish)

    def close(self) -> None:
        """Let go of all bandits."""
        for name in list(self.opened):
            self.drop(name)

    def opening(self, name: str) -> Hosted:
        """Return a bandit, opened if it is not open; NoBanditError if there is none.

        Parameters
        ----------
        name
            Name of the bandit.
        """
        with self._opening:
            if name in self.opened:
                return self.opened[name]
            role = self.config.role
            made = Hosted(
                name,
                self.catalog,
                learns=role != "decide" and self._ask is None,
                decides=role != "learn",
                publish_every=self._publish_every,
                wake=self._wake,
                ask=self._ask,
            )
            made.caught_up = self.started  # what is made later has nothing to catch up with
            self.opened[name] = made
            return made


def personalizer_of(config: Config, log: str) -> Stored:
    """Return what the bandit behind Personalizer's endpoints is at first.

    Parameters
    ----------
    config
        Settings of the service.
    log
        The name of its log.
    """
    own = config.personalizer
    days = own.log_retention_days
    spec = BanditSpec(
        algorithm=own.algorithm,
        epsilon=own.epsilon,
        encoder=CATEGORIES,
        item_encoder=CATEGORIES,
        expire_after=own.reward_wait_time,
        default_reward=own.default_reward,
        aggregate={"earliest": "first", "sum": "sum"}[own.reward_aggregation],  # type: ignore[arg-type]
        keep_days=None if days == -1 else float(max(days, 1)),
        seed=own.seed,
    )
    return Stored(spec=spec, created=specs.now(), personalizer=PersonalizerSettings(), log=log)
