"""A log in a PostgreSQL database, shared by threads, processes and machines.

What is promised, beside what every store promises (`lim2.log.store`):

- Who settles decisions locks the log's row until the end of the transaction, so those come one after another, in all
  processes. Who inserts decisions does not: two that insert the same id meet in the primary key.
- All work is done by threads of the store, never by that of the caller: one inserts decisions, one does all else that
  writes, one reads. Each does what has come meanwhile in one transaction. So an exception that comes to the caller,
  such as KeyboardInterrupt, leaves no connection in the middle of something.
- The connections belong to all logs of the process that are in the same database. A lost one is replaced. Work whose
  transaction was lost before it was to be committed is done once more; if the connection is lost while the database
  commits, StoreUnavailableError says that the outcome is unknown, and nothing is repeated.
"""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from lim2.log.copying import copy
from lim2.log.errors import GoneLogError, LogError, LogFileError
from lim2.log.group_commit import Group, RefusedError, Request, together
from lim2.log.postgres import connections as connecting
from lim2.log.postgres.connections import (
    EVERY,
    Connection,
    Connections,
    connect,
    failure,
    is_lost,
    let_go,
    parsed,
    shared,
)
from lim2.log.postgres.copying import PostgresCopy
from lim2.log.postgres.lease import PostgresLease, is_led, lead
from lim2.log.postgres.listening import listen, tell
from lim2.log.postgres.migrating import check, migrate
from lim2.log.postgres.partitions import KEEP, delete_pruned, drop_unused, make_ahead, make_between
from lim2.log.postgres.tables import PostgresTables, new_head
from lim2.log.store import Result, Span, Tables

logger = logging.getLogger("lim2.log")

LIMITS_TRANSACTIONS = 170000  # the first version of PostgreSQL that ends a transaction whose process stands still in it
QUIET = 0.02  # seconds between words to those who listen, under load
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"


class _Handle(NamedTuple):
    """Resources of a process: connections, and the threads that use them."""

    process: int
    connections: Connections
    inserting: Group
    writing: Group
    reading: Group


class PostgresStore:
    """A log in a database.

    Parameters
    ----------
    address
        Address of the log, see `lim2.log.postgres`. The log is created if it does not exist.
    synchronous
        ``"full"`` or ``"normal"``, see `DecisionLog`.
    read_only
        Whether the log is opened to be read only.
    """

    def __init__(self, address: str, synchronous: str, read_only: bool = False) -> None:
        self.address, self.read_only = parsed(address, read_only), read_only
        self._synchronous = synchronous
        self.number = self._made()
        self._said_at = -math.inf
        self._news = False  # whether something was written of which nobody has word
        self._handle: _Handle | None = self._opened()

    def _made(self) -> int:
        """Return the number of the log, which is made if it is not there."""
        connection = connect(self.address, self._synchronous)
        name = self.address.log
        try:
            with connection:
                if self.read_only:
                    check(connection, self.address)
                else:
                    migrate(connection, self.address)
                    make_ahead(connection, time.time())
                    head = Jsonb(new_head(uuid.uuid4().hex))
                    query = "INSERT INTO lim2.logs (name, head) SELECT %s, %s WHERE NOT EXISTS "
                    query += "(SELECT FROM lim2.logs WHERE name = %s) ON CONFLICT DO NOTHING"
                    connection.execute(query, (name, head, name))
                found = connection.execute("SELECT log FROM lim2.logs WHERE name = %s", (name,)).fetchone()
        except psycopg.Error as error:
            raise failure(self.address, error) from error
        if found is None:
            raise LogFileError(f"the log {self.name} cannot be opened: the database has no log of this name")
        return int(found[0])

    def _opened(self) -> _Handle:
        return _Handle(
            os.getpid(),
            shared(self.address, self._synchronous),
            Group(self._lane(_WRITE), self._closed),
            Group(self._lane(_WRITE), self._closed, self._afterwards),
            Group(self._lane(_READ), self._closed),
        )

    @property
    def name(self) -> str:  # noqa: D102
        return self.address.shown

    # Transactions

    def look(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._wait_for(self._current().reading, work)

    def write(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._wait_for(self._writer(work), work)

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        import asyncio

        result: Result = await self._writer(work).later(work, asyncio.get_running_loop())
        return result

    def _writer(self, work: Callable[[Tables], Any]) -> Group:
        if self.read_only:
            raise LogFileError(f"the log {self.name} is open for reading only: open it without read_only=True")
        handle = self._current()
        return handle.inserting if getattr(work, "inserts", False) else handle.writing

    def _wait_for(self, group: Group, work: Callable[[Tables], Result]) -> Result:
        if group.is_here:
            raise LogError(
                f"the log {self.name} is already in use by this thread: do not use it in a signal handler that "
                f"interrupts a call, or within a transaction. Use it afterwards."
            )
        result: Result = group.wait_for(work)
        return result

    def _lane(self, begin: str) -> Callable[[list[Request], Callable[[], list[Request]]], None]:
        """Return the function that runs requests in transactions of one kind."""

        def transact(work: Callable[[PostgresTables], None], at_once: bool) -> None:
            self._transact(begin, work, at_once)

        return lambda requests, meanwhile: together(requests, meanwhile, transact, self._step)

    def _transact(self, begin: str, work: Callable[[PostgresTables], None], at_once: bool) -> None:
        connections, committing = self._current().connections, False
        connection = connections.take()
        try:
            with connection.pipeline() if at_once else nullcontext():
                connection.execute(begin)
                if begin == _READ:
                    connection.execute(KEEP)
                elif connection.info.server_version >= LIMITS_TRANSACTIONS:
                    connection.execute(f"SET LOCAL transaction_timeout = '{connecting.WAIT}s'")
                tables = PostgresTables(connection, self.number, begin == _WRITE)
                work(tables)
                committing = begin == _WRITE
                connection.execute("COMMIT")
            self._news = self._news or tables.news
        except RefusedError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):  # nobody waits for another minute
                raise failure(self.address, error.__cause__) from error
            raise
        except psycopg.Error as error:
            if at_once and not is_lost(error):  # one request's fault, and found late
                raise RefusedError from error
            raise failure(self.address, error, committing) from error
        finally:
            _end(connection)
            connections.give_back(connection)

    def _afterwards(self) -> None:
        """Notify subscribers of a write, and maintain the partitions from time to time."""
        try:
            # While more is to be written, only now and then.
            if self._news and (not self._current().writing.is_busy or time.monotonic() > self._said_at + QUIET):
                self._news, self._said_at = False, time.monotonic()
                self._tell()
            if time.monotonic() > self._current().connections.care_at:
                self.care()
        except (LogError, psycopg.Error) as error:  # who listens looks by itself, and care is taken again
            logger.warning("the log %s: %s", self.name, error)

    def _tell(self) -> None:
        connections = self._current().connections
        connection = connections.take()
        try:
            tell(connection, self.number)
        finally:
            _end(connection)
            connections.give_back(connection)

    def _step(self, tables: PostgresTables, request: Request) -> None:
        connection = tables.connection
        connection.execute("SAVEPOINT request")
        own = PostgresTables(connection, self.number, tables.locks)
        try:
            request.result = request.work(own)
            own.flush()
        except Exception as error:
            if is_lost(error):
                raise
            connection.execute("ROLLBACK TO request")
            request.failed(failure(self.address, error) if isinstance(error, psycopg.Error) else error)
        connection.execute("RELEASE request")
        tables.news = tables.news or own.news

    def _current(self) -> _Handle:
        handle = self._handle
        if handle is None:
            raise self._closed()
        if handle.process != os.getpid():
            self._handle = handle = self._opened()
        return handle

    def _closed(self) -> GoneLogError:
        return GoneLogError(f"the log {self.name} has been closed")

    # The log as a whole

    def lead(self) -> PostgresLease | None:  # noqa: D102
        if self.look(lambda tables: is_led(tables.connection, self.number)):  # type: ignore[attr-defined]
            return None  # a session of its own is made only for who may get it
        return lead(self.address, self.number)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:  # noqa: D102
        self._current()
        return listen(self.address, self.number, wake)

    def nbytes(self) -> int:
        """Return the size of the tables in the database, of all logs together."""
        return self.look(lambda tables: int(tables.nbytes()))  # type: ignore[attr-defined]

    def checkpoint(self) -> None:
        """Do nothing: the server does it."""

    def purge(self) -> None:
        """Remove deleted rows from tables and indices; what is in WAL and backups is the database's own."""
        with self._alone() as connection:
            connection.execute("VACUUM (INDEX_CLEANUP ON) lim2.pending, lim2.rewards, lim2.events")

    def care(self) -> None:
        """Maintain the partitions of the database: create them ahead, and drop unused ones.

        This happens once an hour in each process that writes, whichever logs it has open meanwhile.
        """
        now, connections = time.time(), self._current().connections
        connections.care_at = time.monotonic() + EVERY
        with self._alone() as connection:
            make_ahead(connection, now)
            drop_unused(connection, now)
            if delete_pruned(connection, now):
                connections.care_at = time.monotonic() + 1.0  # there are more

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        """Yield a separate connection."""
        self._current()
        connection = connect(self.address, self._synchronous)
        try:
            yield connection
        except psycopg.Error as error:
            raise failure(self.address, error) from error
        finally:
            connection.close()

    @contextmanager
    def copying(self, write: bool = False, span: Span | None = None) -> Iterator[PostgresCopy]:  # noqa: D102
        with self._alone() as connection:
            if span is not None:
                make_between(connection, time.time(), *span)
            connection.execute(_WRITE if write else _READ)
            connection.execute(KEEP)
            yield PostgresCopy(connection, self.number)
            connection.execute("COMMIT")

    def backup(self, path: Path | str) -> None:
        """Copy the log into a new SQLite file, which is an independent log."""
        from lim2.log.sqlite.store import SQLiteStore

        target = Path(path)
        if target.exists():
            raise LogError(f"{target} exists, and a copy never overwrites: name a new file")
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        store = None
        try:
            store = SQLiteStore(part, "full")
            copy(self, store)
            store.close()
            part.replace(target)
        finally:
            if store is not None:
                store.close()
            part.unlink(missing_ok=True)

    def close(self) -> None:  # noqa: D102
        handle = self._handle
        if handle is not None and handle.process == os.getpid():
            for group in (handle.inserting, handle.writing, handle.reading):
                group.end()
            self._handle = None
            let_go(handle.connections)


def _end(connection: Connection) -> None:
    """Undo what a transaction has left open; a connection that cannot is of no use any more."""
    try:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
