"""The partitions of the events: a month each, made ahead, and dropped when no log needs them.

What a log has pruned is out of reach at once, but its rows stay until their partition is dropped: no row is deleted
singly while a month's rows of all logs can go at once. Rows of a log that are in the way for more than a month after
the log has pruned them, since another one keeps more, are deleted. What has a time for which there is no partition,
say since a clock is wrong, is in the partition ``events_default``, and deleted from there.

A settled decision is looked for by its id in all partitions, so there should be few: hence months, not days.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import psycopg

from lim2.log.postgres.connections import Connection

AHEAD = 1  # months
BACK = 60  # months, for a log that is copied; what is older is in the default partition
LOCK = 0x4C694D33  # the key of the advisory lock of who takes care
ROWS = 1000  # that are deleted at once
# What a transaction that reads begins with: a partition that is dropped is gone for snapshots of before, too.
KEEP = "LOCK TABLE ONLY lim2.events IN ACCESS SHARE MODE"
WAIT = "SET LOCAL lock_timeout = '1s'"  # whoever comes later waits behind this


class Partition(NamedTuple):
    """A month of events, in universal time."""

    year: int
    month: int

    @property
    def start(self) -> float:
        """Its first second."""
        return datetime(self.year, self.month, 1, tzinfo=UTC).timestamp()

    @property
    def end(self) -> float:
        """The second after its last one."""
        return self.later(1).start

    @property
    def table(self) -> str:
        """The name of the table."""
        return f"events_{self.year:04}_{self.month:02}"

    def later(self, months: int) -> Partition:
        """Return the month some months later.

        Parameters
        ----------
        months
            Number of months.

        Examples
        --------
        >>> Partition(2026, 11).later(2)
        Partition(year=2027, month=1)
        """
        years, month = divmod(self.month - 1 + months, 12)
        return Partition(self.year + years, month + 1)


def month_of(time: float) -> Partition:
    """Return the month in which a time is.

    Parameters
    ----------
    time
        Time in seconds.

    Examples
    --------
    >>> month_of(1.7e9).table
    'events_2023_11'
    """
    day = datetime.fromtimestamp(time, UTC)
    return Partition(day.year, day.month)


def partitions(connection: Connection) -> list[Partition]:
    """Return the months that there are, the oldest first.

    Parameters
    ----------
    connection
        Connection to the database.
    """
    rows = connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'lim2.events'::regclass AND c.relname <> 'events_default'"
    ).fetchall()
    return sorted(Partition(*map(int, name.removeprefix("events_").split("_"))) for (name,) in rows)


def make_ahead(connection: Connection, now: float) -> None:
    """Make the partitions of this month and the next one, if nobody else is about to.

    Parameters
    ----------
    connection
        Connection outside of a transaction.
    now
        The time.
    """
    _make(connection, [month_of(now).later(months) for months in range(AHEAD + 1)])


def make_between(connection: Connection, now: float, first: float, last: float) -> None:
    """Make the partitions of past months for events between two times.

    Many events in the default partition would be in the way: all of it is read whenever a partition is made.

    Parameters
    ----------
    connection
        Connection outside of a transaction.
    now
        The time.
    first, last
        The times.
    """
    past = [month_of(now).later(-months) for months in range(BACK)]
    _make(connection, [one for one in past if one.start <= last and one.end > first])


def _make(connection: Connection, wanted: list[Partition]) -> None:
    """Make partitions, if nobody else is about to."""
    if set(wanted) <= set(partitions(connection)):
        return
    with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
        connection.execute(WAIT)
        if not _takes_care(connection):
            return
        for one in sorted(set(wanted) - set(partitions(connection))):
            bounds = f"FROM ({one.start}) TO ({one.end})"
            query = f"CREATE TABLE lim2.{one.table} PARTITION OF lim2.events FOR VALUES {bounds}"
            # Events of that month may be in the default partition already: then so will be the others.
            with suppress(psycopg.errors.CheckViolation), connection.transaction():
                connection.execute(query)


def drop_unused(connection: Connection, now: float) -> None:
    """Drop the partitions of past months of which all logs have pruned everything.

    Parameters
    ----------
    connection
        Connection outside of a transaction.
    now
        The time.
    """
    past = [one for one in partitions(connection) if one.end <= now and not _is_needed(connection, one)]
    if not past:
        return
    with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
        connection.execute(WAIT)
        if not _takes_care(connection):
            return
        connection.execute("LOCK TABLE ONLY lim2.events IN ACCESS EXCLUSIVE MODE")
        for one in set(past) & set(partitions(connection)):
            if not _is_needed(connection, one):
                connection.execute(f"DROP TABLE lim2.{one.table}")


def delete_pruned(connection: Connection, now: float) -> bool:
    """Delete some rows that logs have pruned, where they do not go with their partition; return whether there are more.

    Parameters
    ----------
    connection
        Connection outside of a transaction.
    now
        The time.
    """
    tables = {"events_default": "true"}  # table -> for which logs
    for month, later in pairwise(partitions(connection)):
        if later.end <= now:
            needed = f"SELECT FROM lim2.{later.table} e WHERE e.log = l.log AND e.position > l.pruned"
            tables[month.table] = f"NOT EXISTS ({needed})"
    for table, condition in tables.items():
        gone = connection.execute(
            f"DELETE FROM lim2.{table} WHERE ctid = ANY(ARRAY(SELECT e.ctid FROM lim2.logs l CROSS JOIN LATERAL "
            f"(SELECT ctid FROM lim2.{table} WHERE log = l.log AND position <= l.pruned LIMIT %s) e "
            f"WHERE l.pruned > 0 AND {condition} LIMIT %s))",
            (ROWS, ROWS),
        ).rowcount
        if gone == ROWS:
            return True
    return False


def _takes_care(connection: Connection) -> bool:
    """Return whether no other process maintains the partitions now."""
    return connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (LOCK,)).fetchone() == (True,)


def _is_needed(connection: Connection, one: Partition) -> bool:
    """Return whether a log has events in a partition that it has not pruned."""
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM lim2.logs l WHERE EXISTS "
        f"(SELECT FROM lim2.{one.table} e WHERE e.log = l.log AND e.position > l.pruned))"
    ).fetchone()
    return row == (True,)
