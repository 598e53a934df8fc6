"""Beliefs about one arm after several more rows at once: what as many rank-one updates give, in a few products.

With Z the rows of features, cov the covariance and L L' = I + Z cov Z', all that the rows would give one after the
other is in L and in V = L^-1 Z cov. The j-th reward, when those before it are known, has a variance of L_jj^2 in units
of the noise, and e = L^-1 (r - Z mu) are the errors in units of its deviation. Then mu grows by V'e, b by e'e / 2, and
cov is less by V'V. A root S' of it, with F = Z S, is less by F' (L + I)^-T V: Andrews' form, of which Potter's is the
case of one row.

Where the pivots of L are so far apart that rounding would matter, the rows are taken one after the other.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from lim2.exploration import posterior as solved
from lim2.exploration import roots
from lim2.exploration.posterior import STEEPEST, Posterior
from lim2.exploration.roots import Roots
from lim2.state import Array, Ints, Write

_dpotrf, _dtrsm = lapack.dpotrf, blas.dtrsm

MOST_ROWS = 64  # more are taken piece by piece
LEAST = 1.0 - 1e-9  # no pivot is below 1, but for rounding


class _Known(NamedTuple):
    """What the rows say, in the words of this file."""

    L: Array
    V: Array
    mean: Array
    a: float
    b: float
    densities: Array


def by_arm(arms: Ints) -> list[tuple[int, Ints]]:
    """Return the arms that occur, each with its rows in their order.

    Examples
    --------
    >>> [(arm, rows.tolist()) for arm, rows in by_arm(np.array([2, 0, 2]))]
    [(0, [1]), (2, [0, 2])]
    """
    order = arms.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(arms[order], prepend=-1))
    return [(int(arms[rows[0]]), rows) for rows in np.split(order, starts[1:]) if len(rows)]


def predicted_many(posterior: Roots, arm: int, Z: Array, rewards: Array) -> tuple[list[Write], Array]:
    """Condition one arm on more rows of features (k, g) and rewards (k,). Returns its new rows, and log densities (k,).

    These say how likely each reward was, given those before it, as ``roots.predicted`` does.

    Examples
    --------
    >>> from lim2.state import Writes, written
    >>> before = roots.prior(n_arms=1, width=2, precision=1.0, a0=6.0, b0=6.0)
    >>> rows, densities = predicted_many(before, 0, np.eye(2), np.array([0.0, 3.0]))
    >>> after = written(Writes(before, rows))
    >>> after.cov[0].round(9).tolist(), after.mu[0].round(9).tolist(), after.a.tolist(), after.b.round(9).tolist()
    ([[0.5, 0.0], [0.0, 0.5]], [0.0, 1.5], [7.0], [8.25])
    >>> densities.round(3).tolist()
    [-1.242, -3.471]
    """
    densities = np.empty(len(rewards))
    one = type(posterior)(*(part[arm : arm + 1] for part in posterior))
    for start in range(0, len(rewards), MOST_ROWS):
        rows = slice(start, start + MOST_ROWS)
        one, densities[rows] = _next_root(one, Z[rows], rewards[rows])
    return [(array, arm, part[0]) for array, part in zip(posterior, one, strict=True)], densities


def observe_many(posterior: Posterior, arm: int, Z: Array, rewards: Array) -> list[Write]:
    """Condition one arm on more rows of features (k, g) and rewards (k,). Returns its new rows.

    Examples
    --------
    >>> from lim2.state import Writes, written
    >>> before = solved.prior(n_arms=1, width=2, precision=1.0, a0=6.0, b0=6.0)
    >>> after = written(Writes(before, observe_many(before, 0, np.eye(2), np.array([0.0, 3.0]))))
    >>> after.cov[0].round(9).tolist(), after.mu[0].round(9).tolist()
    ([[0.5, 0.0], [0.0, 0.5]], [0.0, 1.5])
    """
    one = Posterior(*(part[arm : arm + 1] for part in posterior))
    for start in range(0, len(rewards), MOST_ROWS):
        rows = slice(start, start + MOST_ROWS)
        one = _next_cov(one, Z[rows], rewards[rows])
    return [(array, arm, part[0]) for array, part in zip(posterior, one, strict=True)]


def _next_root(one: Roots, Z: Array, rewards: Array) -> tuple[Roots, Array | float]:
    """Return what is believed of the only arm after more rows, and the log densities of the rewards."""
    root = one.root[0]
    if len(rewards) > 1:
        F = np.dot(Z, root.T)
        known = _known(one, Z, rewards, np.dot(F, root), np.dot(F, F.T))
        if known is not None:
            shrunk = _solved(known.L + np.eye(len(F)), F)
            return _only(one, known, root - np.dot(shrunk.T, known.V)), known.densities
    densities = np.empty(len(rewards))
    for row, (z, reward) in enumerate(zip(Z, rewards.tolist(), strict=True)):
        new, densities[row] = roots.predicted(one, 0, z, reward)
        one = _rows(one, new)
    return one, densities


def _next_cov(one: Posterior, Z: Array, rewards: Array) -> Posterior:
    """Return what is believed of the only arm after more rows."""
    if len(rewards) > 1:
        D = np.dot(Z, one.cov[0])
        known = _known(one, Z, rewards, D, np.dot(D, Z.T))
        if known is not None:
            return _only(one, known, one.cov[0] - np.dot(known.V.T, known.V))
    for z, reward in zip(Z, rewards.tolist(), strict=True):
        one = _rows(one, solved.observe(one, 0, z, reward))
    return one


def _known(one: Roots | Posterior, Z: Array, rewards: Array, D: Array, inner: Array) -> _Known | None:
    """Return what the rows say, from D = Z cov and inner = Z cov Z'; None where rounding would matter."""
    inner.ravel()[:: len(inner) + 1] += 1.0
    L, failed = _dpotrf(inner.T, lower=1, clean=1, overwrite_a=1)
    pivots = L.diagonal()
    if failed or not pivots.min() >= LEAST or not pivots.max() < STEEPEST * pivots.min():
        return None
    V, mean, a = _solved(L, D), one.mu[0], float(one.a[0])
    errors = _solved(L, (rewards - np.dot(Z, mean))[:, None])[:, 0]
    spread = np.empty(len(errors) + 1)
    spread[0] = one.b[0]
    np.cumsum(0.5 * errors * errors, out=spread[1:])
    spread[1:] += spread[0]
    counts, logs = a + 0.5 * np.arange(len(errors)), np.log(spread)
    densities = counts * logs[:-1] - (counts + 0.5) * logs[1:] - np.log(pivots)
    return _Known(L, V, mean + np.dot(errors, V), a + 0.5 * len(errors), float(spread[-1]), densities)


def _solved(L: Array, B: Array) -> Array:
    """Return L^-1 B. BLAS reads by columns: B is handed over as its transpose, which is no copy."""
    out: Array = _dtrsm(1.0, L, B.T, side=1, lower=1, trans_a=1).T
    return out


def _only(one: Roots | Posterior, known: _Known, matrix: Array) -> Any:
    return type(one)(known.mean[None], matrix[None], np.array([known.a]), np.array([known.b]))


def _rows(one: Roots | Posterior, new: list[Write]) -> Any:
    """Return what is believed of the only arm, from its new rows."""
    mean, matrix, a, b = (row for _, _, row in new)
    return type(one)(mean[None], matrix[None], np.array([a]), np.array([b]))
