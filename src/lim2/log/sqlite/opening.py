"""How the log's file is opened: made, migrated, or refused."""

from __future__ import annotations

import os
import sqlite3
import uuid
from pathlib import Path

from lim2.log.errors import LogError, LogFileError, file_error
from lim2.log.sqlite.schema import APPLICATION, COLLECTED, COUNTS, FORMAT, MIGRATIONS, SCHEMA

MANY_PAGES = 4000  # in the WAL file, with which a writer makes a checkpoint because nobody else has


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open a file to write, make it if it is not there, and bring it to the present format.

    Parameters
    ----------
    path
        The file.
    synchronous
        ``"full"`` or ``"normal"``.
    """
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")  # waits for others who are opening it
        found, tables = _format(connection, path)
        if not tables:
            _execute(connection, SCHEMA)
            _execute(connection, COLLECTED + COUNTS)
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
        connection.execute(f"PRAGMA wal_autocheckpoint = {MANY_PAGES}")
        connection.execute("PRAGMA journal_size_limit = 16777216")  # of the WAL file, when it starts anew
        connection.execute("PRAGMA secure_delete = ON")  # deleted rows are overwritten
        connection.execute("SELECT 1 FROM meta").fetchone()  # opens the WAL file, so that closing removes it
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise file_error(path, error, "cannot be opened as a decision log") from error
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file of the present format to read.

    Parameters
    ----------
    path
        The file.
    """
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
    statement = ""
    for part in statements.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):  # and not in the middle of a trigger
            connection.execute(statement)
            statement = ""
