"""A model of the rewards for the doubly robust estimate: ridge regression an arm, never fitted on what it predicts."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


def ridge(contexts: Array, rewards: Array, penalty: float = 1.0) -> Array:
    """Return (d + 1,) weights, one a column and the constant, which is not penalised.

    Parameters
    ----------
    contexts, rewards
        (n, d) and (n,).
    penalty
        On the squares of the weights.

    Examples
    --------
    >>> xs = np.array([[-1.0], [1.0]] * 500)
    >>> ridge(xs, 3 + 2 * xs[:, 0]).round(2)
    array([2., 3.])
    """
    centre, level = contexts.mean(axis=0), rewards.mean()
    X = contexts - centre
    gram = X.T @ X
    gram[np.diag_indices_from(gram)] += penalty
    slope = np.linalg.solve(gram, X.T @ (rewards - level))
    return np.append(slope, level - centre @ slope)


def by_past(n: int, blocks: int) -> list[tuple[Rows, Rows]]:
    """Return (rows to fit on, rows to predict), blocks in time: each is predicted from all before, the first from none.

    Blocks grow, so that little is predicted from nothing.

    Parameters
    ----------
    n
        Number of rows.
    blocks
        Number of blocks.

    Examples
    --------
    >>> [(len(past), len(block)) for past, block in by_past(1000, 5)]
    [(0, 40), (40, 120), (160, 200), (360, 280), (640, 360)]
    """
    rows = np.arange(n)
    edges = (n * np.linspace(0, 1, blocks + 1) ** 2).astype(int).tolist()
    return [(rows[:start], rows[start:end]) for start, end in pairwise(edges)]


def by_folds(n: int, folds: int) -> list[tuple[Rows, Rows]]:
    """Return (rows to fit on, rows to predict), folds of every k-th row: each is predicted from all others.

    Parameters
    ----------
    n
        Number of rows.
    folds
        Number of folds.

    Examples
    --------
    >>> [(rest.tolist(), fold.tolist()) for rest, fold in by_folds(5, 2)]
    [([1, 3], [0, 2, 4]), ([0, 2, 4], [1, 3])]
    """
    fold = np.arange(n) % folds
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(min(folds, n))]


def predictions(
    contexts: Array, chosen: Rows, rewards: Array, n_arms: int, splits: list[tuple[Rows, Rows]], penalty: float = 1.0
) -> Array:
    """Return (n, n_arms) predicted rewards, of each row by models that were not fitted on it.

    An arm without a decision to fit on is predicted by the mean over all arms; without any decision, everything by 0.

    Parameters
    ----------
    contexts, chosen, rewards
        (n, d), (n,) and (n,).
    n_arms
        Number of arms.
    splits
        (rows to fit on, rows to predict).
    penalty
        Of the regression over standardised columns.
    """
    predicted = np.zeros((len(contexts), n_arms))
    for fit, apply in splits:
        if not len(fit):
            continue
        centre, scale = contexts[fit].mean(axis=0), contexts[fit].std(axis=0)
        X = (contexts - centre) / np.where(scale > 0, scale, 1.0)
        predicted[apply] = rewards[fit].mean()
        for arm in range(n_arms):
            rows = fit[chosen[fit] == arm]
            if len(rows):
                weights = ridge(X[rows], rewards[rows], penalty)
                predicted[apply, arm] = X[apply] @ weights[:-1] + weights[-1]
    return predicted
