"""Encode settings and names as JSON values that preserve their types."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2.persistence.container import LoadError

Classes = Mapping[str, type[Any]]  # the objects that a setting may be: dataclasses, by name


def encoded(value: Any, label: str, classes: Classes) -> Any:
    """Return a value as JSON from which :func:`decoded` restores it, including its type.

    Raise a ValueError that names ``what`` if the value cannot be saved.

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
        return {"tuple": [encoded(part, label, classes) for part in value]}
    if isinstance(value, list | range):
        return [encoded(part, label, classes) for part in value]
    kind = type(value)
    if kind in classes.values():
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {
            "object": kind.__name__,
            "settings": {name: encoded(part, label, classes) for name, part in parts.items()},
        }
    raise ValueError(
        f"{label} cannot be saved: {value!r} is of type {kind.__qualname__}; only strings, numbers, True, False, None "
        "and tuples of these can be saved"
    )


def decoded(value: Any, classes: Classes) -> Any:
    """Restore a value from the result of :func:`encoded`; raise a ValueError if it is invalid."""
    if isinstance(value, list):
        return [decoded(part, classes) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(decoded(part, classes) for part in value["tuple"])
    if set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
        return float(value["float"])
    if set(value) == {"object", "settings"} and isinstance(value["object"], str) and value["object"] in classes:
        parts = value["settings"] if isinstance(value["settings"], dict) else {}
        return build(classes[value["object"]], {name: decoded(part, classes) for name, part in parts.items()})
    raise LoadError(f"the header has an unknown value {str(value)[:100]}: was it saved by a newer lim2?")


def build(kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Return a dataclass with these fields; a field that is newer than the file gets its default."""
    fields = {field.name: field.default for field in dataclasses.fields(kind)}
    required = {name for name, default in fields.items() if default is dataclasses.MISSING}
    if not required <= set(settings) <= set(fields):
        raise LoadError(f"the settings of {kind.__name__} must be {', '.join(fields)}; got {', '.join(settings)}")
    return kind(**settings)
