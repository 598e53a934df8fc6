"""Data of a table of logged rewards, in the form that each kind of agent takes.

A table is a ``lim2.log.Table``, recognised by its attributes. For a log, its table is used.
"""

from collections.abc import Hashable
from typing import Any

from numpy.typing import NDArray

from lim2.arms import is_range
from lim2.checks import shown
from lim2.state import Array

Named = list[Hashable]


def of_arms(table: Any) -> tuple[NDArray[Any], Named, Array]:
    """Return contexts as vectors, names of the arms played, and rewards."""
    table = _read(table)
    if table.candidates.items is not None and is_range(table.arms):
        raise ValueError("the table's items have no names, so they cannot be arms: train an item agent")
    return _vectors(table), _played(table), table.rewards


def of_items(table: Any) -> tuple[NDArray[Any], NDArray[Any], Array]:
    """Return contexts and chosen items as vectors, and rewards."""
    table = _read(table)
    items = table.candidates.items
    if items is None or items.dtype == object:
        raise ValueError("this agent learns from items as vectors, but the table has none: make it with items=")
    return _vectors(table), items[table.played], table.rewards


def raw_of(table: Any, items: bool) -> tuple[NDArray[Any], Named, Array, NDArray[Any] | None]:
    """Return raw contexts, names of the choices, rewards, and raw features of the choices."""
    table = _read(table)
    if table.raw is None:
        raise ValueError(
            "a bandit learns from raw contexts, but the table has none: read it with raw=True, or train an agent"
        )
    features = table.candidates.raw_items
    if items and features is None:
        raise ValueError("this bandit learns from raw items, but the table has none: make it with items=")
    return table.raw, _played(table), table.rewards, features[table.played] if items and features is not None else None


def _read(table: Any) -> Any:
    """Return the table, or the table of a log."""
    read = table.table() if hasattr(table, "table") else table
    if not all(hasattr(read, name) for name in ("contexts", "arms", "chosen", "rewards", "candidates", "raw")):
        raise ValueError(f"table must be a lim2.log.Table or a DecisionLog, got {shown(table)}")
    return read


def _vectors(table: Any) -> NDArray[Any]:
    if table.is_raw:
        raise ValueError("this agent learns from vectors, but the table has only raw contexts: train a lim2.Bandit")
    contexts: NDArray[Any] = table.contexts
    return contexts


def _played(table: Any) -> Named:
    return [table.arms[arm] for arm in table.chosen.tolist()]
