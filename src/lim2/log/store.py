"""The log's file: an SQLite database in WAL mode, shared by threads and processes.

Writers are one at a time, so positions are given in the order in which events become visible.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lim2.log.errors import LogError, LogFileError, file_error
from lim2.log.schema import APPLICATION, COUNTS, FORMAT, MIGRATIONS, SCHEMA

if TYPE_CHECKING:
    import sqlite3

Result = TypeVar("Result")

CHUNK = 256  # rows that are read at once

# Connections that a fork has copied. Closing them in the child could tidy up under the parent's feet.
_inherited: list[Any] = []


class _Handle(NamedTuple):
    """A connection, the process that has opened it, and the lock under which its threads use it."""

    process: int
    lock: threading.RLock
    connection: sqlite3.Connection


class Store:
    """A connection to the file, for all threads of a process; a forked process opens its own.

    Parameters
    ----------
    path
        The file; it is made when it is not there.
    synchronous
        ``"full"`` or ``"normal"``, see `DecisionLog`.
    read_only
        Whether the file is opened to be read only.
    """

    def __init__(self, path: Path | str, synchronous: str, read_only: bool = False) -> None:
        self.path = Path(path)
        self._synchronous, self._read_only = synchronous, read_only
        self._handle: _Handle | None = self._opened()
        self._file = _identity(self.path)

    def _opened(self) -> _Handle:
        return _Handle(os.getpid(), threading.RLock(), self._connect())

    def _connect(self) -> sqlite3.Connection:
        return _connect_to_read(self.path) if self._read_only else _connect(self.path, self._synchronous)

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows that a query finds."""
        return self._run(None, lambda file: file.execute(query, values).fetchall())

    def look(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return what some work reads, all of it as the file was at one moment."""
        return self._run("BEGIN", work)

    def write(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do some work within a transaction, and return its result: all of it is in the file then, or nothing."""
        return self._run("BEGIN IMMEDIATE", work)

    # An exception, such as KeyboardInterrupt, can come between any two steps. What opens a transaction is therefore
    # within the `try` that ends it, in one function: a generator or an object with __enter__ could be interrupted
    # after it has begun and before anybody is there to end it. Locks are entered by `with`, which is one step.
    def _run(self, begin: str | None, work: Callable[[sqlite3.Connection], Result]) -> Result:
        handle = self._current()
        if handle.lock._is_owned():  # type: ignore[attr-defined]
            raise LogError(
                f"the log {self.path} is in use by this very thread: a signal handler cannot use a log while it "
                f"interrupts a call of it. Set a flag there, and use the log afterwards."
            )
        with handle.lock:
            connection = handle.connection
            try:
                if connection.in_transaction:  # a second exception came while the first was being handled
                    connection.execute("ROLLBACK")
                self._check_file()
                if begin is not None:
                    connection.execute(begin)
                result = work(connection)
                if begin is not None:
                    connection.execute("COMMIT")
                self._check_file()  # nothing is acknowledged into a file that nobody will find
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if (explained := self._explained(error)) is not None:
                    raise explained from error
                raise
        return result

    def _explained(self, error: BaseException) -> LogError | None:
        import sqlite3

        return file_error(self.path, error) if isinstance(error, sqlite3.Error) else None

    def _check_file(self) -> None:
        if _identity(self.path) != self._file:
            raise LogError(
                f"the log {self.path} was deleted, renamed or replaced while it was open, so this call is not "
                f"acknowledged. Put the file back, or open the log anew."
            )

    def _current(self) -> _Handle:
        handle = self._handle
        if handle is None:
            raise LogError(f"the log {self.path} has been closed")
        if handle.process != os.getpid():
            _inherited.append(handle)
            self._handle = handle = self._opened()
        return handle

    def meta(self, key: str) -> Any:
        """Return a value that belongs to the whole log."""
        return self.read("SELECT value FROM meta WHERE key = ?", (key,))[0][0]

    def last(self) -> int:
        """Return the position of the last event there was, deleted ones included."""
        return self._run(None, last_of)

    def copy(self, path: Path | str) -> None:
        """Write a consistent copy of the file while others go on reading and writing it."""
        target = Path(path)
        if target.exists():
            raise LogError(f"{target} exists: a copy never overwrites, name a new file")
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        connection = self._connect()  # its own, so that other threads need not wait
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            connection.close()
            part.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        handle, self._handle = self._handle, None
        if handle is not None and handle.process == os.getpid():
            with handle.lock:
                handle.connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from any other that comes to have its name; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def last_of(file: sqlite3.Connection) -> int:
    """Return the position of the last event there was in a file, deleted ones included."""
    row = file.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()  # AUTOINCREMENT's counter
    return 0 if row is None else int(row[0])


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    import sqlite3  # not for everyone who imports lim2

    connection = None
    try:
        connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")  # waits for others who are opening it
        found, tables = _format(connection, path)
        if not tables:
            _execute(connection, SCHEMA)
            _execute(connection, COUNTS)
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)", [("id", uuid.uuid4().hex), ("pruned", 0), ("late", 0)]
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        elif found < FORMAT:
            for earlier in range(found, FORMAT):
                _execute(connection, MIGRATIONS[earlier])
        if found < FORMAT:
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA journal_size_limit = 16777216")  # of the WAL file, when it starts anew
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise file_error(path, error, "cannot be opened as a decision log") from error
        raise
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    import sqlite3

    connection, address = None, path.absolute().as_uri() + "?mode=ro"
    beside = path.with_name(path.name + "-wal")
    if not os.access(path.parent, os.W_OK) and not beside.exists():
        address += "&immutable=1"  # SQLite could not make the files that it shares with writers; there are none
    try:
        connection = sqlite3.connect(address, uri=True, timeout=60.0, isolation_level=None, check_same_thread=False)
        found, tables = _format(connection, path)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        note = f" {beside.name} holds what is not yet in the file: copy both to a disk that can be written."
        failed = file_error(path, error, "cannot be opened as a decision log")
        raise LogFileError(f"{failed}{note if beside.exists() else ''}") from error
    except LogError:
        if connection is not None:
            connection.close()
        raise
    if found < FORMAT or not tables:
        connection.close()
        raise LogFileError(
            f"the log {path} has format {found}, and is opened to be read only: open it once without read_only=True, "
            f"or a copy of it, which brings it to format {FORMAT}"
        )
    return connection


def _format(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return the format of a file, and how many tables it has; raise LogError if it is no log."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and application != APPLICATION:
        raise LogError(f"{path} is an SQLite database, but not a decision log: give another path")
    if found > FORMAT:
        raise LogError(
            f"{path} has format {found}; this version of lim2 reads up to {FORMAT}. Use the lim2 that wrote it, or a "
            f"newer one."
        )
    return found, tables


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    """Run several statements within the transaction; `executescript` would end it first."""
    import sqlite3

    statement = ""
    for part in statements.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):  # and not in the middle of a trigger
            connection.execute(statement)
            statement = ""
