"""Square-root posteriors that follow a change of the features.

A belief about weights for old features, mean m and covariance C = S S', becomes M m and M C M' for new ones, where M is
the map with new features times M close to the old ones: a score z'w keeps its distribution. The root S is transported
instead of C, to M S, so that a covariance is positive semi-definite by construction, whatever is rounded.
"""

import itertools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from lim2.exploration.roots import RootPosterior
from lim2.state import Array

_dpotrf, _dtrsm = lapack.dpotrf, blas.dtrsm

LARGEST_ENTRY = 1e30

Rows = tuple[Array, Array]  # features and rewards
Mask = NDArray[np.bool_]  # (n_arms,)


def condition_root(root: Array, features: Array) -> Array:
    """Return the root of (cov^-1 + Z'Z)^-1 from that of cov = root' root; works on the smaller side.

    Parameters
    ----------
    root
        (g, g), any matrix with root' root = cov.
    features
        (n, g), the rows Z.

    Examples
    --------
    >>> root = condition_root(np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]))
    >>> (root.T @ root).round(4).tolist()
    [[0.3333, 0.0], [0.0, 0.2]]
    """
    n, g = features.shape
    if n == 0:
        return root
    whitened = np.dot(features, root.T)  # F = Z S
    conditioned = (_on_few if n < g else _on_many)(root, whitened)
    return _safely(root, whitened) if conditioned is None else conditioned


# BLAS and LAPACK read arrays by columns. A row-major array is handed over as its transpose, which is no copy.


def _on_few(root: Array, whitened: Array) -> Array | None:
    """S (I - F'C^-T (C + I)^-1 F) with C C' = I + F F': Potter's form for several rows at once (Andrews, 1968)."""
    inner = np.dot(whitened, whitened.T)
    diagonal = inner.ravel()[:: len(inner) + 1]
    diagonal += 1.0
    factor, failed = _dpotrf(inner.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    raised = factor + np.eye(len(inner))
    projected = np.dot(whitened, root)  # F S', and then (C + I)^-T C^-1 F S'
    solved = _dtrsm(1.0, factor, projected.T, side=1, lower=1, trans_a=1, overwrite_b=1)
    solved = _dtrsm(1.0, raised, solved, side=1, lower=1, overwrite_b=1)
    return cast(Array, root - np.dot(whitened.T, solved.T))


def _on_many(root: Array, whitened: Array) -> Array | None:
    """S K^-T with K K' = I + F'F."""
    gram = np.dot(whitened.T, whitened)
    gram.ravel()[:: len(gram) + 1] += 1.0
    factor, failed = _dpotrf(gram.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None
    return cast(Array, _dtrsm(1.0, factor, root.T, side=1, lower=1, trans_a=1).T)  # (K^-1 S')' by columns


def _safely(root: Array, whitened: Array) -> Array:
    """Condition by singular values, for features that swamp the prior: with F = U s V', S V / sqrt(1 + s^2) V'."""
    _, singular, right = np.linalg.svd(whitened, full_matrices=False)
    shrink = 1.0 / np.hypot(1.0, singular) - 1.0
    return cast(Array, root + (right.T * shrink) @ (right @ root))


def start(beliefs: RootPosterior, arms: Mask, centre: float, variances: Array, b: float) -> RootPosterior:
    """Return beliefs in which some arms start anew: scores around ``centre``, which the last feature, a 1, takes up.

    Parameters
    ----------
    beliefs, arms
        All beliefs, and which arms change; their ``a`` stays.
    centre
        The mean of every score.
    variances
        (g,), of the weights, in units of the noise.
    b
        Of the noise.
    """
    mu, root, noise = beliefs.mu.copy(), beliefs.root.copy(), beliefs.b.copy()
    mu[arms, -1], root[arms], noise[arms] = centre, np.diag(np.sqrt(variances)), b
    return beliefs._replace(mu=mu, root=root, b=noise)


def transport(beliefs: RootPosterior, arms: Mask, mapping: Array) -> RootPosterior:
    """Return beliefs in which some arms are carried to new features, by w -> M w.

    Where the features have exploded or vanished, so that M is astronomic, nothing changes.

    Examples
    --------
    Features that are doubled: a weight is worth half.

    >>> from lim2.exploration import roots
    >>> beliefs = roots.prior(n_arms=1, width=1, precision=1.0, a0=6.0, b0=6.0)._replace(mu=np.array([[3.0]]))
    >>> beliefs = transport(beliefs, np.array([True]), np.array([[0.5]]))
    >>> beliefs.mu.tolist(), beliefs.cov.tolist()
    ([[1.5]], [[[0.25]]])
    """
    mu, root, _, _ = beliefs
    moved = np.dot(root.reshape(-1, len(mapping)), mapping.T).reshape(root.shape)  # one product for all arms
    moved[~arms] = root[~arms]
    if not max(moved.max(), -moved.min()) < LARGEST_ENTRY:
        return beliefs
    return beliefs._replace(mu=np.where(arms[:, None], mu @ mapping.T, mu), root=moved)


def inflate(beliefs: RootPosterior, arms: Mask, factor: float) -> RootPosterior:
    """Return beliefs in which the covariances of some arms are multiplied by a factor; means and noise stay."""
    root = beliefs.root.copy()
    root[arms] *= math.sqrt(factor)
    return beliefs._replace(root=root)


def refit(prior: RootPosterior, features: Array, rewards: Array, bounds: Sequence[int]) -> RootPosterior:
    """Return the posterior of every arm: its prior, conditioned on its rows.

    Parameters
    ----------
    prior
        What is believed of every arm before these rows.
    features, rewards
        (n, g) and (n,), sorted by arm.
    bounds
        Arm i has the rows ``bounds[i]`` to ``bounds[i + 1]``.

    Examples
    --------
    >>> from lim2.exploration import roots
    >>> prior = roots.prior(n_arms=2, width=1, precision=1.0, a0=6.0, b0=6.0)
    >>> posterior = refit(prior, np.ones((3, 1)), np.array([4.0, 4.0, 4.0]), [0, 0, 3])
    >>> posterior.mu.tolist(), posterior.cov.tolist(), posterior.a.tolist(), posterior.b.tolist()
    ([[0.0], [3.0]], [[[1.0]], [[0.25]]], [6.0, 7.5], [6.0, 12.0])
    """
    mu, root, a, b = prior.mu.copy(), np.empty_like(prior.root), prior.a.copy(), prior.b.copy()
    for arm, (first, last) in enumerate(itertools.pairwise(bounds)):
        z, mean = features[first:last], prior.mu[arm]
        factor = root[arm] = condition_root(prior.root[arm], z)
        if first == last:
            continue
        residual = rewards[first:last] - np.dot(z, mean)
        step = np.dot(np.dot(factor, np.dot(residual, z)), factor)
        mu[arm] = mean + step
        residual -= np.dot(z, step)
        # |r - Z mu|^2 + |mu - mu0|^2_Phi0, with Phi0 (mu - mu0) = Z'(r - Z mu): twice what the data add to b
        moved = float(np.dot(step, np.dot(residual, z)))
        b[arm] += 0.5 * (float(np.dot(residual, residual)) + max(moved, 0.0))
        a[arm] += 0.5 * (last - first)
    return RootPosterior(mu, root, a, b)


def predictive_log_density(
    beliefs: RootPosterior, arm: int, older: Rows, newer: Rows, factors: Array, b: float
) -> Array:
    """Return the log density of newer rewards given older ones, had the covariance been multiplied by a factor.

    Logarithms of Student-t densities, minus a constant. With F = Z S for the older rows, H for the newer ones and
    K = I + factor F F', newer rewards have the mean factor H F' K^-1 (r - Z m) beyond that of m, and the variance 1 +
    factor h'(I - factor F'K^-1 F) h. One eigendecomposition of F F', or of F'F if smaller, serves all factors.

    Parameters
    ----------
    beliefs, arm
        What is believed before all these rows, and of which arm.
    older, newer
        Features (n, g) and rewards (n,), each.
    factors
        (f,), of the covariance.
    b
        Of the noise, before these rows.

    Returns
    -------
    Array
        (k, f), for k newer rows.
    """
    mean, root = beliefs.mu[arm], beliefs.root[arm]
    whitened, ahead = np.dot(older[0], root.T), np.dot(newer[0], root.T)  # F and H
    residual, away = (rewards - np.dot(rows, mean) for rows, rewards in (older, newer))
    n, g = whitened.shape
    # With F = U sqrt(d) V', r'U sqrt(d) = r'F V and H F'U = H V sqrt(d); each is squared, or goes with the other.
    d, vectors = np.linalg.eigh(np.dot(whitened, whitened.T) if n < g else np.dot(whitened.T, whitened))
    d = np.maximum(d, 0.0)
    if n < g:
        along, projected = np.dot(residual, vectors), np.dot(np.dot(ahead, whitened.T), vectors)
        squares, shrinks = d * along**2, projected**2
    else:
        along, projected = np.dot(np.dot(residual, whitened), vectors), np.dot(ahead, vectors)
        squares, shrinks = along**2, d * projected**2
    shares = factors / (1.0 + np.outer(d, factors))  # (n or g, f)
    errors = away[:, None] - np.dot(projected * along, shares)
    spread = 1.0 + np.maximum(np.outer(np.vecdot(ahead, ahead), factors) - np.dot(shrinks, shares * factors), 0.0)
    a = beliefs.a[arm] + 0.5 * n
    off = np.maximum(np.dot(residual, residual) - np.dot(squares, shares), 0.0)
    variance = spread * ((b + 0.5 * off) / a)
    return cast(Array, -0.5 * np.log(variance) - (a + 0.5) * np.log1p(errors**2 / (2.0 * a * variance)))
