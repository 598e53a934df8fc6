"""Epsilon: the share of decisions that are drawn uniformly among the eligible arms or items."""

import numpy as np

from lim2.state import Array

# The default with a log, and in the service: the smallest share from whose logs `python -m benchmarks.evaluable`
# estimates other policies at least as well as from those of SquareCB, within one standard error in every world.
LOGGED = 0.03


def uniform_choice(epsilon: float, k: int, rng: np.random.Generator) -> int | None:
    """Draw one of k choices uniformly, with probability epsilon; otherwise return None, so that the policy decides.

    One random number says whether, and which.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> [uniform_choice(0.5, 3, rng) for _ in range(8)]
    [None, 1, 0, 0, None, None, None, None]
    """
    if not epsilon:
        return None
    drawn = rng.random()
    return min(int(drawn / epsilon * k), k - 1) if drawn < epsilon else None


def with_uniform(propensities: Array, epsilon: float) -> Array:
    """Return the propensities of decisions of which a share epsilon is uniform: (1 - epsilon) p + epsilon / k.

    Examples
    --------
    >>> with_uniform(np.array([1.0, 0.0]), 0.1).round(3).tolist()
    [0.95, 0.05]
    """
    return (1.0 - epsilon) * propensities + epsilon / propensities.shape[-1] if epsilon else propensities
