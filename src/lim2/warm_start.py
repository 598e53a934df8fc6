"""What an agent learns from a table of logged rewards, in the form in which each kind of agent takes it.

A table is a ``lim2.log.Table``, known by its attributes. A log is asked for its table.
"""

from collections.abc import Hashable
from typing import Any

from numpy.typing import NDArray

from lim2.arms import is_range
from lim2.checks import shown
from lim2.state import Array

Named = list[Hashable]


def of_arms(table: Any) -> tuple[NDArray[Any], Named, Array]:
    """Return contexts as vectors, the names of the arms that were played, and rewards.

    Parameters
    ----------
    table
        A table, or a log.
    """
    table = _read(table)
    if table.candidates.items is not None and is_range(table.arms):
        raise ValueError("the table's items have no names of their own, so they are no arms: train an agent for items")
    return _vectors(table), _played(table), table.rewards


def of_items(table: Any) -> tuple[NDArray[Any], NDArray[Any], Array]:
    """Return contexts and the items that were chosen as vectors, and rewards.

    Parameters
    ----------
    table
        A table, or a log.
    """
    table = _read(table)
    items = table.candidates.items
    if items is None or items.dtype == object:
        raise ValueError("the table has no items as vectors, from which this agent learns: give it some, as items=")
    return _vectors(table), items[table.played], table.rewards


def raw_of(table: Any, items: bool) -> tuple[NDArray[Any], Named, Array, NDArray[Any] | None]:
    """Return raw contexts, the names of what was chosen, rewards, and the raw features of what was chosen.

    Parameters
    ----------
    table
        A table, or a log.
    items
        Whether these features are needed.
    """
    table = _read(table)
    if table.raw is None:
        raise ValueError(
            "the table has no raw contexts, from which a bandit learns: read it with raw=True, or train an agent"
        )
    features = table.candidates.raw_items
    if items and features is None:
        raise ValueError("the table has no raw items, from which this bandit learns: give it some, as items=")
    return table.raw, _played(table), table.rewards, features[table.played] if items and features is not None else None


def _read(table: Any) -> Any:
    """Return the table itself."""
    read = table.table() if hasattr(table, "table") else table
    if not all(hasattr(read, name) for name in ("contexts", "arms", "chosen", "rewards", "candidates", "raw")):
        raise ValueError(f"a warm start takes a lim2.log.Table, or a DecisionLog, got {shown(table)}")
    return read


def _vectors(table: Any) -> NDArray[Any]:
    if table.is_raw:
        raise ValueError("the table has raw contexts only, and this agent learns from vectors: train a lim2.Bandit")
    contexts: NDArray[Any] = table.contexts
    return contexts


def _played(table: Any) -> Named:
    return [table.arms[arm] for arm in table.chosen.tolist()]
