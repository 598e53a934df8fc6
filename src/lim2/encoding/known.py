"""State of an encoder, as a value: the keys it has met, their columns and maps, and the categories it has seen."""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lim2.checks import LARGEST
from lim2.encoding import times
from lim2.encoding.measures import FIRST, Measure, observe
from lim2.encoding.repeats import Seen
from lim2.encoding.values import EMBEDDING, LARGEST_LISTED, MEASURED, MISSING, NUMBER, NUMBERS, TIME
from lim2.moments import NumberScaling, scaled_number
from lim2.state import Array

MOST_KEYS = 1000  # that are counted; further keys are encoded like any other
_LONG, _TIMES = 100, 20  # a key is gone if it was absent so many contexts, and so many times its usual distance


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


class Known(NamedTuple):
    """Complete state of an encoder; it is immutable."""

    columns: Mapping[str, Column]  # by path
    used: int  # columns that are taken
    overflow: int  # values that came without a column being free for them, and were hashed
    updates: int  # contexts learned from
    keys: Mapping[str, Key]  # by path
    seen: Seen | None  # None: every category counts from the first on
    trusted: bool  # whether every number and category is used from the first on, as those of items are


# Adds the value of a path to the vector that begins at a place, and returns as which kind
Add = Callable[[Known, str, Any, "array[float]", int], str]


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


def column(kind: str, at: int, size: int, measure: Measure = Measure()) -> Column:  # noqa: B008
    """Return a column with its map."""
    return Column(kind, at, size, measure, measure.map)


def learned(old: Column, content: Any, trusted: bool) -> Column:
    """Return a column after one more value: a number, an instant or an embedding."""
    if old.kind == EMBEDDING:
        return old
    x = content if old.kind == NUMBER else content.age
    return column(old.kind, old.at, old.size, observe(old.measure, x, trusted))


def met(keys: dict[str, Key], path: str, kind: str, update: int, fits: bool = True, new: int = 0) -> None:
    """Count one value of a key in ``keys``; a key beyond the limit is not counted."""
    old = keys.get(path)
    if old is None:
        if len(keys) >= MOST_KEYS:
            return
        old = Key(kind, update, update)
    if kind == MISSING:
        keys[path] = old
        return
    if old.kind == MISSING:
        old = old._replace(kind=kind)
    same = fits and kind == old.kind
    keys[path] = Key(old.kind, old.first, update, old.same + same, old.changed + (not same), old.new + new)


def fits(known: Column, kind: str, content: Any) -> bool:
    """Return whether a value has the kind and size of a column."""
    return known.kind == kind and (kind != EMBEDDING or known.size == len(content))


def add_own(known: Column, content: Any, out: "array[float]", start: int) -> None:
    """Add a value that fits its column to the vector that starts at ``start``."""
    first = start + known.at
    if known.kind == NUMBER:
        out[first] += scaled_number(known.map, content)
    elif known.kind == TIME:
        if known.measure.used:
            out[first : first + 4] = array("d", content.circles)
            out[first + 4] += scaled_number(known.map, content.age)
    else:
        out[first : first + known.size] = array("d", [x + 0.0 for x in content])  # no -0.0


def together(known: Column, values: list[Any]) -> Array | None:
    """Return the columns of several values, (n, size); None if one is invalid or of another kind."""
    kinds = set(map(type, values))
    listed = known.kind == EMBEDDING and kinds == {list} and set(map(len, values)) == {known.size}
    if listed:
        kinds = set(map(type, chain.from_iterable(values)))
    elif known.kind != NUMBER:
        return None
    if not kinds <= NUMBERS:
        return None
    try:
        block = np.array(values, dtype=np.float64).reshape(len(values), known.size)
    except OverflowError:  # a whole number beyond all floats
        return None
    sizes = np.abs(block).sum(axis=1)
    if not (sizes <= LARGEST_LISTED if listed else sizes < LARGEST).all():
        return None
    if listed:
        return block
    center, factor, limit = known.map
    return np.clip((block - center) * factor, -limit, limit)


def explained(known: Known, values: Mapping[str, Any], width: int, add: Add) -> tuple[Contribution, ...]:
    """Return the contributions of each value: to all of its own columns, and to the shared columns that it changes."""
    out: list[Contribution] = []
    for path in sorted(values):
        vector = array("d", bytes(8 * width))
        kind = add(known, path, values[path], vector, 0)
        own = known.columns.get(path)
        if own is not None and own.kind == kind:
            places = list(range(own.at, own.at + own.size))
        else:
            places = [at for at, x in enumerate(vector) if x]
        kinds = times.KINDS if kind == TIME else [kind] * len(places)
        out += [Contribution(path, values[path], k, at, vector[at]) for k, at in zip(kinds, places, strict=True)]
        if not places:
            out.append(Contribution(path, values[path], kind, None, 0.0))
    return tuple(out)


def info(known: Known, path: str, kind: str, columns: range) -> ColumnInfo:
    """Return the summary of a key; its kind and columns are those of the settings or of its first value."""
    own, key = known.columns.get(path), known.keys.get(path, Key(kind, known.updates + 1, known.updates + 1))
    moments = own.measure.moments if own is not None and own.kind == NUMBER else None
    missing = known.updates + 1 - key.first - key.same - key.changed
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
        "; ".join(_notes(known, own, key, kind)),
    )


def infos(known: Known) -> tuple[ColumnInfo, ...]:
    """Return a summary of each key: first those with columns, in their order, then the others by name."""
    placed = sorted(known.columns, key=lambda path: known.columns[path].at)
    out = []
    for path in [*placed, *sorted(known.keys.keys() - known.columns.keys())]:
        kind = known.keys[path].kind if path in known.keys else known.columns[path].kind
        own = known.columns.get(path)
        out.append(info(known, path, kind, range(0) if own is None else range(own.at, own.at + own.size)))
    return tuple(out)


def _notes(known: Known, own: Column | None, key: Key, kind: str) -> list[str]:
    """Return in words what of a key is not used."""
    notes = []
    if own is not None and own.kind != EMBEDDING and not own.measure.used:
        notes.append(f"{_why(own.measure)}, not used")
    if own is None and kind in MEASURED and key.same:
        notes.append("no column is free, hashed")
    if 2 * key.new > key.same:
        notes.append("most values do not repeat, only repeated ones are used")
    if key.changed:
        notes.append(f"{key.changed} of another type")
    gone, seen = known.updates - key.last, key.same + key.changed
    if gone > _LONG and gone * seen > _TIMES * (key.last - key.first + 1):
        notes.append(f"absent from the last {gone} contexts")
    return notes


def _why(measure: Measure) -> str:
    """Return why a number is not used."""
    if measure.scale.factor == 0.0:
        return "never varied"
    return "too few values so far" if measure.varied < FIRST else "only grows or falls"
