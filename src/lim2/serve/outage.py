"""A store that knows whether its database is unreachable: while it is, nobody waits for it."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from lim2.log.errors import StoreUnavailableError
from lim2.log.store import Copy, Lease, Result, Span, Store, Tables

logger = logging.getLogger("lim2.serve")

PATIENCE = 10.0  # seconds in which a database must answer a write


class Outage:
    """Whether the database is unreachable, as far as this process knows."""

    def __init__(self) -> None:
        self.since: float | None = None  # when it was noticed

    def begin(self, error: Exception) -> None:
        """Note that the database cannot be reached."""
        if self.since is None:
            self.since = time.time()
            logger.error("the database is unreachable: %s", error)

    def end(self) -> None:
        """Note that it can be reached."""
        if self.since is not None:
            logger.warning("the database is back after %.1f s", time.time() - self.since)
        self.since = None


class GuardedStore:
    """The store of a bandit's log; see `lim2.log.store.Store`."""

    def __init__(self, store: Store, outage: Outage) -> None:
        self.inner, self._outage = store, outage

    @property
    def name(self) -> str:  # noqa: D102
        return self.inner.name

    @property
    def read_only(self) -> bool:  # noqa: D102
        return self.inner.read_only

    def look(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._try(lambda: self.inner.look(work))

    def write(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._try(lambda: self.inner.write(work))

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:
        """Write with a timeout. After a timeout the outcome is unknown."""
        self._refuse()
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.inner.awrite(work)
        except TimeoutError as error:
            late = StoreUnavailableError(f"the database has not answered for {PATIENCE} s")
            late.unknown = True
            self._outage.begin(late)
            raise late from error
        except StoreUnavailableError as error:
            self._outage.begin(error)
            raise

    def _try(self, call: Callable[[], Result]) -> Result:
        self._refuse()
        try:
            return call()
        except StoreUnavailableError as error:
            self._outage.begin(error)
            raise

    def _refuse(self) -> None:
        if self._outage.since is not None:
            raise StoreUnavailableError("the database is unreachable")

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
