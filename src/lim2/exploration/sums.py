"""Sufficient statistics: sums over the data, from which posteriors can be recomputed.

A rank-one update can add a tuple to a posterior, but it cannot make all earlier ones count less under a prior that
stays: that changes every direction. Here the sums fade, and a posterior is solved for from its prior and its sums, in
O(g^3).
"""

from typing import Annotated, NamedTuple

import numpy as np
from scipy.linalg import lapack

from lim2.exploration.posterior import Posterior
from lim2.state import Array


class Sums(NamedTuple):
    """Sums over the weighted data of every arm: Z'WZ, Z'Wr, r'Wr, and the weights."""

    gram: Annotated[Array, "arm g g", "psd"]
    cross: Annotated[Array, "arm g"]
    squares: Annotated[Array, "arm", "nonnegative"]
    weight: Annotated[Array, "arm", "nonnegative"]


def no_sums(n_arms: int, width: int) -> Sums:
    """Return the sums over no data."""
    return Sums(np.zeros((n_arms, width, width)), np.zeros((n_arms, width)), np.zeros(n_arms), np.zeros(n_arms))


def added(sums: Sums, arm: int, z: Array, reward: float, keep: float = 1.0) -> Sums:
    """Add one (features, reward) to an arm's sums, after all that was there counts less by the factor ``keep``."""
    gram, cross, squares, weight = (part * keep for part in sums)
    gram[arm] += np.multiply.outer(z, z)
    cross[arm] += reward * z
    squares[arm] += reward * reward
    weight[arm] += 1.0
    return Sums(gram, cross, squares, weight)


def solve(sums: Sums, precision: float, a0: float, b0: float) -> Posterior:
    """Recompute all posteriors, with prior mean 0 and one prior precision for all features.

    Examples
    --------
    Two rewards in a row, the first of which counts half by now:

    >>> sums = no_sums(n_arms=1, width=1)
    >>> for reward in (4.0, 1.0):
    ...     sums = added(sums, 0, np.array([1.0]), reward, keep=0.5)
    >>> posterior = solve(sums, precision=1.0, a0=6.0, b0=6.0)
    >>> posterior.cov[0].round(9).tolist(), posterior.mu[0].round(9).tolist()  # 1 / (1 + 0.5 + 1), (0.5 * 4 + 1) / 2.5
    ([[0.4]], [1.2])
    """
    cov = solve_cov(sums, precision)
    mu, b = np.empty_like(sums.cross), np.empty_like(sums.squares)
    for arm in range(len(mu)):
        mu[arm], squares = solve_mean(sums, arm, cov[arm], precision)
        b[arm] = b0 + 0.5 * squares
    return Posterior(mu, cov, a0 + 0.5 * sums.weight, b)


def solve_cov(sums: Sums, precision: float) -> Array:
    """Return every arm's covariance from its prior and its sums."""
    out = np.empty_like(sums.gram)
    for arm, gram in enumerate(sums.gram):
        information = gram.copy()
        information.ravel()[:: len(information) + 1] += precision
        factor, failed = lapack.dpotrf(information.T, lower=1, clean=1)
        if failed:  # features so large that the prior is lost in rounding: it bounds the eigenvalues from below
            values, vectors = np.linalg.eigh(information)
            root = vectors / np.sqrt(np.maximum(values, precision))
        else:
            root = lapack.dtrtri(factor, lower=1)[0].T
        np.dot(root, root.T, out=out[arm])
    return out


def solve_mean(
    sums: Sums, arm: int, cov: Array, precision: float, prior_mean: Array | None = None
) -> tuple[Array, float]:
    """Return an arm's mean from its prior and its sums, given its covariance.

    Returns also r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu, twice what the data add to b.
    """
    cross, squares = sums.cross[arm], float(sums.squares[arm])
    if prior_mean is not None:
        known = precision * prior_mean
        cross = cross + known
        squares += float(np.dot(known, prior_mean))
    mean = np.dot(cov, cross)
    return mean, max(squares - float(np.dot(mean, cross)), 0.0)
