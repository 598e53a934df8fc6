"""Sufficient statistics of one arm, and what follows from them and a start: beliefs, and how likely its rewards were.

The rewards r of an arm with features Z are N(Z w, noise I), the weights w are N(0, noise D^-1) at the start with D
diagonal, and the noise is InvGamma(a, b). All that the data say is in Z'Z, Z'r, r'r and their number. These can be
added, and made to count less by a factor.
"""

import math
from typing import cast

import numpy as np
from scipy.linalg import blas, lapack

from lim2.exploration.sums import Sums
from lim2.state import Array

_potrf, _trtri, _trsv = lapack.dpotrf, lapack.dtrtri, blas.dtrsv


def sums_of(features: Array, rewards: Array) -> Sums:
    """Return the sums over rows of one arm."""
    squares, weight = np.dot(rewards, rewards), np.float64(len(rewards))
    return Sums(np.dot(features.T, features), np.dot(rewards, features), squares, weight)


def total(first: Sums, second: Sums, keep: float = 1.0) -> Sums:
    """Return the sums over two sets of rows, of which the first counts ``keep``."""
    return Sums(*(keep * one + other for one, other in zip(first, second, strict=True)))


def of_arm(sums: Sums, arm: int) -> Sums:
    """Return the sums of one arm."""
    return Sums(*(part[arm] for part in sums))


def centred(sums: Sums, centre: float) -> Sums:
    """Return the sums of rewards minus a number; the last feature is a constant 1."""
    gram, cross, squares, weight = sums
    least = squares - 2.0 * centre * cross[-1] + centre * centre * weight
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
        root = _trtri(factor, lower=0)[0].T  # U^-T, row-major
    return np.dot(np.dot(root, sums.cross), root), root


def log_evidence(precision: Array, sums: Sums, a: float, b: float) -> float:
    """Return the log density of an arm's rewards, a multivariate Student-t, up to what does not depend on the start.

    Examples
    --------
    Rewards far from what is believed are likelier under a wider belief:

    >>> sums = sums_of(np.ones((2, 1)), np.array([3.0, 3.0]))
    >>> [round(log_evidence(np.array([precision]), sums, 6.0, 6.0), 3) for precision in (100.0, 1.0)]
    [-8.179, -5.225]
    """
    if not sums.weight:
        return 0.0
    factor, failed = _factor(precision, sums)
    if failed:
        return -math.inf
    solved = _trsv(factor, sums.cross, lower=0, trans=1)
    rest = max(float(sums.squares) - float(np.dot(solved, solved)), 0.0)
    half = 0.5 * float(sums.weight)
    ratio = float(np.log(factor.diagonal()).sum()) - 0.5 * float(np.log(precision).sum())
    known = a * math.log(b) + math.lgamma(a + half) - math.lgamma(a) - half * math.log(2.0 * math.pi)
    return known - ratio - (a + half) * math.log(b + 0.5 * rest)


def _factor(precision: Array, sums: Sums) -> tuple[Array, int]:
    """Return the upper Cholesky factor of D + Z'Z, and whether there is none."""
    information = sums.gram.copy()
    information.ravel()[:: len(information) + 1] += precision
    return cast(tuple[Array, int], _potrf(information.T, lower=0, clean=1, overwrite_a=1))
