"""Migrations of a database: numbered files, each applied once, under a lock.

A file ``NNNN_name.sql`` in the folder `migrations` is one step. What has been applied is in ``lim2.migrations``. A new
step is a new file with the next number; a file that was released is never changed.
"""

from __future__ import annotations

from importlib.resources import files

from lim2.log.errors import LogFileError
from lim2.log.postgres.connections import Address, Connection

LOCK = 0x4C694D32  # "LiM2": the key of the advisory lock, which those who open a log at the same time wait for

BEGIN = """
CREATE SCHEMA IF NOT EXISTS lim2;
CREATE TABLE IF NOT EXISTS lim2.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied timestamptz NOT NULL DEFAULT now()
)
"""


def migrations() -> list[tuple[int, str, str]]:
    """Return number, name and statements of each step, in order."""
    folder = files("lim2.log.postgres") / "migrations"
    found = sorted((file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(int(name[:4]), name.removesuffix(".sql"), text) for name, text in found]


def migrate(connection: Connection, address: Address) -> None:
    """Migrate a database to the current schema in one transaction; refuse a newer one.

    Parameters
    ----------
    connection
        Connection to the database.
    address
        Address of a log in the database, for messages.
    """
    steps = migrations()
    if _applied(connection, address, steps) == len(steps):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        connection.execute(BEGIN)
        for number, name, statements in steps[_applied(connection, address, steps) :]:
            connection.execute(statements)
            connection.execute("INSERT INTO lim2.migrations (number, name) VALUES (%s, %s)", (number, name))


def check(connection: Connection, address: Address) -> None:
    """Raise a LogFileError unless a database has the current schema.

    Parameters
    ----------
    connection
        Connection to the database.
    address
        Address of a log in the database, for messages.
    """
    steps = migrations()
    found = _applied(connection, address, steps)
    if found < len(steps):
        raise LogFileError(
            f"the log {address.shown} has schema {found} of {len(steps)}, and is open for reading only: open it once "
            f"without read_only=True, which migrates the database to the current schema"
        )


def _applied(connection: Connection, address: Address, steps: list[tuple[int, str, str]]) -> int:
    """Return the number of applied steps; raise a LogFileError if it is larger than the known number."""
    if connection.execute("SELECT to_regclass('lim2.migrations')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT coalesce(max(number), 0) FROM lim2.migrations").fetchone()
    found = int(row[0]) if row else 0
    if found > len(steps):
        raise LogFileError(
            f"the log {address.shown} is in a database with schema {found}; this version of lim2 knows up to "
            f"{len(steps)}. Use the lim2 that migrated it, or a newer one."
        )
    return found
