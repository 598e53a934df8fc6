"""What a decision is about: a context and candidates, as vectors or raw, checked before anybody decides."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.checks import real_numbers
from lim2.log import names
from lim2.log.raw import JSON, as_json, named


class Situation(NamedTuple):
    """A context and candidates; what is not there is None.

    Candidates are by name, or in the order of the decision's arms.
    """

    context: NDArray[Any] | None  # a vector
    items: NDArray[Any] | dict[Hashable, NDArray[Any]] | None  # vectors
    raw: JSON | None
    raw_items: dict[Hashable, JSON] | list[JSON] | None


def as_context(context: ArrayLike, what: str = "a context") -> NDArray[Any]:
    """Return a context as the array that the file gives back bit for bit: contiguous, little-endian.

    Parameters
    ----------
    context
        Real numbers, of any shape and type.
    what
        What it is, for an error message.

    Examples
    --------
    >>> as_context([1, 2.5])
    array([1. , 2.5])
    """
    if isinstance(context, Mapping):
        raise ValueError(
            f"{what} must be an array of numbers, got a dictionary: lim2.Bandit takes raw contexts and items; "
            f"raw= and raw_items= keep them beside vectors"
        )
    array = real_numbers(context, what)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def situation(
    context: ArrayLike | None,
    items: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    raw: Any = None,
    raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
) -> Situation:
    """Return what a decision is about, checked and converted; raise ValueError if it cannot be logged.

    Parameters
    ----------
    context, items
        Vectors.
    raw, raw_items
        Whatever `as_json` can convert.
    """
    if context is None and raw is None:
        raise ValueError("a decision needs a context: a vector, or a raw one as raw=")
    for candidates in (items, raw_items):
        if isinstance(candidates, Mapping):
            names.dumps(candidates)
    return Situation(
        None if context is None else as_context(context),
        None if items is None else _vectors(items),
        None if raw is None else as_json(raw),
        None if raw_items is None else named(raw_items),
    )


def in_order(items: Any, arms: tuple[Hashable, ...]) -> Any:
    """Return candidates in the order of the arms of a decision: an array of vectors, or a list of JSON.

    Parameters
    ----------
    items
        By name, or in this order already.
    arms
        The decision's.
    """
    if isinstance(items, Mapping):
        missing = [arm for arm in arms if arm not in items]
        if missing:
            raise ValueError(f"the decision could choose {missing[0]!r}, which is not among the items")
        items = [items[arm] for arm in arms]
        if items and isinstance(items[0], np.ndarray):
            items = as_context(np.stack(items))
    if len(items) != len(arms):
        raise ValueError(f"there must be one item per arm of the decision, {len(arms)}, got {len(items)}")
    return items


def _vectors(items: ArrayLike | Mapping[Any, ArrayLike]) -> NDArray[Any] | dict[Hashable, NDArray[Any]]:
    if not isinstance(items, Mapping):
        array = as_context(items, "items")
        if array.ndim != 2:
            raise ValueError(
                f"items must be a 2-D array, one row per item, or vectors by name; got shape {array.shape}"
            )
        return array
    by_name = {name: as_context(item, f"the item {name!r}") for name, item in items.items()}
    shapes = {array.shape for array in by_name.values()}
    if len(shapes) > 1 or len(next(iter(shapes), (1,))) != 1:
        raise ValueError(f"items must be vectors of one length, got the shapes {sorted(shapes)}")
    return by_name
