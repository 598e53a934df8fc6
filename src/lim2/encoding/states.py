"""State of an encoder, as a value: its keys, their columns and scalings, and counts of categories."""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lim2.checks import LARGEST
from lim2.encoding import times
from lim2.encoding.categories import CategoryCounts
from lim2.encoding.measures import FIRST_CHECK, Measure, observe
from lim2.encoding.values import EMBEDDING, LARGEST_LISTED, MEASURED, MISSING, NUMBER, NUMBERS, TIME
from lim2.moments import NumberScaling, scaled_number
from lim2.state import Array

MAX_KEYS = 1000  # that are counted; further keys are encoded like any other
# A key is gone if it was absent from so many contexts, and for so many times the usual distance between two values.
MIN_ABSENCE, ABSENCE_RATIO = 100, 20


class Column(NamedTuple):
    """State of one key with columns: a number, a time or an embedding."""

    kind: str
    at: int  # its first column
    size: int  # how many it has
    measure: Measure  # of the number or the age; of an embedding none
    map: NumberScaling  # that of the measure; 0 everywhere unless it is used


class Key(NamedTuple):
    """What the values of one key have been, in the contexts learned from."""

    kind: str  # of the first value that was not missing
    first: int  # number of the first context that had it
    last: int  # number of the last one
    same: int = 0  # values of that kind
    changed: int = 0  # values of another kind, or of another length
    new: int = 0  # categories that were left out because they had not been seen before


class EncoderState(NamedTuple):
    """Complete state of an encoder; it is immutable."""

    columns: Mapping[str, Column]  # by path
    used: int  # columns that are taken
    overflow: int  # values that came without a column being free for them, and were hashed
    updates: int  # contexts learned from
    keys: Mapping[str, Key]  # by path
    categories: CategoryCounts | None  # None: every category counts from the first on
    trusted: bool  # whether every number and category is used from the first on, as those of items are


# Adds the value of a path to the vector that begins at a place, and returns as which kind
Add = Callable[[EncoderState, str, Any, "array[float]", int], str]


class Contribution(NamedTuple):
    """Contribution of one value to one column; the column is None for a key or a category that is not used yet."""

    path: str
    value: Any
    kind: str
    column: int | None
    encoded: float


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """Summary of one key: its values in the contexts learned from, and what of it is not used."""

    name: str
    kind: str  # of its first value
    columns: range  # empty if it is hashed into buckets
    mean: float | None  # of a number
    std: float | None
    count: int  # values of its kind
    missing: int = 0  # contexts since its first that did not have it, or had None
    changed: int = 0  # values of another kind, or lists of numbers of another length
    new: int = 0  # categories left out because they had not been seen before
    note: str = ""  # what of it is not used, and why; empty if all is used


def new_column(kind: str, at: int, size: int, measure: Measure = Measure()) -> Column:  # noqa: B008
    """Return a column with its map."""
    return Column(kind, at, size, measure, measure.map)


def updated_column(old: Column, content: Any, trusted: bool) -> Column:
    """Return a column after one more value: a number, an instant or an embedding."""
    if old.kind == EMBEDDING:
        return old
    x = content if old.kind == NUMBER else content.age
    measure = observe(old.measure, x, trusted)
    return Column(old.kind, old.at, old.size, measure, measure.map)


def count_value(keys: dict[str, Key], path: str, kind: str, update: int, fits: bool = True, new: int = 0) -> None:
    """Count one value of a key in ``keys``; a key beyond the limit is not counted."""
    old = keys.get(path)
    if old is None:
        if len(keys) >= MAX_KEYS:
            return
        old = Key(kind, update, update)
    if kind == MISSING:
        keys[path] = old
        return
    if old.kind == MISSING:
        old = old._replace(kind=kind)
    same = fits and kind == old.kind
    keys[path] = Key(old.kind, old.first, update, old.same + same, old.changed + (not same), old.new + new)


def fits(column: Column, kind: str, content: Any) -> bool:
    """Return whether a value has the kind and size of a column."""
    return column.kind == kind and (kind != EMBEDDING or column.size == len(content))


def add_measured(column: Column, content: Any, out: "array[float]", start: int) -> None:
    """Add a value that fits its column to the vector that starts at ``start``."""
    first = start + column.at
    if column.kind == NUMBER:
        out[first] += scaled_number(column.map, content)
    elif column.kind == TIME:
        if column.measure.used:
            out[first : first + 4] = array("d", content.circles)
            out[first + 4] += scaled_number(column.map, content.age)
    else:
        out[first : first + column.size] = array("d", [x + 0.0 for x in content])  # no -0.0


def column_block(column: Column, values: list[Any]) -> Array | None:
    """Return the columns of several values, (n, size); None if one is invalid or of another kind."""
    kinds = set(map(type, values))
    listed = column.kind == EMBEDDING and kinds == {list} and set(map(len, values)) == {column.size}
    if listed:
        kinds = set(map(type, chain.from_iterable(values)))
    elif column.kind != NUMBER:
        return None
    if not kinds <= NUMBERS:
        return None
    try:
        block = np.array(values, dtype=np.float64).reshape(len(values), column.size)
    except OverflowError:  # a whole number beyond all floats
        return None
    sizes = np.abs(block).sum(axis=1)
    if not (sizes <= LARGEST_LISTED if listed else sizes < LARGEST).all():
        return None
    if listed:
        return block
    center, factor, limit = column.map
    return np.clip((block - center) * factor, -limit, limit)


def contributions(state: EncoderState, values: Mapping[str, Any], width: int, add: Add) -> tuple[Contribution, ...]:
    """Return the contributions of each value: to all of its own columns, and to the shared columns that it changes."""
    out: list[Contribution] = []
    for path in sorted(values):
        vector = array("d", bytes(8 * width))
        kind = add(state, path, values[path], vector, 0)
        column = state.columns.get(path)
        if column is not None and column.kind == kind:
            places = list(range(column.at, column.at + column.size))
        else:
            places = [at for at, x in enumerate(vector) if x]
        kinds = times.KINDS if kind == TIME else [kind] * len(places)
        out += [Contribution(path, values[path], k, at, vector[at]) for k, at in zip(kinds, places, strict=True)]
        if not places:
            out.append(Contribution(path, values[path], kind, None, 0.0))
    return tuple(out)


def column_info(state: EncoderState, path: str, kind: str, columns: range) -> ColumnInfo:
    """Return the summary of a key; its kind and columns are those of the settings or of its first value."""
    column, key = state.columns.get(path), state.keys.get(path, Key(kind, state.updates + 1, state.updates + 1))
    moments = column.measure.moments if column is not None and column.kind == NUMBER else None
    missing = state.updates + 1 - key.first - key.same - key.changed
    return ColumnInfo(
        path,
        kind,
        columns,
        None if moments is None else moments.mean,
        None if moments is None else moments.std,
        key.same,
        missing,
        key.changed,
        key.new,
        "; ".join(_notes(state, column, key, kind)),
    )


def column_infos(state: EncoderState) -> tuple[ColumnInfo, ...]:
    """Return a summary of each key: first those with columns, in their order, then the others by name."""
    paths = sorted(state.columns, key=lambda path: state.columns[path].at)
    out = []
    for path in [*paths, *sorted(state.keys.keys() - state.columns.keys())]:
        kind = state.keys[path].kind if path in state.keys else state.columns[path].kind
        column = state.columns.get(path)
        out.append(
            column_info(state, path, kind, range(0) if column is None else range(column.at, column.at + column.size))
        )
    return tuple(out)


def _notes(state: EncoderState, column: Column | None, key: Key, kind: str) -> list[str]:
    """Return in words what of a key is not used."""
    notes = []
    if column is not None and column.kind != EMBEDDING and not column.measure.used:
        notes.append(f"{_why(column.measure)}, not used")
    if column is None and kind in MEASURED and key.same:
        notes.append("no column is free, hashed")
    if 2 * key.new > key.same:
        notes.append("most values do not repeat, only repeated ones are used")
    if key.changed:
        notes.append(f"{key.changed} of another type")
    absence, values = state.updates - key.last, key.same + key.changed
    if absence > MIN_ABSENCE and absence * values > ABSENCE_RATIO * (key.last - key.first + 1):
        notes.append(f"absent from the last {absence} contexts")
    return notes


def _why(measure: Measure) -> str:
    """Return why a number is not used."""
    if measure.scale.factor == 0.0:
        return "never varied"
    return "too few values so far" if measure.varied < FIRST_CHECK else "only grows or falls"
