"""Opening a log's file: it is created, migrated, or refused."""

from __future__ import annotations

import os
import sqlite3
import uuid
from pathlib import Path

from lim2.log.errors import LogError, LogFileError, file_error
from lim2.log.sqlite import sql
from lim2.log.sqlite.schema import APPLICATION, COLLECTED, COUNTS, FORMAT, MIGRATIONS, PROOFS, SCHEMA

AUTOCHECKPOINT_PAGES = 4000  # in the WAL file, with which a writer makes a checkpoint if none was made


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open a file to write; create it if it does not exist, and migrate it to the current format."""
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")  # waits for others who are opening it
        format, tables = _format(connection, path)
        if not tables:
            _execute(connection, SCHEMA)
            _execute(connection, COLLECTED + PROOFS + COUNTS)
            connection.executemany(sql.PUT, [("id", uuid.uuid4().hex), ("pruned", 0), ("late", 0)])
            connection.execute(sql.SET_APPLICATION.format(APPLICATION))
        elif format < FORMAT:
            for earlier in range(format, FORMAT):
                _execute(connection, MIGRATIONS[earlier])
        if format < FORMAT:
            connection.execute(sql.SET_FORMAT.format(FORMAT))
        connection.execute("COMMIT")
        for statement in (
            sql.SET_WAL, sql.SET_SYNCHRONOUS.format(synchronous), sql.SET_AUTOCHECKPOINT.format(AUTOCHECKPOINT_PAGES),
            sql.SET_WAL_SIZE, sql.SET_SECURE_DELETE, sql.TOUCH,
        ):  # fmt: skip
            connection.execute(statement).fetchone()
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise file_error(path, error, "cannot be opened as a decision log") from error
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file of the current format to read."""
    connection, address = None, path.absolute().as_uri() + "?mode=ro"
    wal = path.with_name(path.name + "-wal")
    if not os.access(path.parent, os.W_OK) and not wal.exists():
        address += "&immutable=1"  # SQLite could not make the files that it shares with writers; there are none
    try:
        connection = sqlite3.connect(address, uri=True, timeout=60.0, isolation_level=None, check_same_thread=False)
        format, tables = _format(connection, path)
        if format < FORMAT or not tables:
            raise LogFileError(
                f"the log {path} has format {format}, and is open for reading only: open it once without "
                f"read_only=True, or a copy of it, which brings it to format {FORMAT}"
            )
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            note = f" {wal.name} holds what is not yet in the file: copy both to a disk that can be written."
            failed = file_error(path, error, "cannot be opened as a decision log")
            raise LogFileError(f"{failed}{note if wal.exists() else ''}") from error
        raise
    return connection


def _format(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return the format of a file, and its number of tables; raise a LogError if it is no log."""
    format, application, tables = (
        connection.execute(query).fetchone()[0] for query in (sql.FORMAT, sql.APPLICATION, sql.TABLES)
    )
    if tables and application != APPLICATION:
        raise LogError(f"{path} is an SQLite database, but not a decision log: give another path")
    if format > FORMAT:
        raise LogError(
            f"{path} has format {format}; this version of lim2 reads up to {FORMAT}. Use the lim2 that wrote it, or a "
            f"newer one."
        )
    return format, tables


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    """Run several statements within the transaction; `executescript` would end it first."""
    statement = ""
    for part in statements.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):  # and not in the middle of a trigger
            connection.execute(statement)
            statement = ""
