"""Context and candidates of a decision, as vectors or raw values, checked before the decision."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.checks import real_numbers
from lim2.log.serialization import JSON, as_json, as_json_items, dump_json, dump_names


class DecisionInput(NamedTuple):
    """Context, and candidates by name or in the order of the decision's arms; missing parts are None."""

    context: NDArray[Any] | None  # a vector
    items: NDArray[Any] | dict[Hashable, NDArray[Any]] | None  # vectors
    raw: JSON | None
    raw_items: dict[Hashable, JSON] | list[JSON] | None
    encode: Callable[[JSON], bytes] = dump_json  # writes raw parts as JSON with sorted keys


def as_vector(context: ArrayLike, label: str = "a context") -> NDArray[Any]:
    """Return a context as the array that a log gives back bit for bit: contiguous, little-endian.

    Examples
    --------
    >>> as_vector([1, 2.5])
    array([1. , 2.5])
    """
    if isinstance(context, Mapping):
        raise ValueError(
            f"{label} must be an array of numbers, got a dictionary: lim2.Bandit takes raw contexts and items; "
            f"raw= and raw_items= store them in addition to vectors"
        )
    array = real_numbers(context, label)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def checked_input(
    context: ArrayLike | None,
    items: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    raw: Any = None,
    raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
) -> DecisionInput:
    """Return context and candidates, converted; raise a ValueError if they cannot be logged."""
    if context is None and raw is None:
        raise ValueError("a decision needs a context: give a vector as context=, or a raw context as raw=")
    for candidates in (items, raw_items):
        if isinstance(candidates, Mapping):
            dump_names(candidates)
    return DecisionInput(
        None if context is None else as_vector(context),
        None if items is None else _vectors(items),
        None if raw is None else as_json(raw),
        None if raw_items is None else as_json_items(raw_items),
    )


def in_order(items: Any, arms: tuple[Hashable, ...]) -> Any:
    """Return candidates in the order of a decision's arms: an array of vectors, or a list of JSON."""
    if isinstance(items, Mapping):
        missing = [arm for arm in arms if arm not in items]
        if missing:
            raise ValueError(f"the decision has the candidate {missing[0]!r}, which is missing in items")
        items = [items[arm] for arm in arms]
        if items and isinstance(items[0], np.ndarray):
            items = as_vector(np.stack(items))
    if len(items) != len(arms):
        raise ValueError(f"items must have one entry per arm of the decision, {len(arms)}, got {len(items)}")
    return items


def _vectors(items: ArrayLike | Mapping[Any, ArrayLike]) -> NDArray[Any] | dict[Hashable, NDArray[Any]]:
    if not isinstance(items, Mapping):
        array = as_vector(items, "items")
        if array.ndim != 2:
            raise ValueError(
                f"items must be a 2-D array, one row per item, or vectors by name; got shape {array.shape}"
            )
        return array
    by_name = {name: as_vector(item, f"the item {name!r}") for name, item in items.items()}
    shapes = {array.shape for array in by_name.values()}
    if len(shapes) > 1 or len(next(iter(shapes), (1,))) != 1:
        raise ValueError(f"items must be vectors of the same length, got the shapes {sorted(shapes)}")
    return by_name
