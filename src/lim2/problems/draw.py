"""The arithmetic that problems share. All of it gives the same bits on every machine."""

from __future__ import annotations

import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.problem import Array

Standardize = Literal["sample", "online"] | None


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return a generator for one purpose, so that drawing more of one thing leaves the others as they were.

    Parameters
    ----------
    seed
        The problem's seed.
    purpose
        Any word; another word gives an independent stream.

    Examples
    --------
    >>> stream(0, "rows").integers(1000), stream(0, "noise").integers(1000)
    (np.int64(571), np.int64(927))
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def draw_rows(
    available: int, rounds: int | Literal["all"], seed: int, *, replace: bool = False, name: str = "the data"
) -> NDArray[np.int64]:
    """Return the numbers of the rows to play, in the order in which to play them.

    Parameters
    ----------
    available
        How many rows there are.
    rounds
        How many to draw.
    seed
        The problem's seed.
    replace
        Whether a row may come again.
    name
        The problem, for the message when too many are asked for.

    Examples
    --------
    >>> draw_rows(5, "all", seed=0)
    array([2, 0, 3, 4, 1])
    >>> draw_rows(5, 6, seed=0)
    Traceback (most recent call last):
    ValueError: the data has 5 rows, but 6 rounds were asked for; ask for at most 5, or pass replace=True to ...
    """
    rng = stream(seed, "rows")
    n = available if rounds == "all" else rounds
    if replace:
        return rng.integers(available, size=n)
    if n > available:
        raise ValueError(
            f"{name} has {available} rows, but {n} rounds were asked for; ask for at most {available}, or pass "
            "replace=True to draw rows again"
        )
    return rng.permutation(available)[:n]


def standardized(contexts: NDArray[Any], how: Standardize) -> Array:
    """Return the contexts with mean 0 and standard deviation 1 in every column; a constant column becomes 0.

    Parameters
    ----------
    contexts
        (rounds, n_features).
    how
        `"sample"`: moments over all the rows given, as in the paper. `"online"`: each row by the moments of the rows
        up to and including it, so that nothing of the future is used. None: as they are.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> standardized(X, "sample").T.round(3)
    array([[-0.926, -0.463,  1.389]])
    >>> standardized(X, "online").T.round(3)
    array([[0.   , 1.   , 1.389]])
    """
    X = np.asarray(contexts, dtype=np.float64)
    if how is None:
        return X
    if how == "sample":
        mean = X.mean(axis=0)
        return _scaled(X - mean, X.std(axis=0), mean)
    if how == "online":
        counts = np.arange(1, len(X) + 1, dtype=np.float64)[:, None]
        # Moments about the first row: subtracting squares of large, nearly equal numbers would lose all digits.
        shifted = X - X[0]
        mean = np.cumsum(shifted, axis=0) / counts
        variance = np.maximum(np.cumsum(shifted**2, axis=0) / counts - mean**2, 0.0)
        return _scaled(shifted - mean, np.sqrt(variance), X[0] + mean)
    raise ValueError(f'standardize must be "sample", "online" or None, not {how!r}')


def _scaled(centred: Array, std: Array, mean: Array) -> Array:
    # Rounding leaves a constant column a deviation of some ulps of its size; dividing by that would invent a signal.
    constant = std <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    scaled: Array = np.where(constant, 0.0, centred) / np.where(constant, 1.0, std)
    return scaled


def ordered_product(X: Array, W: Array) -> Array:
    """Return X @ W, summed in the order of the columns of X.

    BLAS sums in an order of its own on every processor, so its last bits differ between machines.

    Parameters
    ----------
    X
        (n, d).
    W
        (d, k).

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


def one_per_right_arm(labels: NDArray[np.int64], n_arms: int) -> Array:
    """Return the rewards of a classification problem: 1 for the arm that is the label, else 0.

    Parameters
    ----------
    labels
        The class of each round, 0 .. n_arms - 1.
    n_arms
        The number of classes.

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
