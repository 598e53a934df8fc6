"""Thompson sampling in score space.

The paper samples noise and weights for every arm and plays the arm with the largest z'w. Given the noise, z'w is
normal with mean z'mu and variance noise * z'cov z, independent between arms, and with the noise integrated out it is
Student-t with 2a degrees of freedom. So one scalar an arm is drawn; no weight vector, no factor of a covariance.
"""

import math

import numpy as np
from numpy.typing import NDArray

from lim2.exploration.posterior import Array, Beliefs
from lim2.exploration.propensity import chances_of_largest


class Thompson:
    """Play the arm whose sampled score, mean + scale * (optimism + temperature * t), is largest.

    Parameters
    ----------
    temperature
        The share of a score's scale with which it is drawn: 1 samples the beliefs, less explores less.
    optimism
        How many scales are added to every score's mean, as :class:`UCB` does; 0 samples around the mean.

    Examples
    --------
    >>> from lim2.exploration import Posterior
    >>> posterior = Posterior(n_arms=2, width=1)
    >>> posterior.mu[1] = 100.0
    >>> Thompson().scores(posterior, np.array([1.0]), np.random.default_rng(0)).argmax()
    np.int64(1)

    Without a draw, what is left is the upper bound of :class:`UCB`:

    >>> Thompson(temperature=0.0, optimism=2.0).scores(posterior, np.array([1.0]), np.random.default_rng(0)).tolist()
    [2.0, 102.0]
    """

    def __init__(self, temperature: float = 1.0, optimism: float = 0.0) -> None:
        for name, value in (("temperature", temperature), ("optimism", optimism)):
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{name} must be 0 or positive and finite, got {value!r}")
        self.temperature, self.optimism = float(temperature), float(optimism)

    def scores(self, posterior: Beliefs, features: Array, rng: np.random.Generator) -> Array:
        """Draw every arm's score, for one feature vector (width,) or for many (n, width)."""
        mean, spread = posterior.moments(features)
        drawn = self.temperature * _student_t(2.0 * posterior.a, mean.shape, rng)
        return mean + posterior.scales(spread) * (self.optimism + drawn)

    def propensities(self, posterior: Beliefs, features: Array, eligible: NDArray[np.intp]) -> Array:
        """Return how likely each eligible arm's score is the largest, by quadrature; nothing is drawn."""
        mean, spread = posterior.moments(features)
        scale = posterior.scales(spread)
        around, scale = (mean + self.optimism * scale)[..., eligible], (self.temperature * scale)[..., eligible]
        return chances_of_largest(around, scale, 2.0 * posterior.a[eligible])

    def __repr__(self) -> str:
        return f"Thompson(temperature={self.temperature:g}, optimism={self.optimism:g})"


def _student_t(freedom: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw standard Student-t variates; one row of few arms is quicker drawn one by one, from the same stream."""
    if shape == (len(freedom),) and len(freedom) <= 16:
        return np.array([rng.standard_t(df) for df in freedom.tolist()])
    return rng.standard_t(freedom, size=shape)
