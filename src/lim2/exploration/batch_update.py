"""Beliefs about one arm after several more rows at once: what as many rank-one updates give, in a few products.

With Z the rows of features, cov the covariance and L L' = I + Z cov Z', all that the rows would give one after the
other is in L and in V = L^-1 Z cov. The j-th reward, when those before it are known, has a variance of L_jj^2 in units
of the noise, and e = L^-1 (r - Z mu) are the errors in units of its deviation. Then mu grows by V'e, b by e'e / 2, and
cov is less by V'V. A root S' of it, with F = Z S, is less by F' (L + I)^-T V: Andrews' form, of which Potter's is the
case of one row.

Where the pivots of L are so far apart that rounding would matter, the rows are taken one after the other.
"""

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from lim2.exploration import sqrt_posterior
from lim2.exploration.posterior import STEEPEST
from lim2.exploration.sqrt_posterior import Predicted, Roots
from lim2.state import Array, Ints, Write

_dpotrf, _dtrsm, _dtrsv = lapack.dpotrf, blas.dtrsm, blas.dtrsv

Belief = tuple[Array, Array, float, float]  # about one arm: mean, root of the covariance, a, b

FEWEST_ROWS, MOST_ROWS = 6, 64  # fewer are quicker one by one, more are taken piece by piece; measured
SMALLEST_PIVOT = 1.0 - 1e-9  # no pivot is below 1, but for rounding


def by_arm(arms: Ints) -> list[tuple[int, Ints]]:
    """Return the arms that occur, each with its rows in their order.

    Examples
    --------
    >>> [(arm, rows.tolist()) for arm, rows in by_arm(np.array([2, 0, 2]))]
    [(0, [1]), (2, [0, 2])]
    """
    order, counts = arms.argsort(kind="stable"), np.bincount(arms)
    ends = counts.cumsum().tolist()
    return [(arm, order[end - n : end]) for arm, (end, n) in enumerate(zip(ends, counts.tolist(), strict=True)) if n]


def predicted_many(posterior: Roots, arm: int, Z: Array, rewards: Array) -> tuple[list[Write], Predicted]:
    """Condition one arm on more rows of features (k, g) and rewards (k,). Returns its new rows, and what was predicted.

    That is what ``sqrt_posterior.predicted`` returns of each reward, given those before it.

    Examples
    --------
    >>> from lim2.state import Writes, written
    >>> before = sqrt_posterior.prior(n_arms=1, width=2, precision=1.0, a0=6.0, b0=6.0)
    >>> rows, predictions = predicted_many(before, 0, np.eye(2), np.array([0.0, 3.0]))
    >>> after = written(Writes(before, rows))
    >>> after.cov[0].round(9).tolist(), after.mu[0].round(9).tolist(), after.a.tolist(), after.b.round(9).tolist()
    ([[0.5, 0.0], [0.0, 0.5]], [0.0, 1.5], [7.0], [8.25])
    >>> sqrt_posterior.log_density(predictions, np.array([6.0, 6.5])).round(3).tolist()
    [-1.242, -3.472]
    """
    if len(rewards) == 1:
        writes, prediction = sqrt_posterior.predicted(posterior, arm, Z[0], float(rewards[0]))
        return writes, Predicted(*(np.array([part]) for part in prediction))
    predictions, belief = np.empty((len(Predicted._fields), len(rewards))), _of_arm(posterior, arm)
    for start in range(0, len(rewards), MOST_ROWS):
        rows = slice(start, start + MOST_ROWS)
        belief, predictions[:, rows] = _next_root(posterior, belief, Z[rows], rewards[rows])
    return [(array, arm, part) for array, part in zip(posterior, belief, strict=True)], Predicted(*predictions)


def _of_arm(posterior: Roots, arm: int) -> Belief:
    mu, matrix, a, b = posterior
    return mu[arm], matrix[arm], float(a[arm]), float(b[arm])


def _alone(belief: Belief, kind: Any) -> Any:
    """Return the posterior of one arm in the form of all arms."""
    mean, matrix, a, b = belief
    return kind(mean[None], matrix[None], np.array([a]), np.array([b]))


def _next_root(posterior: Roots, belief: Belief, Z: Array, rewards: Array) -> tuple[Belief, Array]:
    """Return the posterior after more rows, and the predictions of the rewards, in columns."""
    root = belief[1]
    if len(rewards) >= FEWEST_ROWS:
        F = np.dot(Z, root.T)
        updated = _conditioned(belief, Z, rewards, np.dot(F, root), np.dot(F, F.T))
        if updated is not None:
            (mean, a, b), L, V, predictions = updated
            L.T.ravel()[:: len(L) + 1] += 1.0  # L + I
            return (mean, root - np.dot(_solved(L, F).T, V), a, b), predictions
    predictions = np.empty((len(Predicted._fields), len(rewards)))
    for row, (z, reward) in enumerate(zip(Z, rewards.tolist(), strict=True)):
        new, predictions[:, row] = sqrt_posterior.predicted(_alone(belief, type(posterior)), 0, z, reward)
        mean, root, a, b = (part for _, _, part in new)
        belief = mean, root, a, b
    return belief, predictions


def _conditioned(
    belief: Belief, Z: Array, rewards: Array, D: Array, inner: Array
) -> tuple[tuple[Array, float, float], Array, Array, Array] | None:
    """Return the new mean, a and b, L, V and the predictions, from D = Z cov and inner = Z cov Z'.

    None where rounding would matter.
    """
    mean, _, a, b = belief
    n = len(rewards)
    inner.ravel()[:: n + 1] += 1.0
    L, failed = _dpotrf(inner.T, lower=1, clean=1, overwrite_a=1)
    pivots = L.diagonal()
    listed = pivots.tolist()
    if failed or not min(listed) >= SMALLEST_PIVOT or not max(listed) < STEEPEST * min(listed):
        return None
    V, errors = _solved(L, D), _dtrsv(L, rewards - np.dot(Z, mean), lower=1)
    spread = np.empty(n + 1)
    spread[0], spread[1:] = b, 0.5 * errors * errors
    np.add.accumulate(spread, out=spread)
    predictions = np.array([a + 0.5 * np.arange(n), spread[:-1], 0.5 * errors * errors, pivots * pivots])
    return (mean + np.dot(errors, V), a + 0.5 * n, float(spread[-1])), L, V, predictions


def _solved(L: Array, B: Array) -> Array:
    """Return L^-1 B. BLAS reads by columns: B is handed over as its transpose, which is no copy."""
    out: Array = _dtrsm(1.0, L, B.T, side=1, lower=1, trans_a=1).T
    return out
