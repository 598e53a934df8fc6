"""State of an encoder, as a value: the keys that have their own columns, and the moments of these columns."""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lim2.checks import LARGEST
from lim2.encoding import times
from lim2.encoding.moments import Moments, Scale, observe, scale, scaled
from lim2.encoding.times import DAY
from lim2.encoding.values import EMBEDDING, LARGEST_LISTED, NUMBER, NUMBERS, TIME
from lim2.state import Array

# Deviations of ages below an hour are delays of events, not a signal.
_SMALLEST_AGE = 1.0 / 24.0


class Column(NamedTuple):
    """State of one key: a number, a time or an embedding."""

    kind: str
    at: int  # its first column
    size: int  # how many it has
    moments: Moments  # of the numbers, or of the ages in days; of an embedding the weight only
    scale: Scale
    newest: float  # seconds of the newest time learned from


class Known(NamedTuple):
    """Complete state of an encoder; it is immutable."""

    columns: Mapping[str, Column]  # by path
    used: int  # columns that are taken
    overflow: int  # values that came without a column being free for them, and were hashed
    updates: int  # contexts learned from


# Adds the value of a path to the vector that begins at a place, and returns as which kind
Add = Callable[[Known, str, Any, "array[float]", int], str]


class Contribution(NamedTuple):
    """Contribution of one value to one column; the column is None for a key that was never observed."""

    path: str
    value: Any
    kind: str
    column: int | None
    encoded: float


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """Summary of one key; ``mean`` and ``std`` of a time are its age in days; an embedding has none."""

    name: str
    kind: str
    columns: range
    mean: float | None
    std: float | None
    count: int


def column(kind: str, at: int, size: int, moments: Moments = Moments(), newest: float = 0.0) -> Column:  # noqa: B008
    """Return a column with the scale computed from its moments."""
    return Column(kind, at, size, moments, scale(moments, _SMALLEST_AGE if kind == TIME else 0.0), newest)


def learned(old: Column, content: Any) -> Column:
    """Return a column after one more value: a number, an instant or an embedding."""
    moments, newest = old.moments, old.newest
    if old.kind == NUMBER:
        moments = observe(moments, content)
    elif old.kind == TIME:
        newest = max(newest, content.seconds) if moments.weight else content.seconds
        moments = observe(moments, (newest - content.seconds) / DAY)
    else:
        moments = moments._replace(weight=moments.weight + 1)
    return column(old.kind, old.at, old.size, moments, newest)


def fits(known: Column, kind: str, content: Any) -> bool:
    """Return whether a value has the kind and size of a column."""
    return known.kind == kind and (kind != EMBEDDING or known.size == len(content))


def add_own(known: Column, content: Any, out: "array[float]", start: int) -> None:
    """Add a value that fits its column to the vector that starts at ``start``."""
    first = start + known.at
    if known.kind == NUMBER:
        out[first] += scaled(known.scale, content)
    elif known.kind == TIME:
        out[first], out[first + 1], out[first + 2], out[first + 3] = content.circles
        out[first + 4] += scaled(known.scale, (known.newest - content.seconds) / DAY)
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
    center, factor, limit = known.scale
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


def infos(known: Known) -> tuple[ColumnInfo, ...]:
    """Return a summary of each key that has columns."""
    return tuple(
        ColumnInfo(
            path,
            own.kind,
            range(own.at, own.at + own.size),
            None if own.kind == EMBEDDING else own.moments.mean,
            None if own.kind == EMBEDDING else own.moments.std,
            own.moments.weight,
        )
        for path, own in sorted(known.columns.items(), key=lambda entry: entry[1].at)
    )
