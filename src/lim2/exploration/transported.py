"""Beliefs that are carried across changes of the features, and count every tuple once.

A belief about weights for old features, mean m and covariance C = S S', becomes M m and M C M' for new ones, where M is
the map with new features times M close to the old ones: a score z'w keeps its distribution. The root S is carried
instead of C, so that a covariance is positive semi-definite by construction, whatever is rounded; transported it is
M S.
"""

import copy
import math
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from lim2.exploration.posterior import Array, RecursivePosterior

_dpotrf, _dtrsm = lapack.dpotrf, blas.dtrsm

LARGEST_ENTRY = 1e30

Rows = tuple[Array, Array]  # features and rewards


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
        return root.copy()
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


class TransportedPosterior(RecursivePosterior):
    """Normal-inverse-gamma beliefs about every arm that can be transported to new features.

    Parameters
    ----------
    n_arms, width, precision, a0, b0
        As in :class:`lim2.exploration.RecursivePosterior`.

    Examples
    --------
    Features that are doubled: a weight is worth half.

    >>> beliefs = TransportedPosterior(n_arms=1, width=1)
    >>> beliefs.observe(0, np.array([1.0]), 1.0)
    >>> beliefs.transport(np.array([[0.5]]))
    >>> mean, spread = beliefs.moments(np.array([2.0]))
    >>> mean.tolist(), spread.round(12).tolist()
    ([0.5], [0.5])
    """

    def copy(self) -> Self:
        """Return beliefs of their own that are the same."""
        twin = copy.copy(self)
        for name in self._kept:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def note(self, arm: int) -> Any:
        """Return what :meth:`undo` needs to put an arm back to what is believed of it now."""
        return arm, self.mu[arm].copy(), float(self.a[arm]), float(self.b[arm]), self._roots[arm].copy()

    def undo(self, noted: Any) -> None:
        """Put back what :meth:`note` returned."""
        arm = noted[0]
        _, self.mu[arm], self.a[arm], self.b[arm], self._roots[arm] = noted

    @property
    def noise(self) -> float:
        """The noise variance expected over all arms, each weighted by what it has seen."""
        return float(self.b.sum() / self.a.sum())

    @property
    def unseen(self) -> NDArray[np.intp]:
        """The arms that have seen nothing."""
        return np.flatnonzero(self.a == self.a0)

    @property
    def seen(self) -> NDArray[np.intp]:
        """The arms that have seen something."""
        return np.flatnonzero(self.a > self.a0)

    def start(self, arms: NDArray[np.intp] | int, centre: float, scale: float, noise: float, sizes: Array) -> None:
        """Put the start of arms that have seen nothing into the units of the rewards.

        Their scores start at ``centre``, which is the weight of the last feature, a constant 1; the weight of a
        feature varies by ``scale^2 / (precision * size)`` around it, whatever the noise is; the noise starts at
        InvGamma(a0, b0 scale^2).

        Parameters
        ----------
        arms
            Which arms.
        centre, scale
            Mean and standard deviation of the rewards.
        noise
            The share of the rewards' variance that is noise: covariances are in units of the noise.
        sizes
            (width,), for every feature the mean square length of the part of the features that it belongs to.
        """
        self.mu[arms, -1] = centre
        self.b[arms] = self.b0 * scale * scale
        self._roots[arms] = np.diag((self.precision * noise * sizes) ** -0.5)

    def transport(self, mapping: Array) -> None:
        """Carry the beliefs of the arms that have seen something to new features, by w -> M w.

        What an arm believes that has seen nothing is about no features in particular, and stays.
        """
        seen = self.seen
        moved = self._roots[seen] @ mapping.T
        if seen.size and np.abs(moved).max() < LARGEST_ENTRY:  # otherwise the features have exploded or vanished
            self._roots[seen] = moved
            self.mu[seen] = self.mu[seen] @ mapping.T

    def foresight(self, arm: int, seen: Rows, later: Rows, factors: Array, b: float | None = None) -> Array:
        """Return how likely each later row is once some are seen, had the covariance been multiplied by a factor.

        Logarithms of Student-t densities, less a constant. With F = Z S for what is seen, H for what comes later and
        K = I + factor F F', later rewards are around factor H F' K^-1 (r - Z m) beyond what m says, and vary by 1 +
        factor h'(I - factor F'K^-1 F) h. One eigendecomposition of F F', or of F'F if smaller, serves all factors.

        Parameters
        ----------
        arm
            Which arm.
        seen, later
            Features (n, g) and rewards (n,), each.
        factors
            (f,), of the covariance.
        b
            Of the noise, before these rows; None: the belief's own.

        Returns
        -------
        Array
            (k, f), for k later rows.
        """
        mean, root = self.mu[arm], self._roots[arm]
        whitened, ahead = np.dot(seen[0], root.T), np.dot(later[0], root.T)  # F and H
        residual, away = (rewards - np.dot(rows, mean) for rows, rewards in (seen, later))
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
        a = self.a[arm] + 0.5 * n
        off = np.maximum(np.dot(residual, residual) - np.dot(squares, shares), 0.0)
        variance = spread * (((self.b[arm] if b is None else b) + 0.5 * off) / a)
        return cast(Array, -0.5 * np.log(variance) - (a + 0.5) * np.log1p(errors**2 / (2.0 * a * variance)))

    def widen(self, arms: NDArray[np.intp], factor: float) -> None:
        """Believe less about the weights of arms: multiply their covariances. Means and noise stay."""
        self._roots[arms] *= math.sqrt(factor)

    def refit(
        self, arm: int, prior: RecursivePosterior, features: Array, rewards: Array, keep_noise: bool = False
    ) -> None:
        """Set what is believed about an arm: its prior, and these rows of features with their rewards on top.

        With ``keep_noise`` this is so of the weights alone, and b stays: for features that were fitted to the rows.
        """
        root = self._roots[arm] = condition_root(prior._roots[arm], features)
        prior_mean = prior.mu[arm]
        residual = rewards - np.dot(features, prior_mean)
        step = np.dot(np.dot(root, np.dot(residual, features)), root)
        np.add(prior_mean, step, out=self.mu[arm])
        self.a[arm] = prior.a[arm] + 0.5 * len(rewards)
        if keep_noise:
            return
        residual -= np.dot(features, step)
        # |r - Z mu|^2 + |mu - mu0|^2_Phi0, with Phi0 (mu - mu0) = Z'(r - Z mu): twice what the data add to b
        moved = float(np.dot(step, np.dot(residual, features)))
        squares = float(np.dot(residual, residual)) + max(moved, 0.0)
        self.b[arm] = prior.b[arm] + 0.5 * squares
