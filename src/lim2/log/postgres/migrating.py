"""Migrations of a database: numbered files, each applied once, under a lock.

A file ``NNNN_name.sql`` in the folder `migrations` is one step. The table ``lim2.migrations`` has the applied steps. A
new step is a new file with the next number; a file that was released is never changed.
"""

from __future__ import annotations

from importlib.resources import files

from lim2.log.errors import LogFileError
from lim2.log.postgres import sql
from lim2.log.postgres.connections import Address, Connection

LOCK = 0x4C694D32  # "LiM2": the key of the advisory lock that lets processes migrate one after another


def migrations() -> list[tuple[int, str, str]]:
    """Return number, name and statements of each step, in order."""
    folder = files("lim2.log.postgres") / "migrations"
    steps = sorted((file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(int(name[:4]), name.removesuffix(".sql"), text) for name, text in steps]


def migrate(connection: Connection, address: Address) -> None:
    """Migrate a database to the current schema in one transaction; refuse a newer one."""
    steps = migrations()
    if _applied(connection, address, steps) == len(steps):
        return
    with connection.transaction():
        connection.execute(sql.LOCK_MIGRATIONS, (LOCK,))
        connection.execute(sql.CREATE_MIGRATIONS)
        for number, name, statements in steps[_applied(connection, address, steps) :]:
            connection.execute(statements)
            connection.execute(sql.ADD_MIGRATION, (number, name))


def check(connection: Connection, address: Address) -> None:
    """Raise a LogFileError unless a database has the current schema."""
    steps = migrations()
    applied = _applied(connection, address, steps)
    if applied < len(steps):
        raise LogFileError(
            f"the log {address.masked} has schema {applied} of {len(steps)} and is open for reading only: open it once "
            f"without read_only=True, which migrates the database to the current schema"
        )


def _applied(connection: Connection, address: Address, steps: list[tuple[int, str, str]]) -> int:
    """Return the number of applied steps; raise a LogFileError if it is larger than the known number."""
    if connection.execute(sql.HAS_MIGRATIONS).fetchone() == (None,):
        return 0
    row = connection.execute(sql.LAST_MIGRATION).fetchone()
    applied = int(row[0]) if row else 0
    if applied > len(steps):
        raise LogFileError(
            f"the log {address.masked} is in a database with schema {applied}; this version of lim2 knows up to "
            f"{len(steps)}. Use the lim2 that migrated it, or a newer one."
        )
    return applied
