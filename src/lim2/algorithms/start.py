"""The start in the scales of the data, as ``docs/agent.md`` has it: what AdaptiveTS and a scaled LinearTS share."""

import numpy as np

from lim2.state import Array

TURNS = 24  # at the start, all arms together
A0 = 15.0  # the noise variance starts at InvGamma(A0, A0 s^2), with s the standard deviation of the rewards
ARMS_PER_VARIANCE = 6.0
ITEM_VARIANCE = 0.2  # of items, which share one belief: most of what makes rewards differ is noise
TEMPERATURE, OPTIMISM = 0.1, 0.4  # a score is drawn as mean + scale * (OPTIMISM + TEMPERATURE * t)


def turns_of(n_arms: int) -> int:
    """Return the number of initial pulls of every arm: more if there are few arms."""
    return max(TURNS // n_arms, 2)


def variance_of(n_arms: int) -> float:
    """Return the variance of what a group of features adds to a score, in units of that of the rewards.

    It is larger where there are many arms: the one that is right may then be far above what is usual.
    """
    return max(n_arms / ARMS_PER_VARIANCE, 1.0)


def linear_start(width: int, varying: int, scale: float, n_arms: int) -> tuple[Array, float, float]:
    """Return the prior of an arm: precisions of its weights in units of the noise, a and b.

    What a context as a whole adds to a score has the variance of the rewards, or more, and the constant likewise. The
    mean squared length of a scaled context is the number of its columns that vary.

    Parameters
    ----------
    width
        Number of features: scaled columns, and a constant 1.
    varying
        Number of columns that vary.
    scale
        Standard deviation of the rewards.
    n_arms
        Number of arms.

    Examples
    --------
    >>> precision, a, b = linear_start(width=4, varying=2, scale=10.0, n_arms=12)
    >>> precision.tolist(), a, b
    ([1.0, 1.0, 1.0, 0.5], 15.0, 1500.0)
    """
    precision = np.full(width, max(varying, 1) / variance_of(n_arms))
    precision[-1] = 1.0 / variance_of(n_arms)
    return precision, A0, A0 * scale**2
