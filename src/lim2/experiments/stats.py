"""Whether a difference is more than chance: paired tests with correction, and confidence bands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Array = NDArray[np.float64]

LEVEL = 0.05  # of significance
LEAST = 6  # datasets: with fewer, Wilcoxon's signed-ranks test cannot reach that level


def paired_p(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the two-sided p of the paired t-test, for runs on the same shuffles.

    Parameters
    ----------
    a, b
        Rewards of two agents, run by run.

    Returns
    -------
    float or None
        None when there are fewer than two pairs.

    Examples
    --------
    >>> round(paired_p([1.0, 2.0, 3.0], [0.0, 0.5, 1.0]), 4)
    0.0351
    >>> paired_p([1.0, 2.0], [1.0, 2.0])
    1.0
    """
    differences = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    n = len(differences)
    return _t_p(differences.mean(), differences.std(ddof=1) / math.sqrt(n), n - 1) if n > 1 else None


def welch_p(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the two-sided p of Welch's t-test, for runs that are not paired.

    Parameters
    ----------
    a, b
        Rewards of two agents, each over its own runs.

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
    """Return Welch's p-value from means, standard deviations and numbers of runs.

    Parameters
    ----------
    a, b
        Mean, standard deviation and number of runs, at least two.

    Examples
    --------
    >>> round(welch_p_of((2.0, 1.0, 3), (5.5, 1.2909944487, 4)), 4)
    0.0101
    """
    parts = [(std**2 / n, n) for _, std, n in (a, b)]
    return _t_p(a[0] - b[0], *_error_and_freedom(parts))


def _error_and_freedom(parts: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return the standard error of a sum of means and Satterthwaite's freedom, from each one's variance and size."""
    total = sum(variance for variance, _ in parts)
    weights = sum(variance**2 / (n - 1) for variance, n in parts)
    return math.sqrt(total), total**2 / weights if weights > 0 else 1.0


def _t_p(difference: float, error: float, freedom: float) -> float:
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * special.stdtr(freedom, -abs(difference / error)))


def pooled_p(groups: Sequence[ArrayLike]) -> float | None:
    """Return the two-sided p of the paired t-test over several problems that count alike.

    The statistic is the mean over problems of the mean difference; its variance adds up from the problems' own, with
    the degrees of freedom of Welch and Satterthwaite. For one problem it is the paired t-test.

    Parameters
    ----------
    groups
        Paired differences, an array a problem.

    Returns
    -------
    float or None
        None unless every problem has two pairs at least.

    Examples
    --------
    >>> round(pooled_p([[1.0, 1.5, 2.0]]), 4) == round(paired_p([1.0, 1.5, 2.0], [0.0, 0.0, 0.0]), 4)
    True
    >>> round(pooled_p([[1.0, 1.5, 2.0], [0.5, 0.7, 0.1]]), 4)
    0.0081
    """
    parts = [np.asarray(group, dtype=float) for group in groups]
    if not parts or min(len(part) for part in parts) < 2:
        return None
    return _t_p(sum(part.mean() for part in parts), *_pooled(parts))


def pooled_interval(groups: Sequence[ArrayLike], level: float = 0.95) -> tuple[float, float]:
    """Return the mean over problems that count alike, and the half width of its confidence interval.

    The half width is 0 where a problem has fewer than two pairs. See :func:`pooled_p`.

    Parameters
    ----------
    groups
        Paired differences, an array a problem.
    level
        Confidence level.

    Examples
    --------
    >>> mean, half = pooled_interval([[1.0, 2.0, 4.0]])
    >>> round(mean, 4), round(half, 4)
    (2.3333, 3.7946)
    """
    parts = [np.asarray(group, dtype=float) for group in groups]
    mean = float(np.mean([part.mean() for part in parts]))
    if min(len(part) for part in parts) < 2:
        return mean, 0.0
    error, freedom = _pooled(parts)
    return mean, float(special.stdtrit(freedom, 0.5 + level / 2) * error / len(parts))


def equivalence_p(groups: Sequence[ArrayLike], margin: float) -> float | None:
    """Return the p of the two one-sided tests (TOST): small where the mean surely lies between -margin and margin.

    A difference that is not significant is no evidence of equality; this is. See :func:`pooled_p` for the statistic.

    Parameters
    ----------
    groups
        Paired differences, an array a problem.
    margin
        Largest difference that counts as none, in the unit of the differences.

    Returns
    -------
    float or None
        The larger p of the two tests; None unless every problem has two pairs at least.

    Examples
    --------
    >>> close = [[0.1, -0.2, 0.1, 0.3, -0.1]]
    >>> round(equivalence_p(close, 1.0), 4), round(equivalence_p(close, 0.1), 4)
    (0.0002, 0.2646)
    """
    parts = [np.asarray(group, dtype=float) for group in groups]
    if not parts or min(len(part) for part in parts) < 2:
        return None
    error, freedom = _pooled(parts)
    room = margin - abs(float(np.mean([part.mean() for part in parts])))
    if error == 0:
        return 0.0 if room > 0 else 1.0
    return float(special.stdtr(freedom, -room / (error / len(parts))))


def least_margin(groups: Sequence[ArrayLike], level: float = LEVEL) -> float | None:
    """Return the smallest margin within which `equivalence_p` shows equality at that level.

    Parameters
    ----------
    groups
        Paired differences, an array a problem.
    level
        Significance level.

    Examples
    --------
    >>> close = [[0.1, -0.2, 0.1, 0.3, -0.1]]
    >>> round(equivalence_p(close, least_margin(close)), 4)
    0.05
    """
    parts = [np.asarray(group, dtype=float) for group in groups]
    if not parts or min(len(part) for part in parts) < 2:
        return None
    mean, half = pooled_interval(parts, 1.0 - 2.0 * level)
    return abs(mean) + half


def _pooled(parts: Sequence[Array]) -> tuple[float, float]:
    return _error_and_freedom([(part.var(ddof=1) / len(part), len(part)) for part in parts])


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number, by Holm's step-down method.

    Parameters
    ----------
    ps
        Uncorrected p-values; None if there was no test.

    Examples
    --------
    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    known = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[i] = largest
    return corrected


def band(curves: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Return the mean of curves and the half width of its confidence band, pointwise by Student's t.

    Parameters
    ----------
    curves
        (runs, points).
    level
        Confidence level.
    """
    runs = len(curves)
    mean = curves.mean(axis=0)
    if runs < 2:
        return mean, np.zeros_like(mean)
    quantile = special.stdtrit(runs - 1, 0.5 + level / 2)
    return mean, quantile * curves.std(axis=0, ddof=1) / math.sqrt(runs)
