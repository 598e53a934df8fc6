"""Arms that come and go through the log: events like the rewards, so that they have their place among these."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lim2.log import names
from lim2.log.errors import LogError
from lim2.log.schema import TOKEN
from lim2.state import Write

if TYPE_CHECKING:
    import sqlite3

    from lim2.log.store import Store

Kind = Literal["add_arm", "remove_arm"]


def change(agent: Any, kind: str, given: Sequence[Hashable], also: Sequence[Write] = ()) -> None:
    """Change an agent's arms.

    Parameters
    ----------
    agent
        Whose arms.
    kind
        How.
    given
        The name; and, when an arm is added like another, the name of that one.
    also
        What belongs to the new state, as for `deciders.teach`.
    """
    whole: dict[str, Any] = {"also": also} if also and hasattr(agent, "learn_logged") else {}
    if kind == "add_arm" and len(given) == 2:
        agent.add_arm(given[0], like=given[1], **whole)
    elif kind == "add_arm" and len(given) == 1:
        agent.add_arm(given[0], **whole)
    elif kind == "remove_arm" and len(given) == 1:
        agent.remove_arm(given[0], **whole)
    else:
        raise LogError(f"{kind!r} of {given!r} is no change of arms that this version of lim2 knows")


def write_change(file: sqlite3.Connection, kind: Kind, given: Sequence[Hashable], position: int, now: float) -> bool:
    """Write a change down, unless arms have changed after a position; return whether it was written.

    Parameters
    ----------
    file
        The log's, within a transaction.
    kind, given
        The change.
    position
        Up to which the agent has learned that can make the change.
    now
        The time.
    """
    query = "SELECT 1 FROM events WHERE position > ? AND change IS NOT NULL LIMIT 1"
    if file.execute(query, (position,)).fetchone():
        return False
    values = (now, kind, names.dumps(given))
    file.execute(f"INSERT INTO events (time, kind, change, token) VALUES (?, ?, ?, {TOKEN})", values)
    return True


def is_repeated(store: Store, kind: str, name: Hashable, position: int) -> bool:
    """Return whether a change only repeats the one before it of the same arm; early versions let two write it at once.

    Parameters
    ----------
    store
        The log's file.
    kind, name
        The change, and of which arm.
    position
        Its own.
    """
    query = "SELECT kind, change FROM events WHERE change IS NOT NULL AND position < ? ORDER BY position DESC"
    before = (earlier for earlier, text in store.read(query, (position,)) if names.loads(text)[0] == name)
    return next(before, None) == kind
