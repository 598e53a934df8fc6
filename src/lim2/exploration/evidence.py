"""How well beliefs predict rewards that came later, and beliefs that forget: what a change test needs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from lim2.exploration.refit import refit
from lim2.exploration.roots import RootPosterior
from lim2.state import Array, Ints

_dtrsv = blas.dtrsv


class Data(NamedTuple):
    """Tuples sorted by arm: their features, rewards and arms."""

    features: Array
    rewards: Array
    arms: Ints

    def of(self, rows: NDArray[np.bool_]) -> "Data":
        """Return some of the tuples."""
        return Data(self.features[rows], self.rewards[rows], self.arms[rows])

    def bounds(self, n_arms: int) -> list[int]:
        """Return bounds: the rows of arm i are ``bounds[i]`` to ``bounds[i + 1]``."""
        found: list[int] = self.arms.searchsorted(np.arange(n_arms + 1)).tolist()
        return found


def log_evidence(beliefs: RootPosterior, arms: Ints, data: Data, factors: Sequence[float]) -> Array:
    """Return the log density of some arms' rewards, had their covariances been multiplied by each factor.

    With F = Z S and the errors e = r - Z m, the n rewards of an arm are multivariate Student-t: log det(I + c F F') / 2
    and (a + n/2) log(b + e'(I + c F F')^-1 e / 2) are subtracted from what does not depend on c. Both come from one
    Cholesky factor, on the smaller side.

    Parameters
    ----------
    beliefs, arms
        What is believed before these rewards, and of which arms.
    data
        The rewards and their features.
    factors
        Of the covariances.

    Examples
    --------
    Rewards far from what is believed are more likely under a wider belief:

    >>> from lim2.exploration import roots
    >>> beliefs = roots.prior(n_arms=1, width=1, precision=100.0, a0=6.0, b0=6.0)
    >>> data = Data(np.ones((2, 1)), np.array([3.0, 3.0]), np.array([0, 0]))
    >>> log_evidence(beliefs, np.array([0]), data, (1.0, 100.0)).round(3).tolist()
    [-8.179, -5.225]
    """
    out, bounds = np.zeros(len(factors)), data.bounds(len(beliefs.a))
    for arm in arms.tolist():
        own = slice(bounds[arm], bounds[arm + 1])
        n = own.stop - own.start
        if not n:
            continue
        a, b = float(beliefs.a[arm]), float(beliefs.b[arm])
        whitened = np.dot(data.features[own], beliefs.root[arm].T)
        errors = data.rewards[own] - np.dot(data.features[own], beliefs.mu[arm])
        few = n < whitened.shape[1]
        gram = np.dot(whitened, whitened.T) if few else np.dot(whitened.T, whitened)
        along, squares = errors if few else np.dot(errors, whitened), float(np.dot(errors, errors))
        constant = a * math.log(b) + math.lgamma(a + 0.5 * n) - math.lgamma(a) - 0.5 * n * math.log(2.0 * math.pi)
        for place, factor in enumerate(factors):
            inner = factor * gram
            inner.ravel()[:: len(inner) + 1] += 1.0
            root = np.linalg.cholesky(inner)
            solved = _dtrsv(root.T, along, lower=0, trans=1)
            quadratic = float(np.dot(solved, solved))
            quadratic = quadratic if few else max(squares - factor * quadratic, 0.0)
            half_log_det = float(np.log(root.diagonal()).sum())
            out[place] += constant - half_log_det - (a + 0.5 * n) * math.log(b + 0.5 * quadratic)
    return out


def of_arms(arms: NDArray[np.bool_], new: Array, old: Array) -> Array:
    """Return an array with the rows of some arms replaced."""
    return np.where(arms.reshape(-1, *(1,) * (old.ndim - 1)), new, old)


def faded(beliefs: RootPosterior, start: RootPosterior, factor: float) -> RootPosterior:
    """Return beliefs in which what was learned counts 1 / factor, and what was believed at the start the rest.

    Precisions are averaged: P / factor + (1 - 1 / factor) P0, and the means with them; so are a and b.

    Parameters
    ----------
    beliefs
        Of every arm.
    start
        Of one arm, with a diagonal root.
    factor
        From 1.

    Examples
    --------
    >>> from lim2.exploration import roots
    >>> start = roots.prior(n_arms=1, width=1, precision=1.0, a0=6.0, b0=6.0)
    >>> learned = start._replace(mu=np.array([[3.0]]), root=np.array([[[0.1]]]), a=np.array([56.0]))
    >>> after = faded(learned, start, 4.0)
    >>> after.cov.round(3).tolist(), after.mu.round(3).tolist(), after.a.tolist()
    ([[[0.039]]], [[2.913]], [18.5])
    """
    keep = 1.0 / factor
    rows = np.diag(math.sqrt(1.0 - keep) / start.root[0].diagonal())  # as if the start had been observed
    targets, width = np.dot(rows, start.mu[0]), len(rows)
    n_arms = len(beliefs.a)
    wider = beliefs._replace(root=beliefs.root * math.sqrt(factor))
    bounds = list(range(0, (n_arms + 1) * width, width))
    moved = refit(wider, np.tile(rows, (n_arms, 1)), np.tile(targets, n_arms), bounds)
    a, b = (keep * old + (1.0 - keep) * first for old, first in ((beliefs.a, start.a), (beliefs.b, start.b)))
    return moved._replace(a=a, b=b)
