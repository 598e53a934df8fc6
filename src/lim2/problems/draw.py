"""The arithmetic that problems share. All of it gives the same bits on every machine."""

from __future__ import annotations

import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.problem import Array

Standardize = Literal["sample", "online"] | None


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return a separate generator for one purpose, so that draws for one do not change the others.

    Examples
    --------
    >>> stream(0, "rows").integers(1000), stream(0, "noise").integers(1000)
    (np.int64(571), np.int64(927))
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def draw_rows(
    available: int,
    rounds: int | Literal["all"],
    seed: int,
    *,
    replace: bool = False,
    name: str = "the data",
) -> NDArray[np.int64]:
    """Return the numbers of the rows to play, in the order in which to play them.

    Examples
    --------
    >>> draw_rows(5, "all", seed=0)
    array([2, 0, 3, 4, 1])
    >>> draw_rows(5, 6, seed=0)
    Traceback (most recent call last):
    ValueError: the data has 5 rows, but 6 rounds were asked for; ask for at most 5, or pass replace=True ...
    """
    rng = stream(seed, "rows")
    n = available if rounds == "all" else rounds
    if replace:
        return rng.integers(available, size=n)
    if n > available:
        raise ValueError(
            f"{name} has {available} rows, but {n} rounds were asked for; ask for at most {available}, or "
            "pass replace=True to draw rows more than once"
        )
    return rng.permutation(available)[:n]


def standardized(contexts: NDArray[Any], how: Standardize) -> Array:
    """Return the contexts with mean 0 and standard deviation 1 in every column.

    `"sample"`: moments over all rows, as in the paper. `"online"`: over the rows up to and including each one, so
    that nothing of the future is used. None: as they are.

    A constant column becomes 0. A missing value (NaN) becomes the mean of what its column has, which is 0
    once standardised.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> standardized(X, "sample").T.round(3)
    array([[-0.926, -0.463,  1.389]])
    >>> standardized(X, "online").T.round(3)
    array([[0.   , 1.   , 1.389]])
    >>> standardized(np.array([[1.0], [np.nan], [3.0]]), None).T
    array([[1., 2., 3.]])
    """
    if how not in ("sample", "online", None):
        raise ValueError(f'standardize must be "sample", "online" or None, not {how!r}')
    # Row after row in memory: then NumPy adds row to row, in an order that does not depend on the processor.
    X = np.array(contexts, dtype=np.float64, order="C")
    missing = np.isnan(X)
    some_missing = bool(missing.any())
    if how is None:
        return np.where(missing, _mean_of_present(X, missing), X) if some_missing else X
    # Moments about the first value: squares of large, nearly equal numbers would lose all digits.
    origin = _first_present(X, missing) if some_missing else X[0].copy()
    X -= origin
    if some_missing:
        X[missing] = 0.0
    present = (~missing).astype(np.float64) if some_missing else None
    return _by_sample(X, origin, present) if how == "sample" else _online(X, origin, present)


def _by_sample(X: Array, origin: Array, present: Array | None) -> Array:
    counts = np.float64(len(X)) if present is None else np.maximum(present.sum(axis=0), 1.0)
    mean = X.sum(axis=0) / counts
    X -= mean
    if present is not None:
        X[present == 0] = 0.0
    std = np.sqrt((X**2).sum(axis=0) / counts)
    constant = _is_constant(std, origin + mean)
    X /= np.where(constant, 1.0, std)
    X[:, constant] = 0.0
    return X


def _online(X: Array, origin: Array, present: Array | None) -> Array:
    ones = np.ones((len(X), 1)) if present is None else present
    counts = np.maximum(np.cumsum(ones, axis=0), 1.0)
    mean = np.cumsum(X, axis=0) / counts
    std = np.sqrt(np.maximum(np.cumsum(X**2, axis=0) / counts - mean**2, 0.0))
    constant = _is_constant(std, origin + mean)
    scaled = np.where(constant, 0.0, X - mean) / np.where(constant, 1.0, std)
    if present is not None:
        scaled[present == 0] = 0.0
    return scaled


def _is_constant(std: Array, mean: Array) -> NDArray[np.bool_]:
    # Rounding leaves a constant column a deviation of some ulps of its size; dividing by that would invent a
    # signal. In `_online` a variance below the square root of that is all rounding, too.
    return std <= 1e-12 * np.maximum(np.abs(mean), 1e-300)


def _mean_of_present(X: Array, missing: NDArray[np.bool_]) -> Array:
    counts = np.maximum((~missing).sum(axis=0), 1)
    mean: Array = np.where(missing, 0.0, X).sum(axis=0) / counts
    return mean


def _first_present(X: Array, missing: NDArray[np.bool_]) -> Array:
    first = X[missing.argmin(axis=0), np.arange(X.shape[1])]
    return np.where(np.isnan(first), 0.0, first)  # a column may have nothing at all


def ordered_product(X: Array, W: Array) -> Array:
    """Return X @ W, summed in the order of the columns of X.

    BLAS sums in an order of its own on every processor, so its last bits differ between machines.

    Examples
    --------
    >>> import numpy as np
    >>> ordered_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    out = np.zeros((X.shape[0], W.shape[1]))
    for column, weights in zip(X.T, W, strict=True):
        out += column[:, None] * weights
    return out


def one_per_right_arm(labels: NDArray[Any], n_arms: int) -> Array:
    """Return the rewards of a classification problem: 1 for the arm that is the label, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> one_per_right_arm(np.array([1, 0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    rewards = np.zeros((len(labels), n_arms))
    rewards[np.arange(len(labels)), labels] = 1.0
    return rewards
