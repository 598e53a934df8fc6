"""Estimates of a policy's value from weighted rewards, with confidence intervals: pure functions over arrays.

A weight is the probability of the logged arm under the evaluated policy, divided by its logged propensity. Given the
past, the mean of a weighted reward is the policy's value, even if the logging policy was learning. So IPS and DR are
means of unbiased terms, and SNIPS is a ratio of two such means.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """An estimate, its standard error, and its confidence interval from low to high."""

    value: float
    error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


def mean_of(terms: Array, level: float) -> Estimate:
    """Return the mean of terms, with Student's interval.

    Examples
    --------
    >>> print(mean_of(np.array([0.0, 1.0, 1.0, 0.0, 1.0]), 0.95))
    0.6000 [-0.0801, 1.2801]
    """
    n = len(terms)
    return student(float(terms.mean()), float(terms.std(ddof=1)) / math.sqrt(n), n, level)


def mean_of_bounded(terms: Array, width: float, level: float) -> Estimate:
    """Return the mean of terms, with the empirical Bernstein interval of Maurer and Pontil (2009), theorem 4.

    It is valid for any number of terms, not only asymptotically, and is wider. ``width`` is the largest possible term
    minus the smallest.

    Examples
    --------
    >>> print(mean_of_bounded(np.tile([0.0, 1.0], 5000), 1.0, 0.95))
    0.5000 [0.4842, 0.5158]
    """
    n = len(terms)
    logarithm = math.log(4 / (1 - level))  # half of what may go wrong on each side
    variance = float(terms.var(ddof=1))
    half = math.sqrt(2 * variance * logarithm / n) + 7 * width * logarithm / (3 * (n - 1))
    value = float(terms.mean())
    return Estimate(value, math.sqrt(variance / n), value - half, value + half)


def snips(weights: Array, rewards: Array, level: float) -> Estimate:
    """Return the self-normalised estimate, with the interval of the delta method.

    Examples
    --------
    >>> print(snips(np.array([2.0, 0.0, 2.0, 0.0]), np.array([1.0, 0.0, 0.5, 1.0]), 0.95))
    0.7500 [0.1004, 1.3996]
    """
    n, total = len(weights), float(weights.sum())
    if total == 0:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    value = float(weights @ rewards) / total
    residuals = weights * (rewards - value) * (n / total)
    return student(value, math.sqrt(float(residuals @ residuals) / (n * (n - 1))), n, level)


def doubly_robust(weights: Array, rewards: Array, predicted: Array, expected: Array) -> Array:
    """Return the terms whose mean is the doubly robust estimate.

    ``predicted`` is the model's reward of the logged arm, made without its reward; ``expected`` that of the policy.
    """
    terms: Array = expected + weights * (rewards - predicted)
    return terms


def effective_size(weights: Array) -> float:
    """Return the effective sample size of the weights (Kish).

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 0.0, 2.0]))
    2.6666666666666665
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def student(value: float, error: float, n: int, level: float) -> Estimate:
    """Return an estimate with Student's interval."""
    half = float(special.stdtrit(n - 1, 0.5 + level / 2)) * error
    return Estimate(value, error, value - half, value + half)
