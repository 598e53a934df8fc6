"""What worlds share: rates of clicks from scores, and delays of rewards.

Rates follow the logistic model with asinh(score) in place of the score. It needs a square root only: exponentials of
different processors differ in the last bit, and a seed must give the same arrays everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lim2.problems.draw import ordered_product, stream
from lim2.problems.problem import Array
from lim2.problems.synthetic.linear import weights

FIRST_CLICK, LAST_CLICK, WINDOW = 1, 60, 360  # decisions until a click is known, and until it is known that none came


def odds_ratio(scores: Array) -> Array:
    """Return exp(asinh(score)), the factor by which a score multiplies the odds of a click.

    Examples
    --------
    >>> odds_ratio(np.array([0.0, 0.75, -0.75])).tolist()
    [1.0, 2.0, 0.5]
    """
    return scores + np.sqrt(1.0 + scores**2)


def click_rates(rate: float, scores: Array) -> Array:
    """Return the probability of a click for every score.

    Examples
    --------
    >>> click_rates(0.5, np.array([0.0, 0.75])).round(4).tolist()  # odds of 1 and 2
    [0.5, 0.6667]
    """
    if not 0.0 < rate < 1.0:
        raise ValueError(f"rate must be between 0 and 1, got {rate}")
    odds = rate / (1.0 - rate) * odds_ratio(scores)
    return odds / (1.0 + odds)


def clicks_of(seed: int, rates: Array) -> Array:
    """Draw a reward of 0 or 1 for every rate."""
    return (stream(seed, "clicks").random(rates.shape) < rates).astype(np.float64)


def arm_effects(seed: int, n_arms: int, width: float) -> Array:
    """Return evenly spaced effects from -width to width in random order: all seeds are about equally hard.

    Examples
    --------
    >>> sorted(arm_effects(0, 3, 0.4).tolist())
    [-0.4, 0.0, 0.4]
    """
    return stream(seed, "arms").permutation(np.linspace(-width, width, n_arms))


def tastes(seed: int, contexts: Array, n_arms: int, size: float) -> Array:
    """Return linear scores of each context and arm; over standard contexts their standard deviation is `size`."""
    return size * ordered_product(contexts, weights(seed, contexts.shape[1], n_arms))


def late_zeros(
    seed: int, rewards: Array, first: int = FIRST_CLICK, last: int = LAST_CLICK, window: int = WINDOW
) -> NDArray[np.int64]:
    """Draw delays: a click is known after `first` to `last` decisions, its absence once the window closes."""
    if not 0 <= first <= last <= window:
        raise ValueError(f"first, last and window must ascend from 0, got {first}, {last} and {window}")
    clicked = stream(seed, "delays").integers(first, last + 1, rewards.shape)
    return np.where(rewards != 0.0, clicked, window)
