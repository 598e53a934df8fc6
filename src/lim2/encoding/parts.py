"""Convert the state of an encoder to JSON values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.encoding import times
from lim2.encoding.columns import Columns
from lim2.encoding.encoder import Encoder
from lim2.encoding.known import MOST_KEYS, Column, Key, Known, column
from lim2.encoding.measures import ENOUGH, Measure
from lim2.encoding.reading import check_path
from lim2.encoding.repeats import ROOM, TABLE, Seen
from lim2.encoding.values import CATEGORY, EMBEDDING, LIST, LISTED, MEASURED, MISSING, NUMBER, TIME
from lim2.moments import NumberMoments, NumberScaling, number_scaling
from lim2.state import LARGEST, LARGEST_COUNT

_COUNTS, _NEWER = ("used", "overflow", "updates"), ("keys", "new", "trusted")
_KINDS = MEASURED | {CATEGORY, LIST, MISSING}
_MEASURES: dict[str, type[Any]] = {
    **dict.fromkeys(("count", "varied", "falls", "rises"), np.int64),
    **dict.fromkeys(("origin", "offset", "squares", "center", "factor", "limit", "low", "high"), np.float64),
    **dict.fromkeys(("above", "steady"), np.bool_),
}
_SEEN: dict[str, type[Any]] = {"cells": np.uint16, "counts": np.uint8}
# Before a number was scaled by a fixed map, and before categories were counted
_OLD: dict[str, type[Any]] = {"count": np.int64, **dict.fromkeys(("origin", "offset", "squares", "newest"), np.float64)}


def to_parts(known: Known) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the state as JSON values and arrays.

    Examples
    --------
    >>> encoder = Encoder()
    >>> values, arrays = to_parts(encoder.observe(encoder.init(), {"age": 31}))
    >>> values["columns"], values["keys"]
    ([['age', 'number', 0, 1]], [['age', 'number', 1, 1, 1, 0, 0]])
    >>> from_parts(encoder, values, arrays).columns["age"].measure.moments
    NumberMoments(weight=1, origin=31.0, offset=0.0, squares=0.0)
    """
    values = {
        "columns": [[path, own.kind, own.at, own.size] for path, own in known.columns.items()],
        **{name: getattr(known, name) for name in _COUNTS},
        "keys": [[path, *key] for path, key in sorted(known.keys.items())],
        "new": None if known.seen is None else known.seen.new,
        "trusted": known.trusted,
    }
    rows = [_row(own.measure) for own in known.columns.values()]
    arrays = {name: np.array([row[name] for row in rows], dtype=kind) for name, kind in _MEASURES.items()}
    counts = np.frombuffer(b"" if known.seen is None else known.seen.counts, dtype=np.uint8)
    cells = np.flatnonzero(counts)
    return values, {**arrays, "cells": cells.astype(np.uint16), "counts": counts[cells]}


def from_parts(
    encoder: Encoder | Columns, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], of_items: bool = False
) -> Known:
    """Return the state from JSON values and arrays; raise a ValueError if it is impossible for this encoder.

    In a state of an earlier version, which has no ``keys``, every category counts, and times are measured anew; if it
    is ``of_items``, it is trusted.
    """
    old = set(values) == {"columns", *_COUNTS}
    if not old and set(values) != {"columns", *_COUNTS, *_NEWER}:
        expected = ", ".join(("columns", *_COUNTS, *_NEWER))
        raise ValueError(f"the state must have {expected}, got {', '.join(map(str, values))}")
    for name in _COUNTS:
        _count(name, values[name])
    columns = _columns(values["columns"])
    if old:
        measures, keys, seen, trusted = _old_measures(columns, arrays), {}, None, of_items
    else:
        measures = _measures(arrays, len(columns))
        keys, seen = _keys(values["keys"], values["updates"]), _seen(values["new"], arrays)
        trusted = values["trusted"]
        if not isinstance(trusted, bool):
            raise ValueError(f"trusted is {str(trusted)[:50]}, expected true or false")
    placed = {}
    for (path, own), measure in zip(columns.items(), measures, strict=True):
        if measure.moments.weight > values["updates"] or (own.kind == EMBEDDING and measure != Measure()):
            raise ValueError(f"{path} has more observations than there were contexts, or moments without numbers")
        placed[path] = column(own.kind, own.at, own.size, measure)
    known = Known(placed, values["used"], values["overflow"], values["updates"], keys, seen, trusted)
    encoder.check(known)
    return known


def _row(measure: Measure) -> dict[str, Any]:
    """Return what of a measure is saved, by name."""
    moments, place, *rest = measure
    names = ("count", "origin", "offset", "squares", *NumberScaling._fields, *Measure._fields[2:])
    return dict(zip(names, (*moments, *place, *rest), strict=True))


def _measures(arrays: Mapping[str, NDArray[Any]], length: int) -> list[Measure]:
    """Return the measures of all columns, in order."""
    _check(arrays, {**dict.fromkeys(_MEASURES, length), **dict.fromkeys(_SEEN, None)}, {**_MEASURES, **_SEEN})
    columns = [arrays[name].tolist() for name in _row(Measure())]
    out = []
    for row in zip(*columns, strict=True):
        measure = Measure(NumberMoments(*row[:4]), NumberScaling(*row[4:7]), *row[7:])
        if not measure.falls + measure.rises <= measure.varied <= measure.moments.weight:
            raise ValueError("a column has varied, fallen or risen more often than it was observed")
        if not measure.moments.weight and measure != Measure():
            raise ValueError("a column has moments without an observation")
        out.append(measure)
    return out


def _old_measures(columns: Mapping[str, Column], arrays: Mapping[str, NDArray[Any]]) -> list[Measure]:
    """Return the measures of a state of an earlier version: numbers keep their scale, times are measured anew."""
    _check(arrays, dict.fromkeys(_OLD, len(columns)), _OLD)
    numbers = zip(*(arrays[name].tolist() for name in _OLD), strict=True)
    out = []
    for own, (*moments, _) in zip(columns.values(), numbers, strict=True):
        if own.kind == NUMBER:
            known = NumberMoments(*moments)
            varied, mean = known.weight if number_scaling(known).factor else 0, known.mean
            out.append(Measure(known, number_scaling(known), varied, False, mean, mean, ENOUGH, ENOUGH, True))
        else:
            out.append(Measure())
    return out


def _check(arrays: Mapping[str, NDArray[Any]], lengths: Mapping[str, int | None], kinds: Mapping[str, Any]) -> None:
    """Raise a ValueError unless the arrays have these lengths and types, and possible values."""
    if set(arrays) != set(lengths):
        raise ValueError(f"the state must have the arrays {', '.join(lengths)}, got {', '.join(arrays)}")
    for name, length in lengths.items():
        array, kind = arrays[name], kinds[name]
        shape = array.shape if length is None and array.ndim == 1 else (length,)
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"{name} must be {kind.__name__} of shape {shape}, got {array.dtype} of {array.shape}")
        if array.dtype.kind in "fi" and not (np.abs(array) < (LARGEST if kind is np.float64 else LARGEST_COUNT)).all():
            raise ValueError(f"{name} has values that are not finite or too large")
        if name in ("count", "squares", "factor", "limit", "varied", "falls", "rises") and (array < 0).any():
            raise ValueError(f"{name} has values below 0")


def _seen(new: Any, arrays: Mapping[str, NDArray[Any]]) -> Seen | None:
    """Return the counts of categories; None if all count."""
    cells, counts = arrays["cells"], arrays["counts"]
    if len(cells) != len(counts) or (np.diff(cells.astype(np.int64)) <= 0).any() or not counts.all():
        raise ValueError("cells must be sorted, with a count above 0 for each")
    if new is None:
        if len(cells):
            raise ValueError("categories are counted, although all of them count")
        return None
    if _count("new", new) >= ROOM:
        raise ValueError(f"new is {new}, expected less than {ROOM}")
    table = np.zeros(TABLE, dtype=np.uint8)
    table[cells] = counts
    return Seen(table.tobytes(), new)


def _keys(listed: Any, updates: int) -> dict[str, Key]:
    if not isinstance(listed, list) or not all(isinstance(entry, list) and len(entry) == 7 for entry in listed):
        raise ValueError("keys must be a list of path, kind and five counts")
    keys = {}
    for path, kind, *counts in listed:
        check_path(path)
        first, last, count, changed, new = (_count(f"a count of {path}", number) for number in counts)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ValueError(f"{path} has the kind {str(kind)[:50]}, expected one of {', '.join(sorted(_KINDS))}")
        if path in keys or not 0 < first <= last <= updates or count + changed > last - first + 1:
            raise ValueError(f"{path} appears twice, or has more observations than there were contexts")
        keys[path] = Key(kind, first, last, count, changed, new)
    if len(keys) > MOST_KEYS:
        raise ValueError(f"there are {len(keys)} keys, expected at most {MOST_KEYS}")
    return keys


def _count(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < LARGEST_COUNT:
        raise ValueError(f"{name} is {str(value)[:50]}, expected a count")
    return value


def _columns(listed: Any) -> dict[str, Column]:
    if not isinstance(listed, list) or not all(isinstance(entry, list) and len(entry) == 4 for entry in listed):
        raise ValueError("columns must be a list of path, kind, place and size")
    columns = {}
    for path, kind, at, size in listed:
        check_path(path)
        if not isinstance(kind, str) or kind not in MEASURED:
            raise ValueError(f"{path} has the kind {str(kind)[:50]}, expected one of {', '.join(sorted(MEASURED))}")
        sizes = {NUMBER: range(1, 2), TIME: range(times.SIZE, times.SIZE + 1), EMBEDDING: range(1, LISTED + 1)}[kind]
        if type(at) is not int or type(size) is not int or at < 0 or size not in sizes:
            raise ValueError(f"{path} has invalid columns for a {kind}: start {str(at)[:50]}, size {str(size)[:50]}")
        if path in columns:
            raise ValueError(f"{path} appears twice")
        columns[path] = column(kind, at, size)
    return columns
