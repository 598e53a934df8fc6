"""A log in a PostgreSQL database, shared by threads, processes and machines.

It gives these guarantees beside those of every store (`lim2.log.store`):

- Transactions that settle decisions lock the log's row, so they run one after another in all processes. Those that only
  insert decisions do not: the primary key refuses the second of two equal IDs.
- Threads of the store run all work, never the caller's thread: one inserts decisions, one does all other writes, one
  reads. So an exception in the caller, such as KeyboardInterrupt, leaves no connection within a transaction.
- All logs of a process in one database share connections. Work lost before the commit runs once more; if the connection
  is lost during the commit, a StoreUnavailableError says that the outcome is unknown, and nothing is repeated.
"""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from lim2.log.copying import copy, new_file
from lim2.log.errors import GoneLogError, LogError, LogFileError
from lim2.log.group_commit import GroupCommit, RefusedError, Request, write_group
from lim2.log.postgres import connections, sql
from lim2.log.postgres.connections import Connection, Connections
from lim2.log.postgres.copying import PostgresCopy
from lim2.log.postgres.lease import PostgresLease, is_led, lead
from lim2.log.postgres.listening import listen, notify
from lim2.log.postgres.migrating import check, migrate
from lim2.log.postgres.partitions import delete_pruned, drop_unused, make_ahead, make_between
from lim2.log.postgres.tables import PostgresTables, new_head
from lim2.log.store import Result, Span, Tables

logger = logging.getLogger("lim2.log")

TRANSACTION_TIMEOUT_VERSION = 170000  # of PostgreSQL, the first that ends a transaction of a suspended process
NOTIFICATION_SECONDS = 0.02  # between notifications under load


class _Handle(NamedTuple):
    """Resources of a process: connections, and the threads that use them."""

    process: int
    connections: Connections
    inserting: GroupCommit
    writing: GroupCommit
    reading: GroupCommit


class PostgresStore:
    """A log in a database."""

    def __init__(self, address: str, synchronous: str, read_only: bool = False) -> None:
        self.address, self.read_only = connections.parsed(address, read_only), read_only
        self._synchronous = synchronous
        self.number = self._created()
        self._notified_at = -math.inf
        self._news = False  # whether something was written of which subscribers were not notified
        self._handle: _Handle | None = self._opened()

    def _created(self) -> int:
        """Return the number of the log, which is created if it does not exist."""
        connection = connections.connect(self.address, self._synchronous)
        name = self.address.log
        try:
            with connection:
                if self.read_only:
                    check(connection, self.address)
                else:
                    migrate(connection, self.address)
                    make_ahead(connection, time.time())
                    head = Jsonb(new_head(uuid.uuid4().hex))
                    connection.execute(sql.CREATE_LOG, {"name": name, "head": head})
                row = connection.execute(sql.LOG_NUMBER, (name,)).fetchone()
        except psycopg.Error as error:
            raise connections.failure(self.address, error) from error
        if row is None:
            raise LogFileError(f"the log {self.name} cannot be opened: the database has no log of this name")
        return int(row[0])

    def _opened(self) -> _Handle:
        return _Handle(
            os.getpid(),
            connections.shared(self.address, self._synchronous),
            GroupCommit(self._lane(sql.BEGIN_WRITE), self._closed),
            GroupCommit(self._lane(sql.BEGIN_WRITE), self._closed, self._finish),
            GroupCommit(self._lane(sql.BEGIN_READ), self._closed),
        )

    @property
    def name(self) -> str:  # noqa: D102
        return self.address.masked

    # Transactions

    def look(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._wait_for(self._current().reading, work)

    def write(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._wait_for(self._writer(work), work)

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        import asyncio

        result: Result = await self._writer(work).submit(work, asyncio.get_running_loop())
        return result

    def _writer(self, work: Callable[[Tables], Any]) -> GroupCommit:
        if self.read_only:
            raise LogFileError(f"the log {self.name} is open for reading only: open it without read_only=True")
        handle = self._current()
        return handle.inserting if getattr(work, "inserts", False) else handle.writing

    def _wait_for(self, group: GroupCommit, work: Callable[[Tables], Result]) -> Result:
        if group.is_current:
            raise LogError(
                f"the log {self.name} is already in use by this thread: do not use it in a signal handler that "
                f"interrupts a call, or within a transaction. Use it afterwards."
            )
        result: Result = group.wait_for(work)
        return result

    def _lane(self, begin: str) -> Callable[[list[Request], Callable[[], list[Request]]], None]:
        """Return the function that runs requests in transactions of one kind."""
        return lambda requests, drained: write_group(
            requests, drained, lambda work, at_once: self._transact(begin, work, at_once), self._step
        )

    def _transact(self, begin: str, work: Callable[[PostgresTables], None], at_once: bool) -> None:
        committing = False
        try:
            with self._current().connections.borrowed() as connection:
                with connection.pipeline() if at_once else nullcontext():
                    connection.execute(begin)
                    if begin == sql.BEGIN_READ:
                        connection.execute(sql.LOCK_PARTITIONS)
                    elif connection.info.server_version >= TRANSACTION_TIMEOUT_VERSION:
                        connection.execute(sql.SET_TRANSACTION_TIMEOUT.format(connections.TIMEOUT_SECONDS))
                    tables = PostgresTables(connection, self.number, begin == sql.BEGIN_WRITE)
                    work(tables)
                    committing = begin == sql.BEGIN_WRITE
                    connection.execute("COMMIT")
                self._news = self._news or tables.news
        except RefusedError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):  # nobody waits for another minute
                raise connections.failure(self.address, error.__cause__) from error
            raise
        except psycopg.Error as error:
            if at_once and not connections.is_lost(error):  # the fault of one request, noticed late
                raise RefusedError from error
            raise connections.failure(self.address, error, committing) from error

    def _finish(self) -> None:
        """Notify subscribers of a write, and maintain the partitions from time to time."""
        try:
            overdue = time.monotonic() > self._notified_at + NOTIFICATION_SECONDS
            if self._news and (overdue or not self._current().writing.is_busy):
                self._news, self._notified_at = False, time.monotonic()
                with self._current().connections.borrowed() as connection:
                    notify(connection, self.number)
            if time.monotonic() > self._current().connections.maintain_at:
                self.maintain()
        except (LogError, psycopg.Error) as error:  # subscribers poll as well, and maintenance is repeated
            logger.warning("the log %s: %s", self.name, error)

    def _step(self, tables: PostgresTables, request: Request) -> None:
        connection = tables.connection
        connection.execute("SAVEPOINT request")
        step = PostgresTables(connection, self.number, tables.locks)
        try:
            request.result = request.work(step)
            step.flush()
        except Exception as error:
            if connections.is_lost(error):
                raise
            connection.execute("ROLLBACK TO request")
            request.failed(connections.failure(self.address, error) if isinstance(error, psycopg.Error) else error)
        connection.execute("RELEASE request")
        tables.news = tables.news or step.news

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
            return None  # a separate session is opened only if the lease may be free
        return lead(self.address, self.number)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:  # noqa: D102
        self._current()
        return listen(self.address, self.number, wake)

    def nbytes(self) -> int:
        """Return the size of the tables, of all logs together."""
        return self.look(lambda tables: int(tables.nbytes()))  # type: ignore[attr-defined]

    def checkpoint(self) -> None:
        """Do nothing: the server makes checkpoints."""

    def purge(self) -> None:
        """Remove deleted rows from tables and indices; WAL and backups are the database's."""
        with self._separate() as connection:
            connection.execute(sql.PURGE)

    def maintain(self) -> None:
        """Create partitions ahead and drop unused ones; each process that writes does so once an hour."""
        now, pool = time.time(), self._current().connections
        pool.maintain_at = time.monotonic() + connections.MAINTENANCE_SECONDS
        with self._separate() as connection:
            make_ahead(connection, now)
            drop_unused(connection, now)
            if delete_pruned(connection, now):
                pool.maintain_at = time.monotonic() + 1.0  # more rows are left

    @contextmanager
    def _separate(self) -> Iterator[Connection]:
        """Yield a separate connection."""
        self._current()
        connection = connections.connect(self.address, self._synchronous)
        try:
            yield connection
        except psycopg.Error as error:
            raise connections.failure(self.address, error) from error
        finally:
            connection.close()

    @contextmanager
    def copying(self, write: bool = False, span: Span | None = None) -> Iterator[PostgresCopy]:  # noqa: D102
        with self._separate() as connection:
            if span is not None:
                make_between(connection, time.time(), *span)
            connection.execute(sql.BEGIN_WRITE if write else sql.BEGIN_READ)
            connection.execute(sql.LOCK_PARTITIONS)
            yield PostgresCopy(connection, self.number)
            connection.execute("COMMIT")

    def backup(self, path: Path | str) -> None:
        """Copy the log into a new SQLite file, which is an independent log."""
        from lim2.log.sqlite.store import SQLiteStore

        with new_file(path) as part, closing(SQLiteStore(part, "full")) as store:
            copy(self, store)

    def close(self) -> None:  # noqa: D102
        handle = self._handle
        if handle is not None and handle.process == os.getpid():
            for group in (handle.inserting, handle.writing, handle.reading):
                group.end()
            self._handle = None
            connections.release(handle.connections)
