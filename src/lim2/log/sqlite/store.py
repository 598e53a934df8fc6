"""The log's file: an SQLite database in WAL mode, shared by threads and processes.

There is one writer at a time, so events become visible in the order of their positions. A thread that finds no other
writer writes itself. Others, and coroutines, leave their work to one thread, which flushes the disk once for all.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lim2.log.copying import new_file
from lim2.log.errors import GoneLogError, LogError, file_error
from lim2.log.group_commit import GroupCommit, Request, write_group
from lim2.log.sqlite import sql
from lim2.log.sqlite.copying import SQLiteCopy
from lim2.log.sqlite.opening import connect, connect_to_read
from lim2.log.sqlite.tables import SQLiteTables
from lim2.log.store import Result, Span, Tables

MAX_PURGE_SECONDS = 10.0  # of waiting for other processes that copy the WAL file
MIN_PAGES_TO_FINISH = 1000  # in the WAL file; with so many, a checkpoint is finished while writers wait

# Connections that a fork has copied. Closing them in the child could tidy up under the parent's feet.
_inherited: list[Any] = []


class _Connection(NamedTuple):
    """A connection, and the lock under which the threads of a process use it."""

    lock: threading.RLock
    tables: SQLiteTables


class _Handle(NamedTuple):
    """Resources of a process: a connection to write, one to read, and the group commit."""

    process: int
    writing: _Connection
    reading: _Connection
    group: GroupCommit


class SQLiteStore:
    """Connections to the file, for all threads of a process; a forked process opens new ones."""

    def __init__(self, path: Path | str, synchronous: str, read_only: bool = False) -> None:
        self.path, self.read_only = Path(path), read_only
        self._synchronous = synchronous
        self._handle: _Handle | None = self._opened()
        self._file = _identity(self.path)
        self._checkpointed = 0  # modification time of the WAL file that was copied last

    def _opened(self) -> _Handle:
        writing = self._connected()
        reading = writing if self.read_only else _locked(connect_to_read(self.path))
        group = GroupCommit(self._write_group, self._closed)
        return _Handle(os.getpid(), writing, reading, group)

    def _connected(self) -> _Connection:
        return _locked(connect_to_read(self.path) if self.read_only else connect(self.path, self._synchronous))

    @property
    def name(self) -> str:  # noqa: D102
        return str(self.path)

    # Transactions

    def look(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        return self._run(self._current().reading, "BEGIN", work)

    def write(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        handle = self._current()
        if not handle.group.is_busy:
            return self._run(handle.writing, "BEGIN IMMEDIATE", work, handle.group)
        self._refuse_reentry(handle.writing)
        result: Result = handle.group.wait_for(work)
        return result

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:  # noqa: D102
        import asyncio  # coroutines have it already; an import that a signal interrupts would break the process

        result: Result = await self._current().group.submit(work, asyncio.get_running_loop())
        return result

    # An exception, such as KeyboardInterrupt, can come between any two steps. What opens a transaction is therefore
    # within the `try` that ends it, in one function: a generator or an object with __enter__ could be interrupted
    # after it has begun and before anybody is there to end it. Locks are entered by `with`, which is one step.
    def _run(
        self, opened: _Connection, begin: str, work: Callable[[Tables], Result], group: GroupCommit | None = None
    ) -> Result:
        self._refuse_reentry(opened)
        with opened.lock:
            if self._handle is None:  # closed while this thread waited
                raise self._closed()
            connection = opened.tables.connection
            try:
                if group is not None:
                    group.writes = True
                if connection.in_transaction:  # a second exception came while the first was being handled
                    connection.execute("ROLLBACK")
                self._check_file()
                connection.execute(begin)
                opened.tables.begin()
                result = work(opened.tables)
                connection.execute("COMMIT")
                self._check_file()  # a write into a file that nobody will find is not acknowledged
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise file_error(self.path, error) from error
                raise
            finally:
                if group is not None:
                    group.writes = False
        return result

    def _write_group(self, requests: list[Request], drained: Callable[[], list[Request]]) -> None:
        def transact(work: Callable[[Tables], None], at_once: bool) -> None:  # noqa: ARG001
            handle = self._current()
            self._run(handle.writing, "BEGIN IMMEDIATE", work, handle.group)

        write_group(requests, drained, transact, self._step)

    def _step(self, tables: SQLiteTables, request: Request) -> None:
        connection = tables.connection
        connection.execute("SAVEPOINT request")
        try:
            request.result = request.work(tables)
        except Exception as error:
            if not connection.in_transaction:  # SQLite has rolled back all of it, for example because the disk is full
                raise
            connection.execute("ROLLBACK TO request")
            request.failed(file_error(self.path, error) if isinstance(error, sqlite3.Error) else error)
        connection.execute("RELEASE request")

    def _refuse_reentry(self, opened: _Connection) -> None:
        if opened.lock._is_owned():  # type: ignore[attr-defined]
            raise LogError(
                f"the log {self.path} is in use by this very thread: a signal handler cannot use a log while it "
                f"interrupts a call of it. Set a flag there, and use the log afterwards."
            )

    def _check_file(self) -> None:
        if _identity(self.path) != self._file:
            raise self._gone()

    def _gone(self) -> GoneLogError:
        return GoneLogError(
            f"the log {self.path} was deleted, renamed or replaced while it was open, so this call is not "
            f"acknowledged. Put the file back, or open the log again."
        )

    def _current(self) -> _Handle:
        handle = self._handle
        if handle is None:
            raise self._closed()
        if handle.process != os.getpid():
            _inherited.append(handle)
            self._handle = handle = self._opened()
        return handle

    def _closed(self) -> GoneLogError:
        return GoneLogError(f"the log {self.path} has been closed")

    # The file as a whole

    def lead(self) -> _Lease | None:  # noqa: D102
        path = self.path.with_name(self.path.name + "-leader")
        lock = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("BEGIN EXCLUSIVE")  # which ends with the process
        except sqlite3.OperationalError as error:
            lock.close()
            if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                return None
            raise file_error(self.path, error, "cannot be led") from error
        try:
            return _Lease(lock, self.write(_next_epoch))
        except BaseException:
            lock.close()
            raise

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never call the function: SQLite sends no notifications of writes."""
        return lambda: None

    def nbytes(self) -> int:  # noqa: D102
        try:
            return self.path.stat().st_size
        except FileNotFoundError as error:
            raise self._gone() from error

    def checkpoint(self) -> None:
        """Copy the WAL file into the database while others write; copy the rest while they wait to restart it."""
        self._refuse_reentry(self._current().writing)
        try:
            written = self.path.with_name(self.path.name + "-wal").stat().st_mtime_ns
            if written == self._checkpointed:
                return
            self._checkpointed = written
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            separate = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            try:
                if _checkpointed(separate) >= MIN_PAGES_TO_FINISH:
                    self.write(lambda _: _checkpointed(separate))  # writers of other processes wait, too
            finally:
                separate.close()
        except FileNotFoundError as error:
            raise self._gone() from error
        except sqlite3.Error as error:
            raise file_error(self.path, error) from error

    def purge(self) -> None:
        """Empty the WAL file, which still has what was deleted; deleted rows are overwritten by `secure_delete`."""
        opened = self._current().writing
        self._refuse_reentry(opened)
        deadline = time.monotonic() + MAX_PURGE_SECONDS
        while True:
            with opened.lock:
                busy = opened.tables.connection.execute(sql.TRUNCATE_WAL).fetchone()[0]
            if not busy or time.monotonic() >= deadline:
                break
            time.sleep(0.01)  # SQLite waits for readers, but not for another process that copies the WAL file
        if busy:
            raise LogError(
                f"what was deleted is no longer in the log {self.path}, but may still be in the file next to it, "
                f"{self.path.name}-wal, which another process is reading: call again when that has ended"
            )

    @contextmanager
    def copying(self, write: bool = False, span: Span | None = None) -> Iterator[SQLiteCopy]:  # noqa: ARG002, D102
        self._current()
        connection = self._connected().tables.connection if write else connect_to_read(self.path)
        try:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield SQLiteCopy(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise file_error(self.path, error) from error
        finally:
            connection.close()

    def backup(self, path: Path | str) -> None:  # noqa: D102
        separate = self._connected().tables.connection  # so that other threads need not wait
        with closing(separate), new_file(path) as part:
            separate.execute(sql.BACKUP, (str(part),))
            with part.open("rb") as file:
                os.fsync(file.fileno())

    def close(self) -> None:  # noqa: D102
        handle = self._handle
        if handle is not None and handle.process == os.getpid():
            handle.group.end()  # it still writes
            self._handle = None
            for opened in (handle.reading, handle.writing):  # in this order: the last one removes the WAL file
                with opened.lock:
                    opened.tables.connection.close()


class _Lease:
    """An exclusive lock on a file next to the log's."""

    def __init__(self, connection: sqlite3.Connection, epoch: int) -> None:
        self._connection, self.epoch, self.held = connection, epoch, True

    def release(self) -> None:
        """Release the lease, so that another process can take it."""
        self.held = False
        self._connection.close()


def _next_epoch(tables: Tables) -> int:
    epoch = (tables.get("epoch") or 0) + 1
    tables.put("epoch", epoch)
    return epoch


def _checkpointed(connection: sqlite3.Connection) -> int:
    """Copy what can be copied without waiting; return the number of pages of the WAL file."""
    pages: int = connection.execute(sql.CHECKPOINT).fetchone()[1]
    return pages


def _locked(connection: sqlite3.Connection) -> _Connection:
    return _Connection(threading.RLock(), SQLiteTables(connection))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another file of the same name; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
