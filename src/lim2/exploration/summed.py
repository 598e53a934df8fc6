"""Beliefs that can be computed anew from sums over the data, which may fade, or be moved to other coordinates."""

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack

from lim2._arrays import with_row, without_row
from lim2.exploration.posterior import Array, Posterior

SUMS = ("gram", "cross", "squares", "weight")  # an arm a row


class Summed(Posterior):
    """Normal-inverse-gamma beliefs together with the sums they follow from: Z'WZ, Z'Wr, r'Wr and the weights' sum.

    A rank-one update can add a tuple to beliefs, but not make all earlier ones count less, nor change the scale of a
    feature under a prior that stays: both change every direction. Here the sums are changed, and an arm's beliefs are
    solved for from its prior and its sums, in O(width^3).

    Parameters
    ----------
    n_arms, width, precision, a0, b0
        As for :class:`lim2.exploration.Posterior`.

    Examples
    --------
    Two rewards in a row, the first of which counts half by now:

    >>> beliefs = Summed(n_arms=1, width=1)
    >>> for reward in (4.0, 1.0):
    ...     beliefs.fade(0.5)
    ...     beliefs.add(0, np.array([1.0]), reward)
    >>> beliefs.solve_cov(0)
    >>> squares = beliefs.solve_mean(0)
    >>> beliefs.cov[0].round(9).tolist(), beliefs.mu[0].round(9).tolist()  # 1 / (1 + 0.5 + 1), (0.5 * 4 + 1) / 2.5
    ([[0.4]], [1.2])
    """

    _kept: ClassVar[tuple[str, ...]] = (*Posterior._kept, *SUMS)

    def __init__(self, n_arms: int, width: int, precision: float = 1.0, a0: float = 6.0, b0: float = 6.0) -> None:
        super().__init__(n_arms, width, precision, a0, b0)
        self.precision = float(precision)
        self.gram: Array = np.zeros((n_arms, width, width))
        self.cross: Array = np.zeros((n_arms, width))
        self.squares: Array = np.zeros(n_arms)
        self.weight: Array = np.zeros(n_arms)

    def note(self, arm: int | None = None) -> Any:
        """Return what :meth:`undo` needs to put beliefs and sums back as they are now."""
        return super().note(arm), [getattr(self, name).copy() for name in SUMS]

    def undo(self, noted: Any) -> None:
        """Put back what :meth:`note` returned."""
        beliefs, sums = noted
        super().undo(beliefs)
        for name, before in zip(SUMS, sums, strict=True):
            setattr(self, name, before)

    def add_arm(self, like: int | None = None) -> None:
        """Start to believe something about one more arm: the prior, or what is believed about another."""
        super().add_arm(like)
        for name in SUMS:
            sums = getattr(self, name)
            setattr(self, name, with_row(sums, 0.0 if like is None else sums[like]))

    def remove_arm(self, arm: int) -> None:
        """Forget an arm; those after it move up."""
        super().remove_arm(arm)
        for name in SUMS:
            setattr(self, name, without_row(getattr(self, name), arm))

    def fade(self, keep: float) -> None:
        """Let everything seen so far count less."""
        for sums in (self.gram, self.cross, self.squares, self.weight):
            sums *= keep

    def add(self, arm: int, z: Array, reward: float) -> None:
        """Add one (features, reward) to an arm's sums."""
        self.gram[arm] += np.multiply.outer(z, z)
        self.cross[arm] += reward * z
        self.squares[arm] += reward * reward
        self.weight[arm] += 1.0

    def reset(self, arm: int, features: Array, rewards: Array, weight: float, noise: float = 0.0) -> None:
        """Replace an arm's sums by those over rows of (features, reward), each times the root of its weight.

        ``weight`` is what the rows count together; ``noise`` a sum of squared rewards of which no features are known.
        """
        np.dot(features.T, features, out=self.gram[arm])
        np.dot(rewards, features, out=self.cross[arm])
        self.squares[arm] = float(np.dot(rewards, rewards)) + noise
        self.weight[arm] = weight

    def observe(self, arm: int, z: Array, reward: float) -> None:
        """Condition one arm on one more (features, reward), in O(width^2), and add it to the sums."""
        super().observe(arm, z, reward)
        self.add(arm, z, reward)

    def move(self, mapping: Array) -> None:
        """Express the sums in other features, those that the mapping turns the present ones into."""
        moved = mapping @ self.gram @ mapping.T
        np.add(moved, moved.transpose(0, 2, 1), out=self.gram)
        self.gram *= 0.5
        self.cross = self.cross @ mapping.T

    def solve_cov(self, arm: int) -> None:
        """Set an arm's covariance from its prior and its sums."""
        information = self.gram[arm].copy()
        information.ravel()[:: len(information) + 1] += self.precision
        factor, failed = lapack.dpotrf(information.T, lower=1, clean=1)
        if failed:  # features so large that the prior is lost in rounding: it bounds the eigenvalues from below
            values, vectors = np.linalg.eigh(information)
            root = vectors / np.sqrt(np.maximum(values, self.precision))
        else:
            root = lapack.dtrtri(factor, lower=1)[0].T
        np.dot(root, root.T, out=self.cov[arm])

    def solve_mean(self, arm: int, prior_mean: Array | None = None) -> float:
        """Set an arm's mean from its prior and its sums, given that its ``cov`` is up to date.

        Returns r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu, twice what the data add to b.
        """
        cross, squares = self.cross[arm], float(self.squares[arm])
        if prior_mean is not None:
            cross = cross + self.precision * prior_mean
            squares += self.precision * float(np.dot(prior_mean, prior_mean))
        np.dot(self.cov[arm], cross, out=self.mu[arm])
        return max(squares - float(np.dot(self.mu[arm], cross)), 0.0)

    def solve(self) -> None:
        """Compute all beliefs anew, with prior mean 0."""
        for arm in range(len(self.mu)):
            self.solve_cov(arm)
            self.set_noise(arm, float(self.weight[arm]), self.solve_mean(arm))
