"""Names of arms as JSON, and back: type and value stay as they were."""

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np


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
    return json.dumps([_plain(name) for name in names], separators=(",", ":"))


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


def dumps_change(name: Hashable, like: Hashable | None = None, features: dict[str, Any] | None = None) -> str:
    """Return a change of arms as a JSON array.

    Parameters
    ----------
    name
        Of the arm that comes or goes.
    like
        An arm that it starts as; None: none.
    features
        Of the arm, as JSON; None: none.

    Examples
    --------
    >>> dumps_change("red", "blue"), dumps_change("red", features={"price": 9.9})
    ('["red","blue"]', '["red",{"price":9.9}]')
    """
    parts = json.loads(dumps([name] if like is None else [name, like]))
    return json.dumps(parts if features is None else [*parts, features], separators=(",", ":"))


def loads_change(text: str) -> tuple[tuple[Hashable, ...], dict[str, Any]]:
    """Return the arguments and the keyword arguments of a change that :func:`dumps_change` wrote.

    Parameters
    ----------
    text
        A JSON array.

    Examples
    --------
    >>> loads_change('["red",{"price":9.9}]')
    (('red',), {'features': {'price': 9.9}})
    """
    parts = json.loads(text)
    options = {"features": parts.pop()} if isinstance(parts[-1], dict) else {}
    return tuple(map(_name, parts)), options


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
