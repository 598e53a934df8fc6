"""Raw contexts, names of arms and arrays as JSON and bytes.

A payload is bytes whose first byte says what follows: ``j`` JSON, ``a`` an array (its type and shape as one line of
JSON, then its bytes); ``J`` and ``A`` the same, compressed.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

MAX_DEPTH = 32  # levels of nesting
MIN_COMPRESSED_BYTES = 512  # fewer are not worth compressing
SAMPLE_BYTES = 4096  # are compressed first, to see whether the rest is worth it
MAX_COMPRESSED_SHARE = 0.8  # of the size: what compresses to more is stored as it is

JSON = Any  # None, bool, int, float, str, a list of them, or a dictionary of them by strings
Path = Any  # (path of the parent, key or index); None at the top

# Made once: `json.dumps` would make one each time.
_encode = json.JSONEncoder(
    separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False, check_circular=False
).encode
_encode_names = json.JSONEncoder(separators=(",", ":")).encode
_encode_string = json.encoder.encode_basestring_ascii
_JSON_NAMES = (str, int)  # types of names that JSON gives back unchanged


# Values as JSON


def as_json(value: Any, label: str = "a raw context") -> JSON:
    """Return a copy of a value as JSON: dictionaries with sorted keys, lists, strings, numbers, booleans, None.

    Dates and times become ISO strings, time differences seconds; NaN and the missing values of pandas become None;
    tuples, arrays and sets become lists, sets in sorted order; rows of frames, dataclasses and named tuples become
    dictionaries. A ValueError names the path of what JSON cannot hold.

    Examples
    --------
    >>> as_json({"b": np.float32(0.5), "at": datetime(2026, 11, 16, 10), "a": (1, float("nan"))})
    {'a': [1, None], 'at': '2026-11-16T10:00:00', 'b': 0.5}
    >>> as_json({"basket": {"items": [1, b"2"]}})
    Traceback (most recent call last):
    ValueError: a raw context has a value of type bytes at basket.items[1]: JSON holds dictionaries, lists, strings, ...
    """
    return _convert(value, None, label, 0)


def as_json_items(items: Mapping[Any, Any] | Sequence[Any]) -> Any:
    """Return raw items as JSON, by name if they have names, in their order.

    Examples
    --------
    >>> as_json_items({"sku1": {"price": 9.9, "category": "shoes"}})
    {'sku1': {'category': 'shoes', 'price': 9.9}}
    """
    if isinstance(items, Mapping):
        return {name: as_json(item, f"the item {name!r}") for name, item in items.items()}
    if not isinstance(items, list | tuple):
        raise ValueError(f"raw items must be a dictionary of features by name, or a list, got {type(items).__name__}")
    return [as_json(item, f"the item {place}") for place, item in enumerate(items)]


def dump_json(value: JSON) -> bytes:
    """Return the canonical text of a value from `as_json`: equal values give equal bytes.

    Examples
    --------
    >>> dump_json({"a": [1, None], "b": "ü"}).decode()
    '{"a":[1,null],"b":"ü"}'
    """
    return _encode(value).encode("utf-8", "surrogatepass")  # half of a surrogate pair is stored as it came


def load_json(text: bytes) -> JSON:
    """Return the value that `dump_json` wrote."""
    return json.loads(text.decode("utf-8", "surrogatepass"))


def _convert(value: Any, path: Path, label: str, depth: int) -> JSON:
    if value is None or value is True or value is False or type(value) is str:
        return value
    if type(value) is float:
        return _number(value, path, label)
    if type(value) is int:
        return _whole(value, path, label)
    if depth > MAX_DEPTH:
        raise ValueError(f"{label} is nested more than {MAX_DEPTH} levels deep{_at(path)[:80]}: flatten it")
    if type(value) is dict:
        return _object(value, path, label, depth)
    if type(value) is list or type(value) is tuple:
        return [_convert(part, (path, i), label, depth + 1) for i, part in enumerate(value)]
    return _other(value, path, label, depth)


def _other(value: Any, path: Path, label: str, depth: int) -> JSON:
    """Convert a less common type by one step, then the result."""
    if _is_missing(value):
        return None
    if isinstance(value, Enum):
        return _convert(value.value, path, label, depth + 1)
    if isinstance(value, str | UUID):
        return str(value)
    if isinstance(value, float | np.floating | Decimal):
        return _number(float(value), path, label)
    if isinstance(value, int | np.integer):
        return _whole(int(value), path, label)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, set | frozenset):
        return sorted((_convert(part, path, label, depth + 1) for part in value), key=dump_json)
    plainer = _plainer(value)
    if plainer is value:
        raise ValueError(
            f"{label} has a value of type {type(value).__name__}{_at(path)}: JSON holds dictionaries, lists, strings, "
            f"finite numbers, booleans and None; dates, NumPy values, dataclasses and rows are converted"
        )
    return _convert(plainer, path, label, depth + 1)


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


def _object(value: dict[Any, Any], path: Path, label: str, depth: int) -> dict[str, JSON]:
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{label} has the key {key!r}{_at(path)}: keys must be strings")
    return {str(key): _convert(value[key], (path, key), label, depth + 1) for key in sorted(value)}


def _number(value: float, path: Path, label: str) -> float | None:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    raise ValueError(f"{label} has {value}{_at(path)}: numbers must be finite; use None for a missing number")


def _whole(value: int, path: Path, label: str) -> int:
    if value.bit_length() < 1024:  # what a float can hold
        return value
    raise ValueError(f"{label} has a whole number of {value.bit_length()} bits{_at(path)}: scale it")


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


# Names of arms


def dump_names(names: Iterable[Hashable]) -> str:
    """Return names of arms as a JSON array, from which `load_names` restores type and value.

    Examples
    --------
    >>> dump_names(["red", 1, 1.0, True, None, ("red", 1)])
    '["red",1,1.0,true,null,["red",1]]'
    >>> dump_names([frozenset()])
    Traceback (most recent call last):
    ValueError: the arm frozenset() cannot be logged: names must be strings, numbers, booleans, None or tuples of them
    """
    listed: list[Any] = list(names)
    if set(map(type, listed)) == {str}:  # nearly always
        return f"[{','.join(map(_encode_string, listed))}]"
    return _encode_names([name if type(name) in _JSON_NAMES else _plain_name(name) for name in listed])


def load_names(text: str) -> tuple[Hashable, ...]:
    """Return the names that `dump_names` wrote.

    Examples
    --------
    >>> load_names('["red",1,1.0,true,null,["red",1]]')
    ('red', 1, 1.0, True, None, ('red', 1))
    """
    return tuple(_name(value) for value in json.loads(text))


def plain_names(names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return names as `load_names` would give them back: with the types of Python, not of NumPy.

    Examples
    --------
    >>> plain_names([np.str_("red"), np.int64(1), ("red", np.float64(0.5))])
    ('red', 1, ('red', 0.5))
    """
    return tuple([name if type(name) in _JSON_NAMES else _name(_plain_name(name)) for name in names])


def _plain_name(name: Any) -> Any:
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return [_plain_name(part) for part in name]
    if name is None or isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name)):
        return name
    raise ValueError(
        f"the arm {name!r} cannot be logged: names must be strings, numbers, booleans, None or tuples of them"
    )


def _name(value: Any) -> Hashable:
    return tuple(_name(part) for part in value) if isinstance(value, list) else value


# Payloads


def pack_json(value: JSON | None, encode: Callable[[JSON], bytes] = dump_json) -> bytes | None:
    """Return JSON as a payload; None for a missing value."""
    return None if value is None else _packed(b"j", encode(value))


def pack_array(array: NDArray[Any] | None) -> bytes | None:
    """Return a contiguous array of numbers as a payload; None for a missing one."""
    if array is None:
        return None
    head = json.dumps([array.dtype.str, array.shape], separators=(",", ":")).encode()
    return _packed(b"a", head + b"\n" + array.tobytes())


def unpacked_size(payload: bytes | None) -> int:
    """Return the number of bytes of a payload before it was compressed.

    Examples
    --------
    >>> unpacked_size(pack_json(["shoes"] * 1000)), unpacked_size(None)
    (8001, 0)
    """
    if payload is None:
        return 0
    return len(zlib.decompress(payload[1:])) if payload[:1] in b"JA" else len(payload) - 1


def unpack(payload: bytes | None) -> Any:
    """Return the value that `pack_json` or `pack_array` packed.

    Examples
    --------
    >>> unpack(pack_json({"a": [1, 2]})), unpack(pack_array(np.eye(2)))
    ({'a': [1, 2]}, array([[1., 0.],
           [0., 1.]]))
    >>> len(pack_json(["shoes"] * 1000)) < 100
    True
    """
    if payload is None:
        return None
    kind, body = payload[:1], payload[1:]
    if kind in b"JA":
        body = zlib.decompress(body)
    if kind in b"jJ":
        return load_json(body)
    head, _, values = body.partition(b"\n")
    dtype, shape = json.loads(head)
    return np.frombuffer(values, dtype=dtype).reshape(shape).copy()


def _packed(kind: bytes, body: bytes) -> bytes:
    if len(body) <= MIN_COMPRESSED_BYTES:
        return kind + body
    sample = body[:SAMPLE_BYTES]
    if len(body) > 2 * SAMPLE_BYTES and len(_compressed(sample)) > MAX_COMPRESSED_SHARE * SAMPLE_BYTES:
        return kind + body
    small = _compressed(body)
    return kind.upper() + small if len(small) < MAX_COMPRESSED_SHARE * len(body) else kind + body


def _compressed(body: bytes) -> bytes:
    """Compress with a window as small as the body: to clear zlib's default buffers takes longer than to fill them."""
    window = min(len(body).bit_length(), zlib.MAX_WBITS)
    compressor = zlib.compressobj(1, zlib.DEFLATED, window, max(window - 7, 1))
    return compressor.compress(body) + compressor.flush()
