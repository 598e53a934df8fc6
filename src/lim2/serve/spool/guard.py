"""A store that knows whether its database is unreachable, and what happens to writes meanwhile."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lim2.log.decisions import Insertion
from lim2.log.errors import StoreUnavailableError, UnknownDecisionError
from lim2.log.rewards import Activation, Rewarding
from lim2.log.store import Copy, Lease, Result, Span, Store, StoredDecision, Tables
from lim2.serve.spool.entries import Command
from lim2.serve.spool.spool import NotSpoolingError, Spool

logger = logging.getLogger("lim2.serve")

PATIENCE = 10.0  # seconds in which a database must answer a write


class Outage:
    """Whether the database is unreachable, as far as this process knows. While it is, nobody waits for it.

    Parameters
    ----------
    spool
        Spool that keeps writes meanwhile. None: writes are refused.
    """

    def __init__(self, spool: Spool | None = None) -> None:
        self.spool = spool
        self.since: float | None = None  # when it was noticed

    def begin(self, error: Exception) -> None:
        """Note that the database cannot be reached.

        Parameters
        ----------
        error
            What says so.
        """
        if self.since is None:
            self.since = time.time()
            logger.error("the database is unreachable: %s", error)
        if self.spool is not None:
            self.spool.begin()

    def end(self) -> None:
        """Note that it can be reached."""
        if self.since is not None:
            logger.warning("the database is back after %.1f s", time.time() - self.since)
        self.since = None

    def error(self) -> StoreUnavailableError:
        """Return what is said to those who need the database meanwhile."""
        return StoreUnavailableError("the database is unreachable")


class GuardedStore:
    """The store of a bandit's log; see `lim2.log.store.Store`.

    Parameters
    ----------
    store
        The store itself.
    bandit, log
        The names by which it is found again.
    outage
        Outage of its database.
    """

    def __init__(self, store: Store, bandit: str, log: str, outage: Outage) -> None:
        self.inner, self._bandit, self._log, self._outage = store, bandit, log, outage

    @property
    def name(self) -> str:  # noqa: D102
        return self.inner.name

    @property
    def read_only(self) -> bool:  # noqa: D102
        return self.inner.read_only

    def look(self, work: Callable[[Tables], Result]) -> Result:
        """Read; while writes are kept on disk, what waits there is all that can be read."""
        spool = self._outage.spool
        if spool is not None and spool.active:
            waiting: Any = _Waiting(spool, self._log, self._outage)
            return work(waiting)
        return self._try(lambda: self.inner.look(work))

    def write(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._try(lambda: self.inner.write(work))

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:
        """Write, or keep on disk what is to be written."""
        command = getattr(work, "do", work)
        spool = self._outage.spool
        if spool is None or not isinstance(command, Insertion | Rewarding | Activation):
            self._refuse()
            try:
                return await self._awrite(work)
            except StoreUnavailableError as error:
                self._outage.begin(error)
                raise
        while True:
            if spool.active:
                try:
                    kept: Result = await spool.keep(self._bandit, self._log, command)
                    return kept
                except NotSpoolingError:
                    pass
            try:
                return await self._awrite(work)
            except StoreUnavailableError as error:
                self._outage.begin(error)
                if error.unknown and not _repeatable(command):
                    raise
            except UnknownDecisionError:
                if not spool.expects:
                    raise
                late: Result = await spool.keep(self._bandit, self._log, command, late=True)
                return late

    async def _awrite(self, work: Callable[[Tables], Result]) -> Result:
        """Write; a database that does not answer counts as away, and it is unknown whether it will write."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.inner.awrite(work)
        except TimeoutError as error:
            late = StoreUnavailableError(f"the database has not answered for {PATIENCE} s")
            late.unknown = True
            raise late from error

    def _try(self, call: Callable[[], Result]) -> Result:
        self._refuse()
        try:
            return call()
        except StoreUnavailableError as error:
            self._outage.begin(error)
            raise

    def _refuse(self) -> None:
        if self._outage.since is not None:
            raise self._outage.error()

    # The log as a whole

    def lead(self) -> Lease | None:  # noqa: D102
        return self._try(self.inner.lead)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:  # noqa: D102
        return self.inner.listen(wake)

    def nbytes(self) -> int:  # noqa: D102
        return self._try(self.inner.nbytes)

    def checkpoint(self) -> None:  # noqa: D102
        self._try(self.inner.checkpoint)

    def purge(self) -> None:  # noqa: D102
        self._try(self.inner.purge)

    def copying(self, write: bool = False, span: Span | None = None) -> AbstractContextManager[Copy]:  # noqa: D102
        return self.inner.copying(write, span)

    def backup(self, path: Path | str) -> None:  # noqa: D102
        self._try(lambda: self.inner.backup(path))

    def close(self) -> None:  # noqa: D102
        self.inner.close()


class _Waiting:
    """What can be read while the database is unreachable: decisions that wait for it."""

    def __init__(self, spool: Spool, log: str, outage: Outage) -> None:
        self._spool, self._log, self._outage = spool, log, outage

    def decision(self, id: str) -> StoredDecision:
        """Return a decision that waits."""
        found = self._spool.find(self._log, id)
        if found is None:
            raise self._outage.error()
        position, row = found
        return StoredDecision(0, position, "pending", None, row)

    def __getattr__(self, name: str) -> Any:
        raise self._outage.error()


def _repeatable(command: Command) -> bool:
    """Return whether a write that may have been done can be done again: ids and names tell that it was."""
    return not isinstance(command, Rewarding) or all(reward.name is not None for reward in command.rewards)
