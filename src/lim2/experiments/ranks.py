"""Agents over many datasets: ranks, tests of Friedman, Nemenyi and Wilcoxon, bootstrap intervals.

After Demsar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7 (2006). A dataset is one
observation: what is tested is whether an agent would do better on other datasets like these, not on other shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lim2.experiments.stats import LEVEL, holm

Array = NDArray[np.float64]

DRAWS = 10_000  # of a bootstrap


def ranks(scores: ArrayLike) -> Array:
    """Return the place of every agent on every dataset: 1 for the best, equals share the mean of their places.

    Examples
    --------
    >>> ranks([[0.9, 0.5, 0.7], [0.4, 0.6, 0.6]])
    array([[1. , 3. , 2. ],
           [3. , 1.5, 1.5]])
    """
    places: Array = stats.rankdata(-np.asarray(scores, dtype=float), axis=1)
    return places


@dataclass(frozen=True)
class Friedman:
    """Friedman's test that all agents are alike."""

    chi2: float  # corrected for ties
    p_chi2: float
    f: float  # Iman and Davenport's statistic, which is less conservative
    p: float


def friedman(scores: ArrayLike) -> Friedman:
    """Test whether agents differ at all.

    Examples
    --------
    >>> result = friedman([[9.0, 7.0, 6.0], [8.0, 9.0, 5.0], [7.0, 6.0, 4.0], [9.0, 8.0, 6.0]])
    >>> round(result.chi2, 3), round(result.f, 3)
    (6.5, 13.0)
    """
    places = ranks(scores)
    n, k = places.shape
    if n < 2 or k < 3:
        raise ValueError(f"Friedman's test needs 2 datasets and 3 agents, not {n} and {k}")
    means = places.mean(axis=0)
    spread = float(((places - (k + 1) / 2) ** 2).sum())  # n k (k^2 - 1) / 12 without ties
    chi2 = 0.0 if spread == 0 else (k - 1) * n**2 * float(((means - (k + 1) / 2) ** 2).sum()) / spread
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-9 * n * k else math.inf  # all datasets agree
    p = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))) if math.isfinite(f) else 0.0
    return Friedman(chi2, float(stats.chi2.sf(chi2, k - 1)), f, p)


def critical_difference(agents: int, datasets: int, level: float = LEVEL) -> float:
    """Return by how much two mean ranks must differ to differ significantly, by Nemenyi's test.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)  # Demsar (2006), section 3.2.2: 1.25
    1.25
    """
    quantile = float(stats.studentized_range.ppf(1 - level, agents, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(agents * (agents + 1) / (6 * datasets))


def wilcoxon_p(a: ArrayLike, b: ArrayLike) -> float:
    """Return the two-sided p of Wilcoxon's signed-ranks test over datasets; zeros are split, as Demsar proposes.

    Examples
    --------
    >>> wilcoxon_p([1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0])
    0.03125
    >>> wilcoxon_p([1, 2], [1, 2])
    1.0
    """
    differences = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)


def wilcoxon_holm(scores: ArrayLike) -> Array:
    """Return p of all pairs of agents, corrected by Holm's method for the number of pairs.

    Scores are (datasets, agents); p is (agents, agents), with ones on the diagonal.
    """
    values = np.asarray(scores, dtype=float)
    k = values.shape[1]
    pairs = list(combinations(range(k), 2))
    corrected = holm([wilcoxon_p(values[:, i], values[:, j]) for i, j in pairs])
    matrix = np.ones((k, k))
    for (i, j), p in zip(pairs, corrected, strict=True):
        matrix[i, j] = matrix[j, i] = 1.0 if p is None else p
    return matrix


def groups(mean_ranks: Sequence[float], alike: NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """Return the largest groups of agents that follow one another in rank and of which no two differ significantly.

    ``alike`` (agents, agents) says which two do not differ. Groups are indices, best first; groups of one are left
    out.

    Examples
    --------
    >>> alike = np.abs(np.subtract.outer([1.0, 1.5, 2.2], [1.0, 1.5, 2.2])) < 1.0
    >>> groups([1.0, 1.5, 2.2], alike)
    [(0, 1), (1, 2)]
    """
    order = [int(i) for i in np.argsort(mean_ranks, kind="stable")]
    groups: list[tuple[int, ...]] = []
    reached = 0  # a group that ends no later than an earlier one is a part of it
    for start in range(len(order)):
        stop = start + 1
        while stop < len(order) and all(alike[order[stop], order[i]] for i in range(start, stop)):
            stop += 1
        if stop - start > 1 and stop > reached:
            groups.append(tuple(order[start:stop]))
            reached = stop
    return groups


def bootstrap(values: ArrayLike, level: float = 0.95, draws: int = DRAWS, seed: int = 0) -> tuple[Array, Array]:
    """Return percentile intervals of the means over datasets, by drawing datasets with replacement.

    Datasets are drawn whole, so that the agents of a draw are compared on the same ones; noise between shuffles is part
    of the spread between datasets.

    Examples
    --------
    >>> low, high = bootstrap([[0.0], [1.0]])
    >>> low.tolist(), high.tolist()  # the mean of two draws is 0 or 1 with probability 1/4 each
    ([0.0], [1.0])
    """
    table = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(table), size=(draws, len(table)))
    counts = np.zeros((draws, len(table)))
    np.add.at(counts, (np.arange(draws)[:, None], drawn), 1.0)
    means = counts @ table / len(table)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
