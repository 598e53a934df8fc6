"""Checks of settings, contexts and rewards: each returns the converted value or raises a ValueError."""

import operator
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from lim2.state import Array

# Contexts and rewards must stay below this: fourth powers of them, which likelihood matching squares once more, are
# still finite.
LARGEST = 1e30

norm = blas.dnrm2  # of one axis of floats; NaN if one is NaN


def plain(value: Any) -> Any:
    """Return settings with Python numbers instead of NumPy scalars, which may have another precision.

    Examples
    --------
    >>> plain(np.float32(0.5)), plain("thompson")
    (0.5, 'thompson')
    """
    if isinstance(value, np.generic):
        return value.item()
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    changes = {name: new for name, old in parts.items() if (new := plain(old)) is not old}
    return replace(value, **changes) if changes else value


def shown(value: Any) -> str:
    """Return a value for an error message, shortened if it is long.

    Examples
    --------
    >>> shown("red"), shown(10**400)
    ("'red'", '1000000000000000000000000000000000000000... (int)')
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print whole numbers of thousands of digits
        return f"a very large {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:40]}... ({type(value).__name__})"


def positive_int(name: str, value: int, least: int = 1, most: int = 2**40) -> int:
    """Return a setting as an int within bounds; raise a ValueError if it is none."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from error
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if number > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(number)}")
    return number


def share(name: str, value: float) -> float:
    """Return a setting that must be at least 0 and below 1; raise a ValueError if it is not."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must be a number, at least 0 and below 1, got {value!r}")
    return float(value)


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """Return a setting that must be one of a few words; raise a ValueError if it is not."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def number(name: str, value: float, *, above: float | None = None, least: float | None = None) -> float:
    """Return a setting as a finite float within its bound; raise a ValueError if it is none."""
    try:
        result = float("" if isinstance(value, str | bytes) else value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number, got {value!r}") from error
    if above is not None and not above < result < float("inf"):
        raise ValueError(f"{name} must be finite and above {above:g}, got {value!r}")
    if least is not None and not least <= result < float("inf"):
        raise ValueError(f"{name} must be finite and at least {least:g}, got {value!r}")
    return result


def real_numbers(values: ArrayLike, label: str) -> NDArray[Any]:
    """Return values as an array of integers, floats or booleans; raise a ValueError that names ``what`` otherwise.

    Examples
    --------
    >>> real_numbers([1, 2.5], "a context")
    array([1. , 2.5])
    >>> real_numbers(["one"], "a context")
    Traceback (most recent call last):
    ValueError: a context must hold real numbers only, got <U3 values
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{label} has masked values: fill them in (values.filled(...)), or leave out their rows")
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{label} must be a regular array of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{label} must hold real numbers only, got {array.dtype} values")
    return array


def as_floats(values: ArrayLike, label: str) -> Array:
    """Return values as float64; an array of float64 is not copied."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    return real_numbers(values, label).astype(np.float64, copy=False)


def as_float(value: Any, label: str = "a reward") -> float:
    """Return one real number."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "fiub" or value is np.ma.masked:
        raise ValueError(f"{label} must be one real number, got {shown(value)}")
    return float(array)


def size_of(x: NDArray[Any]) -> float:
    """Return the norm of all values, NaN if one is NaN; integers are always finite and small enough."""
    if x.dtype.kind in "iub":
        return 0.0
    return float(norm(x if x.ndim == 1 else x.ravel()))


def why_not(x: NDArray[Any], label: str) -> str:
    """Return the error message for values that are not finite or too large."""
    bad = np.argwhere(~np.isfinite(x))
    if bad.size:
        where = tuple(bad[0].tolist())
        position = where[0] if len(where) == 1 else where
        return (
            f"{label} has {x[where]} at position {position}: all values must be finite. Replace missing values first."
        )
    return f"{label} is too large: its norm is {size_of(x):.3g}, it must be below {LARGEST:g}. Scale it."
