"""Remove a log and all its data from a database."""

from __future__ import annotations

from lim2.log.postgres.connections import Connection

OWNED = ("pending", "rewards", "batches", "models", "changes", "events")  # tables whose rows belong to a log


def remove_log(connection: Connection, name: str) -> None:
    """Remove a log; it need not be there.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    name
        Name of the log.
    """
    row = connection.execute("DELETE FROM lim2.logs WHERE name = %s RETURNING log", (name,)).fetchone()
    if row is not None:
        for table in OWNED:
            connection.execute(f"DELETE FROM lim2.{table} WHERE log = %s", row)
    # A process that did not know yet may have inserted decisions into one that was removed earlier.
    connection.execute("DELETE FROM lim2.pending p WHERE NOT EXISTS (SELECT FROM lim2.logs l WHERE l.log = p.log)")
