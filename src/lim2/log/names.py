"""Convert names of arms to JSON and back, preserving type and value."""

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

_AS_THEY_ARE = (str, int)
_STRINGS = {str}
_encode = json.JSONEncoder(separators=(",", ":")).encode  # made once: `json.dumps` would make one each time
_encode_string = json.encoder.encode_basestring_ascii


def dumps(names: Iterable[Hashable]) -> str:
    """Return names of arms as a JSON array.

    Parameters
    ----------
    names
        Strings, whole numbers, finite floats, booleans, None, and tuples of them.

    Examples
    --------
    >>> dumps(["red", 1, 1.0, True, None, ("red", 1)])
    '["red",1,1.0,true,null,["red",1]]'
    >>> dumps([frozenset()])
    Traceback (most recent call last):
    ValueError: the arm frozenset() cannot be logged: names must be strings, numbers, booleans, None or tuples of them
    """
    listed: list[Any] = list(names)
    if set(map(type, listed)) == _STRINGS:  # nearly always
        return f"[{','.join(map(_encode_string, listed))}]"
    return _encode([name if type(name) in _AS_THEY_ARE else _plain(name) for name in listed])


def loads(text: str) -> tuple[Hashable, ...]:
    """Return the names that :func:`dumps` wrote.

    Parameters
    ----------
    text
        A JSON array.

    Examples
    --------
    >>> loads('["red",1,1.0,true,null,["red",1]]')
    ('red', 1, 1.0, True, None, ('red', 1))
    """
    return tuple(_name(value) for value in json.loads(text))


def restored(names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return names as :func:`loads` would give them back: with the types of Python, not of NumPy.

    Parameters
    ----------
    names
        Names of arms.

    Examples
    --------
    >>> restored([np.str_("red"), np.int64(1), ("red", np.float64(0.5))])
    ('red', 1, ('red', 0.5))
    """
    return tuple([name if type(name) in _AS_THEY_ARE else _name(_plain(name)) for name in names])


def _plain(name: Any) -> Any:
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return [_plain(part) for part in name]
    if name is None or isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name)):
        return name
    raise ValueError(
        f"the arm {name!r} cannot be logged: names must be strings, numbers, booleans, None or tuples of them"
    )


def _name(value: Any) -> Hashable:
    return tuple(_name(part) for part in value) if isinstance(value, list) else value
