"""Convert the state of an encoder to JSON values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.encoding import times
from lim2.encoding.categories import CELLS, MAX_NEW, CategoryCounts
from lim2.encoding.columns import Columns
from lim2.encoding.encoder import Encoder
from lim2.encoding.measures import MIN_TURNS, Measure
from lim2.encoding.reading import check_path
from lim2.encoding.states import MAX_KEYS, Column, EncoderState, Key, new_column
from lim2.encoding.values import CATEGORY, EMBEDDING, LIST, MAX_LIST_VALUES, MEASURED, MISSING, NUMBER, TIME
from lim2.moments import NumberMoments, NumberScaling, number_scaling
from lim2.state import LARGEST, LARGEST_COUNT

_COUNTS, _NEWER = ("used", "overflow", "updates"), ("keys", "new", "trusted")
_KINDS = MEASURED | {CATEGORY, LIST, MISSING}
_MEASURES: dict[str, type[Any]] = {
    **dict.fromkeys(("count", "varied", "falls", "rises"), np.int64),
    **dict.fromkeys(("origin", "offset", "squares", "center", "factor", "limit", "low", "high"), np.float64),
    **dict.fromkeys(("above", "steady"), np.bool_),
}
_CATEGORIES: dict[str, type[Any]] = {"cells": np.uint16, "counts": np.uint8}
# Before a number was scaled by a fixed map, and before categories were counted
_OLD: dict[str, type[Any]] = {"count": np.int64, **dict.fromkeys(("origin", "offset", "squares", "newest"), np.float64)}


def to_parts(state: EncoderState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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
        "columns": [[path, column.kind, column.at, column.size] for path, column in state.columns.items()],
        **{name: getattr(state, name) for name in _COUNTS},
        "keys": [[path, *key] for path, key in sorted(state.keys.items())],
        "new": None if state.categories is None else state.categories.new,
        "trusted": state.trusted,
    }
    rows = [_row(column.measure) for column in state.columns.values()]
    arrays = {name: np.array([row[name] for row in rows], dtype=kind) for name, kind in _MEASURES.items()}
    counts = np.frombuffer(b"" if state.categories is None else state.categories.counts, dtype=np.uint8)
    cells = np.flatnonzero(counts)
    return values, {**arrays, "cells": cells.astype(np.uint16), "counts": counts[cells]}


def from_parts(
    encoder: Encoder | Columns, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], of_items: bool = False
) -> EncoderState:
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
        measures, keys, categories, trusted = _old_measures(columns, arrays), {}, None, of_items
    else:
        measures = _measures(arrays, len(columns))
        keys, categories = _keys(values["keys"], values["updates"]), _categories(values["new"], arrays)
        trusted = values["trusted"]
        if not isinstance(trusted, bool):
            raise ValueError(f"trusted is {str(trusted)[:50]}, expected true or false")
    columns_by_path = {}
    for (path, column), measure in zip(columns.items(), measures, strict=True):
        if measure.moments.weight > values["updates"] or (column.kind == EMBEDDING and measure != Measure()):
            raise ValueError(f"{path} has more observations than there were contexts, or moments without numbers")
        columns_by_path[path] = new_column(column.kind, column.at, column.size, measure)
    state = EncoderState(
        columns_by_path, values["used"], values["overflow"], values["updates"], keys, categories, trusted
    )
    encoder.check(state)
    return state


def _row(measure: Measure) -> dict[str, Any]:
    """Return what of a measure is saved, by name."""
    moments, place, *rest = measure
    names = ("count", "origin", "offset", "squares", *NumberScaling._fields, *Measure._fields[2:])
    return dict(zip(names, (*moments, *place, *rest), strict=True))


def _measures(arrays: Mapping[str, NDArray[Any]], length: int) -> list[Measure]:
    """Return the measures of all columns, in order."""
    _check(
        arrays, {**dict.fromkeys(_MEASURES, length), **dict.fromkeys(_CATEGORIES, None)}, {**_MEASURES, **_CATEGORIES}
    )
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
    for column, (*moments, _) in zip(columns.values(), numbers, strict=True):
        if column.kind == NUMBER:
            old = NumberMoments(*moments)
            scaling, mean = number_scaling(old), old.mean
            varied = old.weight if scaling.factor else 0
            out.append(Measure(old, scaling, varied, False, mean, mean, MIN_TURNS, MIN_TURNS, True))
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


def _categories(new: Any, arrays: Mapping[str, NDArray[Any]]) -> CategoryCounts | None:
    """Return the counts of categories; None if all count."""
    cells, counts = arrays["cells"], arrays["counts"]
    if len(cells) != len(counts) or (np.diff(cells.astype(np.int64)) <= 0).any() or not counts.all():
        raise ValueError("cells must be sorted, with a count above 0 for each")
    if new is None:
        if len(cells):
            raise ValueError("categories are counted, although all of them count")
        return None
    if _count("new", new) >= MAX_NEW:
        raise ValueError(f"new is {new}, expected less than {MAX_NEW}")
    table = np.zeros(CELLS, dtype=np.uint8)
    table[cells] = counts
    return CategoryCounts(table.tobytes(), new)


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
    if len(keys) > MAX_KEYS:
        raise ValueError(f"there are {len(keys)} keys, expected at most {MAX_KEYS}")
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
        sizes = {
            NUMBER: range(1, 2),
            TIME: range(times.SIZE, times.SIZE + 1),
            EMBEDDING: range(1, MAX_LIST_VALUES + 1),
        }[kind]
        if type(at) is not int or type(size) is not int or at < 0 or size not in sizes:
            raise ValueError(f"{path} has invalid columns for a {kind}: start {str(at)[:50]}, size {str(size)[:50]}")
        if path in columns:
            raise ValueError(f"{path} appears twice")
        columns[path] = new_column(kind, at, size)
    return columns
