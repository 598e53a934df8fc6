"""Arms that come and go through the log: events like the rewards, so that they have their place among these."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lim2.log import names
from lim2.log.errors import LogError
from lim2.log.schema import TOKEN
from lim2.state import Write

if TYPE_CHECKING:
    import sqlite3

    from lim2.log.store import Store

ADD, REMOVE = "add_arm", "remove_arm"


class Change(NamedTuple):
    """An arm that comes or goes."""

    kind: str  # ADD or REMOVE
    name: Hashable
    like: Hashable | None = None  # an arm that it starts as
    features: dict[str, Any] | None = None  # of its own, as JSON


def to_text(change: Change) -> str:
    """Return what a change is about as a JSON array.

    Parameters
    ----------
    change
        The change.

    Examples
    --------
    >>> to_text(Change(ADD, "red", like="blue")), to_text(Change(ADD, "red", features={"price": 9.9}))
    ('["red","blue"]', '["red",{"price":9.9}]')
    """
    parts = json.loads(names.dumps([change.name] if change.like is None else [change.name, change.like]))
    return json.dumps(parts if change.features is None else [*parts, change.features], separators=(",", ":"))


def from_text(kind: str, text: str) -> Change:
    """Return the change that `to_text` wrote; raise LogError if it is none that is known here.

    Parameters
    ----------
    kind
        Of the event.
    text
        A JSON array.

    Examples
    --------
    >>> from_text(ADD, '["red",{"price":9.9}]')
    Change(kind='add_arm', name='red', like=None, features={'price': 9.9})
    """
    parts = json.loads(text)
    features = parts.pop() if parts and isinstance(parts[-1], dict) else None
    given = names.loads(json.dumps(parts))
    allowed = {ADD: (1, 2), REMOVE: (1,)}.get(kind, ())
    if len(given) not in allowed or (features is not None and kind != ADD):
        raise LogError(f"{kind!r} of {text} is no change of arms that this version of lim2 knows")
    return Change(kind, given[0], given[1] if len(given) == 2 else None, features)


def make_change(agent: Any, change: Change, also: Sequence[Write] = ()) -> None:
    """Change an agent's arms.

    Parameters
    ----------
    agent
        Whose arms.
    change
        How.
    also
        What belongs to the new state, as for `deciders.teach`.
    """
    options: dict[str, Any] = {"also": also} if also and hasattr(agent, "learn_logged") else {}
    if change.kind == REMOVE:
        agent.remove_arm(change.name, **options)
        return
    if change.like is not None:
        options["like"] = change.like
    if change.features is not None:
        options["features"] = change.features
    agent.add_arm(change.name, **options)


def write_change(file: sqlite3.Connection, change: Change, position: int, now: float) -> bool:
    """Write a change down, unless arms have changed after a position; return whether it was written.

    Parameters
    ----------
    file
        The log's, within a transaction.
    change
        The change.
    position
        Up to which the agent has learned that can make the change.
    now
        The time.
    """
    query = "SELECT 1 FROM events WHERE position > ? AND change IS NOT NULL LIMIT 1"
    if file.execute(query, (position,)).fetchone():
        return False
    values = (now, change.kind, to_text(change))
    file.execute(f"INSERT INTO events (time, kind, change, token) VALUES (?, ?, ?, {TOKEN})", values)
    return True


def is_repeated(store: Store, change: Change, position: int) -> bool:
    """Return whether a change only repeats the one before it of the same arm; early versions let two write it at once.

    Parameters
    ----------
    store
        The log's file.
    change
        The change.
    position
        Its own.
    """
    query = "SELECT kind, change FROM events WHERE change IS NOT NULL AND position < ? ORDER BY position DESC"
    earlier = (from_text(kind, text) for kind, text in store.read(query, (position,)))
    return next((other.kind for other in earlier if other.name == change.name), None) == change.kind
