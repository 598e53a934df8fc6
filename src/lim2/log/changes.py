"""Changes of arms in the log: events with positions, like rewards."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from lim2.log.errors import LogError
from lim2.log.serialization import dump_names, load_names
from lim2.log.store import Tables

ADD, REMOVE = "add_arm", "remove_arm"


class Change(NamedTuple):
    """A change of arms: one added or removed."""

    kind: str  # ADD or REMOVE
    name: Hashable
    like: Hashable | None = None  # an arm that it starts as
    features: dict[str, Any] | None = None  # as JSON


def to_text(change: Change) -> str:
    """Return a change as a JSON array.

    Examples
    --------
    >>> to_text(Change(ADD, "red", like="blue")), to_text(Change(ADD, "red", features={"price": 9.9}))
    ('["red","blue"]', '["red",{"price":9.9}]')
    """
    parts = json.loads(dump_names([change.name] if change.like is None else [change.name, change.like]))
    return json.dumps(parts if change.features is None else [*parts, change.features], separators=(",", ":"))


def from_text(kind: str, text: str) -> Change:
    """Return the change that `to_text` wrote; raise a LogError if it is unknown.

    Examples
    --------
    >>> from_text(ADD, '["red",{"price":9.9}]')
    Change(kind='add_arm', name='red', like=None, features={'price': 9.9})
    """
    parts = json.loads(text)
    features = parts.pop() if parts and isinstance(parts[-1], dict) else None
    arms = load_names(json.dumps(parts))
    allowed = {ADD: (1, 2), REMOVE: (1,)}.get(kind, ())
    if len(arms) not in allowed or (features is not None and kind != ADD):
        raise LogError(f"unknown change of arms {kind!r} of {text}: use the lim2 that wrote it, or a newer one")
    return Change(kind, arms[0], arms[1] if len(arms) == 2 else None, features)


def make_change(agent: Any, change: Change, position: Mapping[str, Any] | None = None) -> None:
    """Change an agent's arms, and take over a position in the log in the same step."""
    if change.kind == REMOVE:
        agent.remove_arm_logged(change.name, position)
    else:
        agent.add_arm_logged(change.name, change.like, change.features, position)


def write_change(tables: Tables, change: Change, position: int, now: float) -> bool:
    """Record a change, unless arms have changed after a position; return whether it was recorded."""
    if tables.changes(after=position):
        return False
    tables.append(now, change.kind, None, None, to_text(change))
    return True


def is_repeated(tables: Tables, change: Change, position: int) -> bool:
    """Return whether a change repeats the latest one of the same arm, which early versions let two processes write."""
    earlier = (from_text(kind, text) for kind, text in reversed(tables.changes(before=position)))
    return next((other.kind for other in earlier if other.name == change.name), None) == change.kind


def removed_before(tables: Tables, position: int) -> set[Hashable]:
    """Return the arms that were removed before a position, also if they have come back."""
    changes = (from_text(kind, text) for kind, text in tables.changes(before=position))
    return {change.name for change in changes if change.kind == REMOVE}
