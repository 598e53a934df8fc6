"""Raw contexts as flat dictionaries: from the path of a key, such as ``basket.total``, to a plain Python value.

Every input is converted to one of a few types: string, boolean, None, integer, float, date, time or list. Objects of
pandas and polars are recognised by their methods; the packages are never imported.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np

from lim2.checks import LARGEST

DEPTH = 8  # dictionaries within one another
LEAVES = 1000  # values in one context
LENGTH = 250  # characters of a path

Raw = Any  # a dictionary, a row of pandas or polars, a dataclass, a named tuple
Leaves = Mapping[str, Any]  # values by path

EXPECTED = "a string, a number, True, False, None, a date or time, a list of strings or numbers, or a dictionary"

_LEAVES = frozenset({str, int, float, bool, type(None), list, date, datetime})


def leaves_of(raw: Raw) -> Leaves:
    """Return the values of a context by path.

    A flat dictionary is returned unchanged. Paths are not checked here, see :func:`check_path`. A key
    ``"basket.total"`` and a key ``"total"`` within ``"basket"`` are the same path.

    Examples
    --------
    >>> leaves_of({"age": 31, "basket": {"items": 3, "total": 80.5}})
    {'age': 31, 'basket.items': 3, 'basket.total': 80.5}
    >>> leaves_of({"basket": {"total": 1j}})
    Traceback (most recent call last):
    ValueError: basket.total is a value of type complex: expected a string, a number, True, False, None, ...
    """
    if type(raw) is dict and _LEAVES.issuperset(map(type, raw.values())):
        leaves = raw
    else:
        nested = raw if type(raw) is dict else _mapping(raw)
        if nested is None:
            raise ValueError(f"a context must be a dictionary, a row of a data frame or a dataclass, got {shown(raw)}")
        leaves = {}
        _flatten(nested, "", 1, leaves)
    if len(leaves) > LEAVES:
        path = list(leaves)[LEAVES]
        raise ValueError(f"{str(path)[:LENGTH]} is one value too many: a context has up to {LEAVES}, got {len(leaves)}")
    return leaves


def rows_of(raws: Any) -> Iterator[Raw]:
    """Yield the contexts of a sequence, or the rows of a data frame of pandas or polars.

    Examples
    --------
    >>> import polars
    >>> list(rows_of(polars.DataFrame({"age": [31, None]})))
    [{'age': 31}, {'age': None}]
    """
    if hasattr(raws, "iter_rows"):  # polars
        return iter(raws.iter_rows(named=True))
    if hasattr(raws, "iterrows"):  # pandas
        return iter(_without_nan(raws).to_dict("records"))
    if isinstance(raws, Mapping | str) or not hasattr(raws, "__iter__"):
        raise ValueError(f"contexts must be a sequence or a data frame, got {shown(raws)}")
    return iter(raws)


def check_path(path: Any) -> None:
    """Raise a ValueError unless the path is a string that is not too long."""
    if not isinstance(path, str):
        raise ValueError(f"the key {shown(path)} must be a string")
    if len(path) > LENGTH:
        raise ValueError(f"the path {path[:50]}... has {len(path)} characters: at most {LENGTH} are allowed")


def _flatten(nested: Mapping[Any, Any], prefix: str, depth: int, leaves: dict[str, Any]) -> None:
    for key, value in nested.items():
        if not isinstance(key, str):
            raise ValueError(f"the key {shown(key)}{f' of {prefix[:-1]}' if prefix else ''} must be a string")
        path = prefix + key
        if type(value) not in _LEAVES:
            inner = value if type(value) is dict else _mapping(value)
            if inner is not None:
                if len(path) > LENGTH:
                    check_path(path)
                if depth == DEPTH:
                    raise ValueError(f"{path} is nested too deeply: at most {DEPTH} levels of dictionaries are allowed")
                _flatten(inner, f"{path}.", depth + 1, leaves)
                continue
            value = plain(path, value)
        if path in leaves:
            raise ValueError(f"{path[:LENGTH]} appears twice, as a key with a dot and as a nested key: remove one")
        leaves[path] = value


def _mapping(raw: Any) -> Mapping[Any, Any] | None:
    """Return an object that maps names to values as a mapping; None for other objects."""
    if isinstance(raw, Mapping):
        return raw
    if isinstance(raw, type):
        return None
    if dataclasses.is_dataclass(raw):
        return {field.name: getattr(raw, field.name) for field in dataclasses.fields(raw)}
    if hasattr(raw, "_asdict"):
        return dict(raw._asdict())
    if hasattr(raw, "iter_rows") or hasattr(raw, "iterrows"):
        (row,) = rows if len(rows := list(rows_of(raw))) == 1 else (None,)
        return row
    if hasattr(raw, "to_dict") and hasattr(raw, "index"):  # a Series of pandas
        return dict(_without_nan(raw).to_dict())
    return None


def _without_nan(frame: Any) -> Any:
    """Return a pandas Series or DataFrame with None instead of NaN, NaT and NA."""
    return frame.astype(object).where(frame.notna(), None)


def plain(path: str, value: Any) -> Any:
    """Return a value as one of the plain types."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()  # None for NaT
    elif isinstance(value, np.timedelta64):
        value = value.astype("timedelta64[us]").item()
    elif isinstance(value, np.generic | np.ndarray) and np.ndim(value) < 2:
        value = value.tolist()
    if type(value) in _LEAVES:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, datetime):  # one of pandas, whose NaT differs from itself
        return value if value == value else None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Real) or hasattr(value, "as_integer_ratio"):  # fractions, Decimal
        return _float(path, value)
    if isinstance(value, set | frozenset) and all(isinstance(part, str) for part in value):
        return sorted(map(str.__str__, value))
    if isinstance(value, tuple | list):
        return list(value)
    if hasattr(value, "to_list"):  # a Series of polars
        return value.to_list()
    raise ValueError(f"{path} is {shown(value)}: expected {EXPECTED}")


def _float(path: str, value: Any) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} is {shown(value)}: {error}") from error


def shown(value: Any) -> str:
    """Return a short text for any value."""
    if isinstance(value, int) and not -LARGEST < value < LARGEST:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value) if len(value) <= 50 else f"{value[:50]!r}..."
    if isinstance(value, int | float | type(None)):
        return repr(value)
    return f"a value of type {type(value).__qualname__}"
