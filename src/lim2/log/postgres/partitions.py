"""Monthly partitions of the events, created ahead, and dropped when no log needs them.

Pruned events are invisible at once; their rows stay until their partition is dropped, because dropping is cheaper than
deleting rows. If another log still needs the partition a month later, the pruned rows are deleted. Events without a
partition, for example because of a wrong clock, are in ``events_default`` and are deleted from there.

Partitions are months, not days: a settled decision is looked up by its ID in every partition.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import psycopg

from lim2.log.postgres import sql
from lim2.log.postgres.connections import Connection

MONTHS_AHEAD = 1
MONTHS_BACK = 60  # for a log that is copied; older events are in the default partition
LOCK = 0x4C694D33  # the key of the advisory lock that lets one process maintain the partitions
ROWS_PER_DELETE = 1000


class Partition(NamedTuple):
    """A month of events, in universal time."""

    year: int
    month: int

    @property
    def start(self) -> float:
        """The first second."""
        return datetime(self.year, self.month, 1, tzinfo=UTC).timestamp()

    @property
    def end(self) -> float:
        """The second after the last one."""
        return self.plus(1).start

    @property
    def table(self) -> str:
        """The name of the table."""
        return f"events_{self.year:04}_{self.month:02}"

    def plus(self, months: int) -> Partition:
        """Return the month some months later.

        Examples
        --------
        >>> Partition(2026, 11).plus(2)
        Partition(year=2027, month=1)
        """
        years, month = divmod(self.month - 1 + months, 12)
        return Partition(self.year + years, month + 1)


def month_of(time: float) -> Partition:
    """Return the month in which a time is.

    Examples
    --------
    >>> month_of(1.7e9).table
    'events_2023_11'
    """
    day = datetime.fromtimestamp(time, UTC)
    return Partition(day.year, day.month)


def partitions(connection: Connection) -> list[Partition]:
    """Return the existing partitions, the oldest first."""
    rows = connection.execute(sql.PARTITIONS).fetchall()
    return sorted(Partition(*map(int, name.removeprefix("events_").split("_"))) for (name,) in rows)


def make_ahead(connection: Connection, now: float) -> None:
    """Create the partitions of this month and the next one, unless another process does."""
    _make(connection, [month_of(now).plus(months) for months in range(MONTHS_AHEAD + 1)])


def make_between(connection: Connection, now: float, first: float, last: float) -> None:
    """Create the partitions of past months for events between two times, to keep the default partition small."""
    past = [month_of(now).plus(-months) for months in range(MONTHS_BACK)]
    _make(connection, [month for month in past if month.start <= last and month.end > first])


def _make(connection: Connection, months: list[Partition]) -> None:
    """Create partitions, unless another process does."""
    if set(months) <= set(partitions(connection)):
        return
    with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
        connection.execute(sql.SET_SHORT_LOCK_TIMEOUT)
        if not _may_maintain(connection):
            return
        for month in sorted(set(months) - set(partitions(connection))):
            # Events of that month may be in the default partition already; then the others go there, too.
            with suppress(psycopg.errors.CheckViolation), connection.transaction():
                connection.execute(sql.CREATE_PARTITION.format(month.table, month.start, month.end))


def drop_unused(connection: Connection, now: float) -> None:
    """Drop the partitions of past months of which all logs have pruned everything."""
    past = [month for month in partitions(connection) if month.end <= now and not _is_needed(connection, month)]
    if not past:
        return
    with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
        connection.execute(sql.SET_SHORT_LOCK_TIMEOUT)
        if not _may_maintain(connection):
            return
        connection.execute(sql.LOCK_EVENTS)
        for month in set(past) & set(partitions(connection)):
            if not _is_needed(connection, month):
                connection.execute(sql.DROP_PARTITION.format(month.table))


def delete_pruned(connection: Connection, now: float) -> bool:
    """Delete some pruned rows that will not go with their partition soon; return whether there are more."""
    tables = {"events_default": "true"}  # table -> the condition on a log
    for month, following in pairwise(partitions(connection)):
        if following.end <= now:
            tables[month.table] = sql.IS_PAST.format(following.table)
    for table, condition in tables.items():
        statement = sql.DELETE_PRUNED.format(table=table, condition=condition)
        if connection.execute(statement, {"limit": ROWS_PER_DELETE}).rowcount == ROWS_PER_DELETE:
            return True
    return False


def _may_maintain(connection: Connection) -> bool:
    """Return whether no other process maintains the partitions now."""
    return connection.execute(sql.TRY_MAINTENANCE, (LOCK,)).fetchone() == (True,)


def _is_needed(connection: Connection, month: Partition) -> bool:
    """Return whether a log has events in a partition that it has not pruned."""
    return connection.execute(sql.IS_NEEDED.format(month.table)).fetchone() == (True,)
