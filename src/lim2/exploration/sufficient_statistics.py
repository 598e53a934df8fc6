"""Sufficient statistics of one arm, and its posterior and evidence computed from them.

The rewards r of an arm with features Z are N(Z w, noise I), and the weights w have the prior N(0, noise D^-1) with D
diagonal. All that the data say is in Z'Z, Z'r, r'r and their number. These can be added, and made to count less by a
factor.
"""

import functools
import math
from collections.abc import Iterable
from typing import Annotated, NamedTuple, cast

import numpy as np
from scipy.linalg import blas, lapack

from lim2.state import Array, Ints

_potrf, _trtri, _trsv = lapack.dpotrf, lapack.dtrtri, blas.dtrsv


class Sums(NamedTuple):
    """Sums over the weighted data of every arm: Z'WZ, Z'Wr, r'Wr, and the weights."""

    gram: Annotated[Array, "arm g g", "psd"]
    cross: Annotated[Array, "arm g"]
    squares: Annotated[Array, "arm", "nonnegative"]
    weight: Annotated[Array, "arm", "nonnegative"]


def no_sums(n_arms: int, width: int) -> Sums:
    """Return the sums over no data."""
    return Sums(np.zeros((n_arms, width, width)), np.zeros((n_arms, width)), np.zeros(n_arms), np.zeros(n_arms))


def sums_of(features: Array, rewards: Array) -> Sums:
    """Return the sums over rows of one arm."""
    squares, weight = np.dot(rewards, rewards), np.array(float(len(rewards)))
    return Sums(np.dot(features.T, features), np.dot(rewards, features), squares, weight)


def total(*sums: Sums) -> Sums:
    """Return the sums over several sets of rows; empty ones cost nothing."""
    parts = [one for one in sums if one.weight] or sums[:1]
    return parts[0] if len(parts) == 1 else Sums(*(functools.reduce(np.add, each) for each in zip(*parts, strict=True)))


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
    seen = _seen(sums)
    if len(seen) < len(precision):  # what the data say nothing of keeps its prior
        mean, root = np.zeros(len(precision)), np.diag(1.0 / np.sqrt(precision))
        if len(seen):
            mean[seen], root[np.ix_(seen, seen)] = fit(precision[seen], _of_features(sums, seen))
        return mean, root
    factor, failed = _factor(precision, sums)
    if failed:  # features so large that the start is lost in rounding: it bounds the eigenvalues from below
        values, vectors = np.linalg.eigh(sums.gram + np.diag(precision))
        root = (vectors / np.sqrt(np.maximum(values, precision.min()))).T
    else:
        root = _trtri(factor, lower=0, overwrite_c=1)[0].T  # of the upper factor U: U^-T, by rows
    return np.dot(np.dot(root, sums.cross), root), root


def log_evidence(precision: Array, noise: float, sums: Sums) -> tuple[float, float]:
    """Return the log density of an arm's rewards whose noise is known, and the sum of squares that the fit leaves.

    The density is up to a term that depends on noise and number of the rewards alone.

    Examples
    --------
    Rewards far from 0 are likelier under a wider prior of the weights:

    >>> sums = sums_of(np.ones((2, 1)), np.array([3.0, 3.0]))
    >>> [tuple(round(value, 3) for value in log_evidence(np.array([p]), 1.0, sums)) for p in (100.0, 1.0)]
    [(-8.833, 17.647), (-3.549, 6.0)]
    """
    if not sums.weight:
        return 0.0, 0.0
    factor, failed = _factor(precision, sums)
    if failed:
        return -math.inf, 0.0
    solved = _trsv(factor, sums.cross, lower=0, trans=1)
    rest = max(float(sums.squares) - float(np.dot(solved, solved)), 0.0)
    shrunk = float(np.log(factor.diagonal()).sum()) - 0.5 * float(np.log(precision).sum())
    return -shrunk - 0.5 * rest / noise, rest


def forgetting(precision: Array, noise: float, past: Sums, recent: Sums, weights: Iterable[float]) -> Array:
    """Return the log density of an arm's recent rewards if past ones count less, for several weights of these.

    The precisions are those of the weights themselves. The noise is the arm's, or that of the recent rewards about
    their fit if that is larger: then a burst of clicks, or one large purchase, is no change.

    Examples
    --------
    >>> past, recent = (sums_of(np.ones((9, 1)), np.full(9, reward)) for reward in (1.0, -1.0))
    >>> forgetting(np.ones(1), 1.0, past, recent, (1.0, 1 / 64)).round(2).tolist()
    [-8.87, -1.73]
    """
    if not past.weight or not recent.weight:  # no rewards have density 1, whatever is known
        return np.zeros(len(list(weights)))
    noise = max(noise, log_evidence(precision * noise, noise, recent)[1] / float(recent.weight))
    scaled = precision * noise
    return np.array(
        [
            log_evidence(scaled, noise, total(times(past, w), recent))[0]
            - log_evidence(scaled, noise, times(past, w))[0]
            for w in weights
        ]
    )


def width_evidence(precision: Array, noise: float, sums: Sums, widths: Array) -> Array:
    """Return the log density of an arm's rewards for several widths of the prior, as factors of its variance.

    The last feature is a constant, whose prior stays. The precisions are those of the weights themselves; those of
    the other features are equal. One eigendecomposition serves all widths.

    Examples
    --------
    Rewards that do not depend on the first feature favour a narrow prior of its weight:

    >>> Z = np.array([[1.0, 1.0], [-1.0, 1.0]] * 20)
    >>> width_evidence(np.ones(2), 1.0, sums_of(Z, np.ones(40)), np.array([1.0, 0.01])).round(2).tolist()
    [-1.86, -0.17]
    """
    gram, cross, _, weight = _of_features(sums, np.append(_seen(sums, -1), -1))
    count, towards = float(weight) + float(precision[-1]) * noise, gram[:-1, -1]  # the constant is integrated out
    values, vectors = np.linalg.eigh(gram[:-1, :-1] - np.multiply.outer(towards, towards) / count)
    values = np.maximum(values, 0.0)
    along = np.dot(cross[:-1] - towards * (cross[-1] / count), vectors)
    scaled = float(precision[0]) * noise / widths[:, None]
    out: Array = 0.5 * ((along**2 / (scaled + values)).sum(axis=1) / noise - np.log1p(values / scaled).sum(axis=1))
    return out


def constant_evidence(precision: Array, noise: float, sums: Sums, widths: Array) -> Array:
    """Return the log density of an arm's rewards for several widths of the prior of the constant, the last feature.

    The prior of the other weights stays, and these are integrated out.

    Examples
    --------
    Rewards about 0 favour a narrow prior, rewards far from 0 a wide one:

    >>> Z = np.array([[1.0, 1.0], [-1.0, 1.0]] * 20)
    >>> for mean in (0.0, 1.0):
    ...     sums = sums_of(Z, np.full(40, mean))
    ...     constant_evidence(np.ones(2), 1.0, sums, np.array([1.0, 0.01])).round(2).tolist()
    [-1.86, -0.17]
    [17.66, 5.55]
    """
    seen = np.append(_seen(sums, -1), -1)
    if len(seen) > 1:
        precision, sums = precision[seen], _of_features(sums, seen)
    factor, failed = _factor(precision[:-1] * noise, sums._replace(gram=sums.gram[:-1, :-1]))
    if failed:
        return np.zeros(len(widths))
    towards, along = (_trsv(factor, part[:-1], lower=0, trans=1) for part in (sums.gram[-1], sums.cross))
    count = max(float(sums.weight) - float(np.dot(towards, towards)), 0.0)
    cross = float(sums.cross[-1]) - float(np.dot(towards, along))
    scaled = float(precision[-1]) * noise / widths
    out: Array = 0.5 * (cross**2 / (scaled + count) / noise - np.log1p(count / scaled))
    return out


def change(densities: Array, weights: Array) -> tuple[float, Array]:
    """Return the weights of the past per arm under which recent rewards are likeliest, and by how many nats.

    ``densities`` has a row per arm and a column per weight of the past, the first of which is 1: what
    :func:`forgetting` gives. Either all arms change alike, or some alone, each at a cost of log(arms) + 1 nats: at
    every look there are many single arms that may seem to change.

    Examples
    --------
    >>> weights = np.array([1.0, 0.1])
    >>> alike = np.array([[-5.0, -1.0], [-5.0, -2.0]])
    >>> alone = np.array([[-5.0, -1.0], [-5.0, -9.0]])
    >>> [(round(nats, 2), found.tolist()) for nats, found in (change(rows, weights) for rows in (alike, alone))]
    [(7.0, [0.1, 0.1]), (2.31, [0.1, 1.0])]
    """
    n_arms, gains = len(densities), densities - densities[:, :1]
    alike = gains.sum(axis=0)
    single = gains.max(axis=1) - math.log(n_arms) - 1.0
    alone = float(np.maximum(single, 0.0).sum())
    if alone > alike.max():
        return alone, np.where(single > 0.0, weights[gains.argmax(axis=1)], 1.0)
    return float(alike.max()), np.full(n_arms, weights[alike.argmax()])


def _seen(sums: Sums, end: int | None = None) -> Ints:
    """Return the features before one that were not 0 in all data of an arm: the others do not change anything."""
    return np.flatnonzero(sums.gram.diagonal()[:end])


def _of_features(sums: Sums, features: Ints) -> Sums:
    """Return the sums of one arm over some features."""
    return sums._replace(gram=sums.gram[np.ix_(features, features)], cross=sums.cross[features])


def _factor(precision: Array, sums: Sums) -> tuple[Array, int]:
    """Return the upper Cholesky factor of D + Z'Z, and whether there is none."""
    information = sums.gram.copy()
    information.ravel()[:: len(information) + 1] += precision
    return cast(tuple[Array, int], _potrf(information.T, lower=0, clean=1, overwrite_a=1))
