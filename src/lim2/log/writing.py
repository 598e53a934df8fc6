"""How decisions come into the file: one, or the positions of a slate, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lim2.decision import Decision
from lim2.log.entries import COLUMNS, LoggedDecision, from_row, new_id, to_row
from lim2.log.errors import LogError
from lim2.log.settling import checked_id, found
from lim2.log.situation import Situation
from lim2.log.slates import row_id
from lim2.log.store import Store

if TYPE_CHECKING:
    import sqlite3


def check_free(store: Store, id: str | None) -> None:
    """Refuse an id that is taken, before an agent draws anything for it.

    Parameters
    ----------
    store
        The log's file.
    id
        A user's own; None if there is none.
    """
    query = "SELECT 1 FROM decisions WHERE id IN (?, ?)"
    if id is not None and store.read(query, (checked_id(id), row_id(id, 1))):
        raise _taken(id)


def write(
    store: Store, decisions: list[tuple[Decision, Situation, int]], id: str | None, now: float, position: int
) -> list[LoggedDecision]:
    """Write decisions, all or none.

    Parameters
    ----------
    store
        The log's file.
    decisions
        What was decided, what about, and at which position of the slate; 0 if there is no slate.
    id
        A user's own for all of them; None makes one.
    now
        The time.
    position
        Up to which position of the log the agent had learned.
    """
    key = new_id(now) if id is None else checked_id(id)
    rows = [to_row(one, about, row_id(key, slot) if slot else key, now, slot) for one, about, slot in decisions]
    marks = ", ".join("?" * (len(rows[0]) + 1))

    def insert(file: sqlite3.Connection) -> None:
        if id is not None and any(found(file, taken) for taken in (key, *(row[0] for row in rows))):
            raise _taken(key)
        for row in rows:
            file.execute(f"INSERT INTO decisions ({COLUMNS}, position) VALUES ({marks})", (*row, position))

    store.write(insert)
    return [from_row(row, "pending", None) for row in rows]


def _taken(id: str) -> LogError:
    return LogError(f"the id {id!r} is taken by an earlier decision: ids are used once")
