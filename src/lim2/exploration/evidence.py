"""Sufficient statistics of one arm, and its posterior and evidence computed from them.

The rewards r of an arm with features Z are N(Z w, noise I), the weights w are N(0, noise D^-1) at the start with D
diagonal, and the noise is InvGamma(a, b). All that the data say is in Z'Z, Z'r, r'r and their number. These can be
added, and made to count less by a factor.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from lim2.exploration.sums import Sums
from lim2.state import Array

_potrf, _trtri, _trsv = lapack.dpotrf, lapack.dtrtri, blas.dtrsv


class Start(NamedTuple):
    """Prior of an arm: precisions of the weights in units of the noise, and the noise."""

    precision: Array  # D, (g,)
    a: float
    b: float


def sums_of(features: Array, rewards: Array) -> Sums:
    """Return the sums over rows of one arm."""
    squares, weight = np.dot(rewards, rewards), np.array(float(len(rewards)))
    return Sums(np.dot(features.T, features), np.dot(rewards, features), squares, weight)


def total(one: Sums, other: Sums) -> Sums:
    """Return the sums over two sets of rows."""
    return Sums(*(part + more for part, more in zip(one, other, strict=True)))


def times(sums: Sums, keep: float) -> Sums:
    """Return the sums over rows each of which counts ``keep``."""
    return Sums(*(keep * part for part in sums))


def of_arm(sums: Sums, arm: int) -> Sums:
    """Return the sums of one arm."""
    return Sums(*(part[arm] for part in sums))


def block(sums: Sums, first: int) -> Sums:
    """Return the sums of one arm over the features from one on."""
    return sums._replace(gram=sums.gram[first:, first:], cross=sums.cross[first:])


def centred(sums: Sums, centre: float) -> Sums:
    """Return the sums of one arm's rewards minus a number; the last feature is a constant 1."""
    gram, cross, squares, weight = sums
    least = squares - centre * (2.0 * cross[-1] - centre * weight)
    return Sums(gram, cross - centre * gram[-1], np.maximum(least, 0.0), weight)


def fit(precision: Array, sums: Sums) -> tuple[Array, Array]:
    """Return the mean of the weights and a root of their covariance: root' root = (D + Z'Z)^-1.

    Examples
    --------
    >>> sums = sums_of(np.ones((3, 1)), np.array([4.0, 4.0, 4.0]))
    >>> mean, root = fit(np.ones(1), sums)
    >>> mean.tolist(), (root.T @ root).tolist()
    ([3.0], [[0.25]])
    """
    factor, failed = _factor(precision, sums)
    if failed:  # features so large that the start is lost in rounding: it bounds the eigenvalues from below
        values, vectors = np.linalg.eigh(sums.gram + np.diag(precision))
        root = (vectors / np.sqrt(np.maximum(values, precision.min()))).T
    else:
        root = _trtri(factor, lower=0, overwrite_c=1)[0].T  # of the upper factor U: U^-T, by rows
    return np.dot(np.dot(root, sums.cross), root), root


def log_evidence(start: Start, sums: Sums) -> float:
    """Return the log density of an arm's rewards, which are multivariate Student-t.

    Examples
    --------
    Rewards far from what is believed are likelier under a wider belief:

    >>> sums = sums_of(np.ones((2, 1)), np.array([3.0, 3.0]))
    >>> [round(log_evidence(Start(np.array([precision]), 6.0, 6.0), sums), 3) for precision in (100.0, 1.0)]
    [-8.179, -5.225]
    """
    (precision, a, b), half = start, 0.5 * float(sums.weight)
    if not half:
        return 0.0
    factor, failed = _factor(precision, sums)
    if failed:
        return -math.inf
    solved = _trsv(factor, sums.cross, lower=0, trans=1)
    rest = max(float(sums.squares) - float(np.dot(solved, solved)), 0.0)
    shrunk = float(np.log(factor.diagonal()).sum()) - 0.5 * float(np.log(precision).sum())
    constant = a * math.log(b) + math.lgamma(a + half) - math.lgamma(a) - half * math.log(2.0 * math.pi)
    return constant - shrunk - (a + half) * math.log(b + 0.5 * rest)


def forgetting(start: Start, older: Sums, recent: Sums, factors: Sequence[float]) -> list[float]:
    """Return the log density of recent rewards, had what is older counted less by each factor.

    Examples
    --------
    >>> older, recent = (sums_of(np.ones((9, 1)), np.full(9, reward)) for reward in (1.0, -1.0))
    >>> [round(density, 2) for density in forgetting(Start(np.ones(1), 6.0, 1.0), older, recent, (1.0, 64.0))]
    [-27.98, -5.42]
    """
    if not older.weight or not recent.weight:  # no rewards have density 1, whatever is known
        return [0.0] * len(factors)
    less = [times(older, 1.0 / factor) for factor in factors]
    return [log_evidence(start, total(known, recent)) - log_evidence(start, known) for known in less]


def split(features: Array, rewards: Array, first: NDArray[np.bool_]) -> tuple[Sums, Sums]:
    """Return the sums over some rows, and over the others."""
    return sums_of(features[first], rewards[first]), sums_of(features[~first], rewards[~first])


def _factor(precision: Array, sums: Sums) -> tuple[Array, int]:
    """Return the upper Cholesky factor of D + Z'Z, and whether there is none."""
    information = sums.gram.copy()
    information.ravel()[:: len(information) + 1] += precision
    return cast(tuple[Array, int], _potrf(information.T, lower=0, clean=1, overwrite_a=1))
