"""Posterior of each arm: Bayesian linear regression with unknown noise.

The posterior of arm i is normal-inverse-gamma: noise variance ~ InvGamma(a_i, b_i), and weights given the noise
~ N(mu_i, noise * cov_i), with cov_i the paper's (Phi0_i + Phi_i)^-1. No inverse is ever formed to be used: a
covariance is conditioned on features through Cholesky factors, on the smaller side of the problem.
"""

import itertools
from collections.abc import Iterable
from numbers import Real
from typing import Annotated, NamedTuple, cast

import numpy as np
from scipy.linalg import blas, lapack

from lim2.exploration.scores import StudentT
from lim2.state import Array, Write

# A covariance of 1 / precision must stay finite when it is multiplied with features.
SMALLEST_PRECISION = 1e-100
LARGEST_PRIOR = 1e30

# Rows of features, as multiples of their width, from which another form of `condition` is faster; measured.
WOODBURY_ROWS, GRAM_ROWS = 0.9, 3.0
STEEPEST = 1e3  # ratio of a factor's pivots up to which `_condition_on_some` is exact to about 1e-10

_dpotrf, _dtrmm, _dtrsm, _dgemm, _dsyrk = lapack.dpotrf, blas.dtrmm, blas.dtrsm, blas.dgemm, blas.dsyrk
_ddot, _dger = blas.ddot, blas.dger


class Posterior(NamedTuple):
    """Normal-inverse-gamma posterior over the linear weights of every arm."""

    mu: Annotated[Array, "arm g"]
    cov: Annotated[Array, "arm g g", "psd"]  # in units of the noise variance
    a: Annotated[Array, "arm", "positive"]
    b: Annotated[Array, "arm", "positive"]


def check_prior(prior_precision: float, a0: float, b0: float) -> None:
    """Raise a ValueError unless these make a prior."""
    for name, value in (("prior_precision", prior_precision), ("a0", a0), ("b0", b0)):
        if not isinstance(value, Real) or not 0.0 < value <= LARGEST_PRIOR:
            raise ValueError(f"{name} must be positive and at most {LARGEST_PRIOR:g}, got {value!r}")
    if prior_precision < SMALLEST_PRECISION:
        raise ValueError(f"prior_precision must be at least {SMALLEST_PRECISION:g}, got {prior_precision!r}")


def prior(n_arms: int, width: int, precision: float, a0: float, b0: float) -> Posterior:
    """Return the prior: N(0, noise I / precision), InvGamma(a0, b0)."""
    cov = np.tile(np.eye(width) / precision, (n_arms, 1, 1))
    return Posterior(np.zeros((n_arms, width)), cov, np.full(n_arms, float(a0)), np.full(n_arms, float(b0)))


def score(posterior: Posterior, z: Array) -> StudentT:
    """Return the score z'w of every arm, for one feature vector (g,) or rows of them (n, g).

    Examples
    --------
    >>> score(prior(2, 1, precision=1.0, a0=6.0, b0=6.0), np.array([3.0])).scale.tolist()
    [3.0, 3.0]
    """
    mu, cov, a, b = posterior
    if z.ndim == 1:
        directions = np.dot(cov.reshape(-1, len(z)), z).reshape(mu.shape)
        mean, spread = np.dot(mu, z), np.dot(directions, z)
    else:
        mean, spread = z @ mu.T, np.empty((len(z), len(mu)))
        for arm, matrix in enumerate(cov):
            np.vecdot(z @ matrix, z, out=spread[:, arm])
    return StudentT(mean, np.sqrt(np.maximum(spread, 0.0) * (b / a)), a + a)


def covariance(posterior: Posterior, rows: Array) -> Array:
    """Return the covariances of the first arm's scores of several rows of features, (n, n), given the mean noise."""
    cov: Array = rows @ posterior.cov[0] @ rows.T * (posterior.b[0] / posterior.a[0])
    return cov


def observe(posterior: Posterior, arm: int, z: Array, reward: float) -> list[Write]:
    """Condition one arm on one more (features, reward): the exact conjugate update, in O(g^2). Returns its new rows."""
    mu, cov, a, b = posterior
    error = reward - _ddot(mu[arm], z)
    conditioned, direction, scale = rank_one(cov[arm], z)
    mean, half = mu[arm] + (error / scale) * direction, 0.5 * error * error / scale
    return [(mu, arm, mean), (cov, arm, conditioned), (a, arm, a[arm] + 0.5), (b, arm, b[arm] + half)]


def condition_all(cov: Array, z: Array, bounds: list[int]) -> tuple[Array, Array]:
    """Condition every arm's covariance on its rows of features; return (cov^-1 + Z'Z)^-1 and the traces of Z'Z."""
    out = np.empty((len(bounds) - 1, *cov.shape[-2:]))
    flat, width, traces = z.reshape(-1), z.shape[1], []
    for arm, (start, stop) in enumerate(itertools.pairwise(bounds)):
        condition(cov[arm] if cov.ndim == 3 else cov, z[start:stop], out[arm])
        values = flat[start * width : stop * width]  # while they are in the cache
        traces.append(_ddot(values, values) if start < stop else 0.0)
    return out, np.array(traces)


def fit_mean(cov: Array, mu0: Array, z: Array, r: Array) -> tuple[Array, float]:
    """Return an arm's mean from a prior mean and all its data, given its posterior covariance.

    Returns also r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu, twice what the data add to b. It is computed as the sum of two
    squares, |r - Z mu|^2 + |mu - mu0|^2_Phi0, so that it cannot be negative.
    """
    residual = r - np.dot(z, mu0)
    step = np.dot(cov, np.dot(residual, z))
    residual -= np.dot(z, step)
    # Phi0 (mu - mu0) = Z'(r - Z mu): the prior precision is not needed
    moved = _ddot(step, np.dot(residual, z))
    return mu0 + step, float(np.dot(residual, residual)) + max(moved, 0.0)


def refit(
    posterior: Posterior,
    cov: Array,
    mu0: Array,
    data: tuple[Array, Array, list[int]],
    noise: tuple[Array, Array],
    arms: Iterable[int],
) -> Posterior:
    """Return the posterior with new covariances, and with means and noise of some arms refitted."""
    phi, r, bounds = data
    mu, a, b = posterior.mu.copy(), posterior.a.copy(), posterior.b.copy()
    for i in arms:
        rows = slice(bounds[i], bounds[i + 1])
        mu[i], squares = fit_mean(cov[i], mu0[i], phi[rows], r[rows])
        a[i], b[i] = noise[0][i], noise[1][i] + 0.5 * squares
    return Posterior(mu, cov, a, b)


def condition(cov: Array, features: Array, out: Array | None = None) -> Array:
    """Return the covariance after seeing rows of features: (cov^-1 + Z'Z)^-1.

    Works on the smaller side: few rows by Woodbury in an n x n system, others in a g x g system, which for many rows is
    built from Z'Z.

    Examples
    --------
    >>> condition(np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])).round(4).tolist()
    [[0.3333, 0.0], [0.0, 0.2]]
    """
    n, g = features.shape
    out = np.empty_like(cov) if out is None else out
    if n == 0:
        out[:] = cov
        return out
    conditioned = (
        _condition_on_few if n < WOODBURY_ROWS * g else _condition_on_some if n < GRAM_ROWS * g else _condition_on_many
    )
    if not conditioned(cov, features, out) and not (
        conditioned is _condition_on_some and _condition_on_many(cov, features, out)
    ):
        out[:] = _condition_safely(cov, features)
    return out


# BLAS and LAPACK read arrays by columns. A row-major array is handed over as its transpose, which is no copy.


def _condition_on_few(cov: Array, features: Array, out: Array) -> bool:
    """Woodbury: cov - W'W with W = C^-1 Z cov and C C' = I + Z cov Z'. Returns whether the factor exists."""
    projected = np.dot(features, cov)  # Z cov
    inner = np.dot(projected, features.T)
    diagonal = inner.reshape(-1)[:: len(inner) + 1]
    diagonal += 1.0
    factor, failed = _dpotrf(inner.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return False
    whitened = _dtrsm(1.0, factor, projected.T, side=1, lower=1, trans_a=1, overwrite_b=1)  # W'
    out[:] = cov
    _dgemm(-1.0, whitened, whitened, 1.0, out.T, trans_b=1, overwrite_c=1)
    return True


def _condition_on_some(cov: Array, features: Array, out: Array) -> bool:
    """W'W with W = K^-1 cov and K K' = cov + (Z cov)'(Z cov). Returns whether the factor exists and is accurate."""
    projected = np.dot(features, cov)  # Z cov
    inner = _dsyrk(1.0, projected.T, 1.0, cov.T, lower=1)
    factor, failed = _dpotrf(inner, lower=1, clean=0, overwrite_a=1)
    pivots = factor.diagonal().tolist()
    if failed or not max(pivots) < STEEPEST * min(pivots):
        return False
    whitened = _dtrsm(1.0, factor, cov.T, side=1, lower=1, trans_a=1)  # W'
    np.dot(whitened, whitened.T, out=out)
    return True


def _condition_on_many(cov: Array, features: Array, out: Array) -> bool:
    """W'W with W = K^-1 L', cov = L L' and K K' = I + L' Z'Z L. Returns whether both factors exist."""
    root, failed = _dpotrf(cov.T, lower=1, clean=1)
    if failed:
        return False
    gram = np.dot(features.T, features)
    inner = _dtrmm(1.0, root, gram.T, side=0, lower=1, trans_a=1, overwrite_b=1)
    inner = _dtrmm(1.0, root, inner, side=1, lower=1, overwrite_b=1)
    diagonal = inner.T.reshape(-1)[:: len(inner) + 1]
    diagonal += 1.0
    factor, failed = _dpotrf(inner, lower=1, clean=0, overwrite_a=1)
    if failed:
        return False
    whitened = _dtrsm(1.0, factor, root, side=1, lower=1, trans_a=1, overwrite_b=1)  # W'
    np.dot(whitened, whitened.T, out=out)
    return True


def _condition_safely(cov: Array, features: Array) -> Array:
    """Condition by singular values, for a covariance on the edge of the cone or features that swamp it.

    With cov = L L' and Z L = U S V', the result is B B' for B = L (I + V (1 / sqrt(1 + S^2) - 1) V'): positive
    semi-definite whatever is rounded.
    """
    values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    _, singular, right = np.linalg.svd(features @ root, full_matrices=False)
    shrink = 1.0 / np.hypot(1.0, singular) - 1.0
    shrunk = root + (root @ right.T * shrink) @ right
    return cast(Array, shrunk @ shrunk.T)


def rank_one(cov: Array, z: Array) -> tuple[Array, Array, float]:
    """Return ``cov`` conditioned on one row of features, the old cov z, and 1 + z' cov z.

    Examples
    --------
    >>> conditioned, _, scale = rank_one(np.eye(2), np.array([1.0, 0.0]))
    >>> scale, conditioned.tolist()
    (2.0, [[0.5, 0.0], [0.0, 1.0]])
    """
    direction = np.dot(cov, z)
    spread = _ddot(direction, z)
    if spread <= 0.0:  # what is left of the variance is below rounding: nothing more can be learned in this direction
        return cov, np.zeros_like(z), 1.0
    scale = 1.0 + spread
    return cast(Array, _dger(-1.0 / scale, direction, direction, a=cov.T).T), direction, scale


def nearest_positive(cov: Array) -> Array:
    """Return a covariance without what rounding has done to it: symmetric, and no variance below rounding.

    Examples
    --------
    >>> nearest_positive(np.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]])).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    values, vectors = np.linalg.eigh((cov + cov.T) / 2)
    least = len(cov) * np.finfo(np.float64).eps * values[-1]
    positive: Array = (vectors * np.maximum(values, least)) @ vectors.T
    return (positive + positive.T) / 2
