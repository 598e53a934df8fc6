"""Refit square-root posteriors: condition the prior of every arm on all of its rows at once.

When the features have changed, the rows in the buffer have new features, and the beliefs are computed from them anew.
The root S of a covariance C = S S' is conditioned instead of C, so that C is positive semi-definite by construction,
whatever is rounded.
"""

import itertools
from collections.abc import Sequence
from typing import cast

import numpy as np
from scipy.linalg import blas, lapack

from lim2.exploration.roots import RootPosterior
from lim2.state import Array

_dpotrf, _dtrsm = lapack.dpotrf, blas.dtrsm


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
