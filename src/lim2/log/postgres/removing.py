"""Remove a log and all its data from a database."""

from __future__ import annotations

from lim2.log.postgres import sql
from lim2.log.postgres.connections import Connection


def remove_log(connection: Connection, name: str) -> None:
    """Remove a log, if it exists, within a transaction of the connection."""
    row = connection.execute(sql.DELETE_LOG, (name,)).fetchone()
    for statement in sql.DELETE_ROWS if row is not None else ():
        connection.execute(statement, row)
    connection.execute(sql.DELETE_ORPHANS)
