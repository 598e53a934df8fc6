"""Convert raw contexts and items of Python, NumPy, pandas and polars to JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np

DEEPEST = 32  # levels of nesting

# Made once: `json.dumps` would make one each time.
_encode = json.JSONEncoder(
    separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False, check_circular=False
).encode

JSON = Any  # None, bool, int, float, str, a list of them, or a dictionary of them by strings
Path = Any  # (path of the parent, key or index); None at the top


def as_json(value: Any, what: str = "a raw context") -> JSON:
    """Return a value as JSON: dictionaries with sorted keys, lists, strings, numbers, booleans, None.

    Dates and times become ISO strings, time differences seconds; NaN and the missing values of pandas become None;
    tuples, arrays and sets become lists, sets in sorted order; rows of frames, dataclasses and named tuples become
    dictionaries.

    Parameters
    ----------
    value
        A dictionary, dataclass, or row, nested or not.
    what
        Description of the value, for error messages.

    Returns
    -------
    JSON
        A copy. Equal values give equal results, regardless of the order of their keys.

    Raises
    ------
    ValueError
        With the path of what JSON cannot hold.

    Examples
    --------
    >>> as_json({"b": np.float32(0.5), "at": datetime(2026, 11, 16, 10), "a": (1, float("nan"))})
    {'a': [1, None], 'at': '2026-11-16T10:00:00', 'b': 0.5}
    >>> as_json({"basket": {"items": [1, b"2"]}})
    Traceback (most recent call last):
    ValueError: a raw context has a value of type bytes at basket.items[1]: JSON holds dictionaries, lists, strings, ...
    """
    return _convert(value, None, what, 0)


def dumps(value: JSON) -> bytes:
    """Return canonical JSON: equal values give equal bytes.

    Parameters
    ----------
    value
        JSON value from `as_json`.

    Examples
    --------
    >>> dumps({"a": [1, None], "b": "ü"}).decode()
    '{"a":[1,null],"b":"ü"}'
    """
    return _encode(value).encode("utf-8", "surrogatepass")  # half a character is kept as it came


def loads(text: bytes) -> JSON:
    """Return the value that `dumps` wrote.

    Parameters
    ----------
    text
        JSON.
    """
    return json.loads(text.decode("utf-8", "surrogatepass"))


def _convert(value: Any, path: Path, what: str, depth: int) -> JSON:
    if value is None or value is True or value is False or type(value) is str:
        return value
    if type(value) is float:
        return _number(value, path, what)
    if type(value) is int:
        return _whole(value, path, what)
    if depth > DEEPEST:
        raise ValueError(f"{what} is nested more than {DEEPEST} levels deep{_at(path)[:80]}: flatten it")
    if type(value) is dict:
        return _object(value, path, what, depth)
    if type(value) is list or type(value) is tuple:
        return [_convert(part, (path, i), what, depth + 1) for i, part in enumerate(value)]
    return _other(value, path, what, depth)


def _other(value: Any, path: Path, what: str, depth: int) -> JSON:
    """Convert a less common type by one step, then the result."""
    if _is_missing(value):
        return None
    if isinstance(value, Enum):
        return _convert(value.value, path, what, depth + 1)
    if isinstance(value, str | UUID):
        return str(value)
    if isinstance(value, float | np.floating | Decimal):
        return _number(float(value), path, what)
    if isinstance(value, int | np.integer):
        return _whole(int(value), path, what)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, set | frozenset):
        return sorted((_convert(part, path, what, depth + 1) for part in value), key=dumps)
    plainer = _plainer(value)
    if plainer is value:
        raise ValueError(
            f"{what} has a value of type {type(value).__name__}{_at(path)}: JSON holds dictionaries, lists, strings, "
            f"finite numbers, booleans and None; dates, NumPy values, dataclasses and rows are converted"
        )
    return _convert(plainer, path, what, depth + 1)


def _plainer(value: Any) -> Any:
    """Return a container or a scalar in Python's own types, one level deep; the value itself if it is neither."""
    if isinstance(value, type):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "_asdict"):  # a named tuple, as rows of frames are
        return value._asdict()
    if hasattr(value, "to_dicts") or hasattr(value, "iterrows"):  # a frame of polars, of pandas
        rows = value.to_dicts() if hasattr(value, "to_dicts") else value.to_dict("records")
        return rows[0] if len(rows) == 1 else rows
    if hasattr(value, "to_dict"):  # a row of pandas
        return value.to_dict()
    for name in ("tolist", "to_list"):  # of NumPy, of polars
        if hasattr(value, name):
            return getattr(value, name)()
    return list(value) if isinstance(value, list | tuple) else value


def _object(value: dict[Any, Any], path: Path, what: str, depth: int) -> dict[str, JSON]:
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{what} has the key {key!r}{_at(path)}: keys must be strings")
    return {str(key): _convert(value[key], (path, key), what, depth + 1) for key in sorted(value)}


def _number(value: float, path: Path, what: str) -> float | None:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    raise ValueError(f"{what} has {value}{_at(path)}: numbers must be finite; use None for a missing number")


def _whole(value: int, path: Path, what: str) -> int:
    if value.bit_length() < 1024:  # what a float can hold
        return value
    raise ValueError(f"{what} has a whole number of {value.bit_length()} bits{_at(path)}: scale it")


def _is_missing(value: Any) -> bool:
    """Return whether a value means missing: NaT, and the NA of pandas."""
    if type(value).__name__ in ("NaTType", "NAType"):
        return True
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def _at(path: Path) -> str:
    """Return a path in words, such as ' at basket.items[1]'; it is put together only when it is needed."""
    parts: list[str] = []
    while path is not None:
        path, key = path
        parts.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return f" at {''.join(reversed(parts)).removeprefix('.')}" if parts else ""


def named(items: Mapping[Any, Any] | Sequence[Any], what: str = "the item") -> Any:
    """Return raw items as JSON, by name if they have names, in the given order.

    Parameters
    ----------
    items
        Name -> features, or features only.
    what
        Description of an item, for error messages.

    Examples
    --------
    >>> named({"sku1": {"price": 9.9, "category": "shoes"}})
    {'sku1': {'category': 'shoes', 'price': 9.9}}
    """
    if isinstance(items, Mapping):
        return {name: as_json(item, f"{what} {name!r}") for name, item in items.items()}
    if not isinstance(items, list | tuple):
        raise ValueError(f"raw items must be a dictionary of features by name, or a list, got {type(items).__name__}")
    return [as_json(item, f"{what} {place}") for place, item in enumerate(items)]
