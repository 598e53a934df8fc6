"""Optimism in the face of uncertainty, on the same beliefs."""

import numpy as np
from numpy.typing import NDArray

from lim2.exploration.posterior import Array, Beliefs
from lim2.exploration.propensity import one_hot


class UCB:
    """Play the arm whose upper confidence bound, mean + optimism * scale of its score, is largest.

    Parameters
    ----------
    optimism
        How many scales of the Student-t score are added to its mean.

    Examples
    --------
    >>> from lim2.exploration import Posterior
    >>> posterior = Posterior(n_arms=2, width=1)
    >>> posterior.observe(0, np.array([1.0]), 0.5)
    >>> UCB(optimism=2.0).scores(posterior, np.array([1.0])).round(3).tolist()
    [1.616, 2.0]
    """

    def __init__(self, optimism: float = 1.0) -> None:
        if not optimism >= 0:
            raise ValueError(f"optimism must be 0 or positive, got {optimism!r}")
        self.optimism = float(optimism)

    def scores(self, posterior: Beliefs, features: Array, rng: np.random.Generator | None = None) -> Array:  # noqa: ARG002
        """Return every arm's upper bound, for one feature vector (width,) or for many (n, width); draws nothing."""
        mean, spread = posterior.moments(features)
        return mean + self.optimism * posterior.scales(spread)

    def propensities(self, posterior: Beliefs, features: Array, eligible: NDArray[np.intp]) -> Array:
        """Return 1 for the eligible arm with the largest bound, 0 for the others; the first of equals."""
        return one_hot(self.scores(posterior, features)[..., eligible])

    def __repr__(self) -> str:
        return f"UCB(optimism={self.optimism:g})"
