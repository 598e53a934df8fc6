"""Convert the state of an encoder to JSON values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.encoding import times
from lim2.encoding.columns import Columns
from lim2.encoding.encoder import Encoder
from lim2.encoding.known import Column, Known, column
from lim2.encoding.moments import Moments
from lim2.encoding.reading import check_path
from lim2.encoding.values import EMBEDDING, LISTED, MEASURED, NUMBER, TIME
from lim2.state import LARGEST, LARGEST_COUNT

_COUNTS = ("used", "overflow", "updates")
_MOMENTS = ("origin", "offset", "squares", "newest")


def to_parts(known: Known) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the state as JSON values and arrays.

    Examples
    --------
    >>> encoder = Encoder()
    >>> values, arrays = to_parts(encoder.observe(encoder.init(), {"age": 31}))
    >>> values
    {'columns': [['age', 'number', 0, 1]], 'used': 1, 'overflow': 0, 'updates': 1}
    >>> from_parts(encoder, values, arrays).columns["age"].moments
    Moments(weight=1, origin=31.0, offset=0.0, squares=0.0)
    """
    columns = known.columns.values()
    values = {
        "columns": [[path, own.kind, own.at, own.size] for path, own in known.columns.items()],
        **{name: getattr(known, name) for name in _COUNTS},
    }
    arrays: dict[str, NDArray[Any]] = {"count": np.array([own.moments.weight for own in columns], dtype=np.int64)}
    for name in _MOMENTS:
        numbers = [own.newest if name == "newest" else getattr(own.moments, name) for own in columns]
        arrays[name] = np.array(numbers, dtype=np.float64)
    return values, arrays


def from_parts(encoder: Encoder | Columns, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Known:
    """Return the state from JSON values and arrays; raise a ValueError if it is impossible for this encoder."""
    if set(values) != {"columns", *_COUNTS}:
        raise ValueError(f"the state must have columns, {', '.join(_COUNTS)}, got {', '.join(map(str, values))}")
    for name in _COUNTS:
        if type(values[name]) is not int or not 0 <= values[name] < LARGEST_COUNT:
            raise ValueError(f"{name} is {str(values[name])[:50]}, expected a count")
    listed = values["columns"]
    if not isinstance(listed, list) or not all(isinstance(entry, list) and len(entry) == 4 for entry in listed):
        raise ValueError("columns must be a list of path, kind, place and size")
    numbers = _numbers(arrays, len(listed))
    columns: dict[str, Column] = {}
    for entry, count, *moments, newest in zip(listed, *numbers, strict=True):
        path, own = _column(entry, Moments(count, *moments), newest)
        if path in columns or count > values["updates"]:
            raise ValueError(f"{path} appears twice, or has more observations than there were contexts")
        columns[path] = own
    known = Known(columns, values["used"], values["overflow"], values["updates"])
    encoder.check(known)
    return known


def _numbers(arrays: Mapping[str, NDArray[Any]], length: int) -> list[list[Any]]:
    """Return count, moments and newest time of every column."""
    if set(arrays) != {"count", *_MOMENTS}:
        raise ValueError(f"the state must have the arrays count, {', '.join(_MOMENTS)}, got {', '.join(arrays)}")
    for name in ("count", *_MOMENTS):
        array, kind = arrays[name], np.int64 if name == "count" else np.float64
        if array.dtype != kind or array.shape != (length,):
            raise ValueError(f"{name} must be {kind.__name__} of shape ({length},), got {array.dtype} of {array.shape}")
        if not (np.abs(array) < (LARGEST_COUNT if name == "count" else LARGEST)).all():
            raise ValueError(f"{name} has values that are not finite or too large")
        if name in ("count", "squares") and (array < 0).any():
            raise ValueError(f"{name} has values below 0")
    return [arrays[name].tolist() for name in ("count", *_MOMENTS)]


def _column(entry: list[Any], moments: Moments, newest: float) -> tuple[str, Column]:
    path, kind, at, size = entry
    check_path(path)
    if not isinstance(kind, str) or kind not in MEASURED:
        raise ValueError(f"{path} has the kind {str(kind)[:50]}, expected one of {', '.join(sorted(MEASURED))}")
    sizes = {NUMBER: range(1, 2), TIME: range(times.SIZE, times.SIZE + 1), EMBEDDING: range(1, LISTED + 1)}[kind]
    if type(at) is not int or type(size) is not int or at < 0 or size not in sizes:
        raise ValueError(f"{path} has invalid columns for a {kind}: start {str(at)[:50]}, size {str(size)[:50]}")
    no_moments, no_time = kind == EMBEDDING or not moments.weight, kind != TIME or not moments.weight
    if (no_moments and any(moments[1:])) or (no_time and newest):
        raise ValueError(f"{path} has moments that are impossible for a {kind} with {moments.weight} observations")
    return path, column(kind, at, size, moments, newest)
