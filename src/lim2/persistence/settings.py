"""Settings and names as JSON values from which they come back with their types."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2.persistence.container import LoadError

Known = Mapping[str, type[Any]]  # the objects that a setting may be: dataclasses, by name


def encoded(value: Any, what: str, known: Known) -> Any:
    """Return a value as JSON that :func:`decoded` makes the same value of, type included.

    A ValueError says that a file has no place for ``what``.

    Examples
    --------
    >>> encoded(("red", 1, math.inf), "an arm's name", {})
    {'tuple': ['red', 1, {'float': 'inf'}]}
    >>> decoded(_, {})
    ('red', 1, inf)
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [encoded(part, what, known) for part in value]}
    if isinstance(value, list | range):
        return [encoded(part, what, known) for part in value]
    kind = type(value)
    if kind in known.values():
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"object": kind.__name__, "settings": {name: encoded(part, what, known) for name, part in parts.items()}}
    raise ValueError(
        f"{what} cannot be saved: {value!r} is of type {kind.__qualname__}; a file has place for strings, numbers, "
        "True, False, None and tuples of these"
    )


def decoded(value: Any, known: Known) -> Any:
    """Undo :func:`encoded`; a ValueError, which may be a LoadError, says what is wrong."""
    if isinstance(value, list):
        return [decoded(part, known) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(decoded(part, known) for part in value["tuple"])
    if set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
        return float(value["float"])
    if set(value) == {"object", "settings"} and isinstance(value["object"], str) and value["object"] in known:
        parts = value["settings"] if isinstance(value["settings"], dict) else {}
        return made(known[value["object"]], {name: decoded(part, known) for name, part in parts.items()})
    raise LoadError(f"the header says {str(value)[:100]}, which is no value that is known here: of a newer lim2?")


def made(kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Return a dataclass with these fields; one that is missing, because it is newer than the file, has its default."""
    known = {field.name: field.default for field in dataclasses.fields(kind)}
    required = {name for name, default in known.items() if default is dataclasses.MISSING}
    if not required <= set(settings) <= set(known):
        raise LoadError(f"the settings of {kind.__name__} must be {', '.join(known)}; got {', '.join(settings)}")
    return kind(**settings)
