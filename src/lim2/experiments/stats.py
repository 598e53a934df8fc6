"""Whether a difference is more than chance: paired tests with correction, and confidence bands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Array = NDArray[np.float64]

LEVEL = 0.05  # of significance
LEAST = 6  # datasets: with fewer, Wilcoxon's signed-ranks test cannot reach that level


def paired_p(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the two-sided p of the paired t-test, for runs on the same shuffles.

    None when there are fewer than two pairs.

    Examples
    --------
    >>> round(paired_p([1.0, 2.0, 3.0], [0.0, 0.5, 1.0]), 4)
    0.0351
    >>> paired_p([1.0, 2.0], [1.0, 2.0])
    1.0
    """
    return pooled_p([np.subtract(a, b)])


def welch_p(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the two-sided p of Welch's t-test, for runs that are not paired.

    Examples
    --------
    >>> round(welch_p([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]), 4)
    0.0101
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if min(len(x), len(y)) < 2:
        return None
    return welch_p_of((x.mean(), x.std(ddof=1), len(x)), (y.mean(), y.std(ddof=1), len(y)))


def welch_p_of(a: tuple[float, float, int], b: tuple[float, float, int]) -> float:
    """Return Welch's p-value from means, standard deviations and numbers of runs, at least two.

    Examples
    --------
    >>> round(welch_p_of((2.0, 1.0, 3), (5.5, 1.2909944487, 4)), 4)
    0.0101
    """
    if a[1] == b[1] == 0:
        return float(a[0] == b[0])
    return float(stats.ttest_ind_from_stats(*a, *b, equal_var=False).pvalue)


def pooled_p(groups: Sequence[ArrayLike]) -> float | None:
    """Return the two-sided p of the paired t-test over several problems that count alike.

    The statistic is the mean over problems of the mean difference; its variance adds up from the problems' variances,
    with the degrees of freedom of Welch and Satterthwaite. For one problem it is the paired t-test. None unless every
    problem has two pairs at least.

    Examples
    --------
    >>> round(pooled_p([[1.0, 1.5, 2.0]]), 4) == round(paired_p([1.0, 1.5, 2.0], [0.0, 0.0, 0.0]), 4)
    True
    >>> round(pooled_p([[1.0, 1.5, 2.0], [0.5, 0.7, 0.1]]), 4)
    0.0081
    """
    if not _testable(groups):
        return None
    mean, error, freedom = _pooled(groups)
    return float(2 * stats.t.sf(abs(mean) / error, freedom)) if error > 0 else float(mean == 0)


def pooled_interval(groups: Sequence[ArrayLike], level: float = 0.95) -> tuple[float, float]:
    """Return the mean over problems that count alike, and the half width of its confidence interval.

    The half width is 0 where a problem has fewer than two pairs. See :func:`pooled_p`.

    Examples
    --------
    >>> mean, half = pooled_interval([[1.0, 2.0, 4.0]])
    >>> round(mean, 4), round(half, 4)
    (2.3333, 3.7946)
    """
    if not _testable(groups):
        return float(np.mean([np.asarray(group, dtype=float).mean() for group in groups])), 0.0
    mean, error, freedom = _pooled(groups)
    return mean, float(stats.t.ppf(0.5 + level / 2, freedom) * error)


def equivalence_p(groups: Sequence[ArrayLike], margin: float) -> float | None:
    """Return the p of the two one-sided tests (TOST): small where the mean surely lies between -margin and margin.

    A difference that is not significant is no evidence of equality; this is. It is the larger p of the two tests; see
    :func:`pooled_p` for the statistic.

    Examples
    --------
    >>> close = [[0.1, -0.2, 0.1, 0.3, -0.1]]
    >>> round(equivalence_p(close, 1.0), 4), round(equivalence_p(close, 0.1), 4)
    (0.0002, 0.2646)
    """
    if not _testable(groups):
        return None
    mean, error, freedom = _pooled(groups)
    room = margin - abs(mean)
    return float(stats.t.sf(room / error, freedom)) if error > 0 else float(room <= 0)


def least_margin(groups: Sequence[ArrayLike], level: float = LEVEL) -> float | None:
    """Return the smallest margin within which `equivalence_p` shows equality at that level.

    Examples
    --------
    >>> close = [[0.1, -0.2, 0.1, 0.3, -0.1]]
    >>> round(equivalence_p(close, least_margin(close)), 4)
    0.05
    """
    if not _testable(groups):
        return None
    mean, half = pooled_interval(groups, 1.0 - 2.0 * level)
    return abs(mean) + half


def _testable(groups: Sequence[ArrayLike]) -> bool:
    return len(groups) > 0 and min(np.size(group) for group in groups) >= 2


def _pooled(groups: Sequence[ArrayLike]) -> tuple[float, float, float]:
    """Return the mean of the groups' means, its standard error, and Satterthwaite's degrees of freedom."""
    parts = [np.asarray(group, dtype=float) for group in groups]
    variances = np.array([part.var(ddof=1) / len(part) for part in parts])
    weights = sum(variance**2 / (len(part) - 1) for variance, part in zip(variances, parts, strict=True))
    total = float(variances.sum())
    freedom = float(total**2 / weights) if weights > 0 else 1.0
    return float(np.mean([part.mean() for part in parts])), math.sqrt(total) / len(parts), freedom


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number, by Holm's step-down method. None: there was no test.

    Examples
    --------
    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    ascending = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(ascending):
        largest = max(largest, min(1.0, (len(ascending) - rank) * p))
        corrected[i] = largest
    return corrected


def band(curves: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Return the mean of curves and the half width of its confidence band, pointwise by Student's t."""
    mean = curves.mean(axis=0)
    if len(curves) < 2:
        return mean, np.zeros_like(mean)
    return mean, stats.t.ppf(0.5 + level / 2, len(curves) - 1) * stats.sem(curves)
