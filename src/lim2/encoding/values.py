"""Kinds of values in a context: number, time, embedding, category, list of categories, or missing."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2.checks import LARGEST
from lim2.encoding import times
from lim2.encoding.reading import LENGTH, check_path, plain, shown

NUMBER, TIME, EMBEDDING, CATEGORY, LIST, MISSING = "number", "time", "embedding", "category", "list", "missing"
MEASURED = frozenset({NUMBER, TIME, EMBEDDING})  # what has columns of its own

MAX_LIST_VALUES = 4096  # values in one list
LARGEST_LISTED = 1e6  # sum of the sizes in an embedding, which is taken as it is

NUMBERS = frozenset({int, float})
_TOKENS = frozenset({str, bool, type(None)})


def read(path: str, value: Any, dated: bool = True) -> tuple[str, Any]:
    """Return the kind of a value and its converted form; raise a ValueError that names the path if it is invalid.

    If ``dated``, a string in ISO format is a time; otherwise all strings are categories.

    Examples
    --------
    >>> read("age", 31), read("country", "AT"), read("tags", ["new", "red"]), read("tags", [])
    (('number', 31.0), ('category', 'AT'), ('list', ['new', 'red']), ('missing', None))
    >>> read("age", float("nan"))
    Traceback (most recent call last):
    ValueError: age is nan: a number must be finite and below 1e+30; use None for a missing number
    """
    if type(path) is not str or len(path) > LENGTH:
        check_path(path)
    kind = type(value)
    if kind is float or kind is int:
        return NUMBER, float(value) if -LARGEST < value < LARGEST else number(path, value)
    if kind is str:
        at = times.read(value) if dated else None
        return (CATEGORY, value) if at is None else (TIME, at)
    if kind is list:
        numeric, values = list_of(path, value)
        return (MISSING, None) if not values else (EMBEDDING if numeric else LIST, values)
    if value is None:
        return MISSING, None
    return (CATEGORY, value) if kind is bool else (TIME, times.instant(value))


def size_of(kind: str, content: Any) -> int:
    """Return the number of columns that a number, a time or an embedding needs."""
    return 1 if kind == NUMBER else times.SIZE if kind == TIME else len(content)


def number(path: str, value: float) -> float:
    """Return a number as a float; raise a ValueError if it is not finite or too large."""
    if not -LARGEST < value < LARGEST:
        raise ValueError(
            f"{path} is {shown(value)}: a number must be finite and below {LARGEST:g}; use None for a missing number"
        )
    return float(value)


def list_of(path: str, values: list[Any]) -> tuple[bool, list[Any]]:
    """Return whether a list holds numbers, and its values: numbers, or else strings, booleans and None.

    Examples
    --------
    >>> list_of("tags", ["new", "red"]), list_of("embedding", [0.5, 1])
    ((False, ['new', 'red']), (True, [0.5, 1]))
    >>> list_of("tags", ["new", 1])
    Traceback (most recent call last):
    ValueError: tags holds 'new' and 1: a list must hold strings or numbers, not both
    """
    if len(values) > MAX_LIST_VALUES:
        raise ValueError(f"{path} is a list of {len(values)} values: at most {MAX_LIST_VALUES} are allowed")
    kinds = set(map(type, values))
    if not (kinds <= _TOKENS or kinds <= NUMBERS):
        values = [_element(f"{path}[{place}]", value) for place, value in enumerate(values)]
        kinds = set(map(type, values))
    if kinds <= _TOKENS:
        return False, values
    if not kinds <= NUMBERS:
        _refuse_list(path, values)
    if not _small(values):
        for place, value in enumerate(values):
            number(f"{path}[{place}]", value)
        raise ValueError(
            f"the numbers of {path} add up to more than {LARGEST_LISTED:g}: a list of numbers is an embedding and is "
            "not scaled. Scale it yourself, or convert the numbers to strings if they are names."
        )
    return True, values


def _element(path: str, value: Any) -> Any:
    if isinstance(value, Mapping | list | tuple | np.ndarray):
        raise ValueError(f"{path} is {shown(value)}: a list must hold only strings or only numbers")
    return plain(path, value)


def _small(values: list[float]) -> bool:
    """Return whether the numbers of an embedding are finite and not too large."""
    try:
        return sum(map(abs, values)) <= LARGEST_LISTED
    except OverflowError:  # a whole number beyond all floats, beside a float
        return False


def _refuse_list(path: str, values: list[Any]) -> None:
    strange = next((value for value in values if type(value) not in _TOKENS | NUMBERS), None)
    if strange is not None:
        raise ValueError(f"{path} holds {shown(strange)}: expected a list of strings or of numbers")
    one = next(value for value in values if type(value) in _TOKENS)
    other = next(value for value in values if type(value) in NUMBERS)
    raise ValueError(f"{path} holds {shown(one)} and {shown(other)}: a list must hold strings or numbers, not both")
