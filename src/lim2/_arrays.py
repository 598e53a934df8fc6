"""Arrays: of what callers give, and as state that survives copying and in which an arm is a row."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _owned(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return value.copy()
    if isinstance(value, dict):
        return {name: _owned(part) for name, part in value.items()}
    return value


def real_numbers(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return values as an array of integers, floats or truth values; ValueError tells what ``what`` holds else.

    Examples
    --------
    >>> real_numbers([1, 2.5], "a context")
    array([1. , 2.5])
    >>> real_numbers(["one"], "a context")
    Traceback (most recent call last):
    ValueError: a context must hold real numbers only, got <U3 values
    """
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{what} must be a regular array of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{what} must hold real numbers only, got {array.dtype} values")
    return array


def with_row(rows: NDArray[Any], row: ArrayLike) -> NDArray[Any]:
    """Return a new array with one more row, of which a number gives all values.

    Examples
    --------
    >>> with_row(np.array([[1.0, 2.0]]), 0.0).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    out = np.empty((len(rows) + 1, *rows.shape[1:]), dtype=rows.dtype)
    out[:-1] = rows
    out[-1] = row
    return out


def without_row(rows: NDArray[Any], row: int) -> NDArray[Any]:
    """Return a new array with one row less.

    Examples
    --------
    >>> without_row(np.array([[1.0, 2.0], [3.0, 4.0]]), 0).tolist()
    [[3.0, 4.0]]
    """
    return np.concatenate((rows[:row], rows[row + 1 :]))


class OwnsArrays:
    """An object whose arrays are its own after unpickling.

    Unpickled arrays can be read-only views of memory that belongs to others: of a file that joblib has mapped, or of
    buffers that were handed over out of band. BLAS writes through such views, and crashes or corrupts; so they are
    copied on arrival.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: _owned(value) for name, value in state.items()})
