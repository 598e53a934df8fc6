"""Thompson sampling in score space.

The paper samples a weight vector w for every arm and plays the arm with the largest z'w. Given the noise, z'w is
normal with mean z'mu and variance noise * z'cov z, independent between arms. With the noise integrated out it is
Student-t with 2a degrees of freedom. So one scalar per arm is drawn: no weight vector, no factor of a covariance.
"""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from lim2 import _kernels
from lim2.exploration.propensity import chances_of_largest
from lim2.exploration.scores import StudentT
from lim2.state import Array


@dataclass(frozen=True)
class Thompson:
    """Play the arm whose sampled score, mean + scale * (optimism + temperature * t), is largest.

    Parameters
    ----------
    temperature
        Factor of the scale of the draw: 1 samples from the posterior, smaller values explore less.
    optimism
        Number of scales added to every mean, as in :class:`lim2.exploration.UCB`.

    Examples
    --------
    >>> score = StudentT(np.array([0.0, 100.0]), np.ones(2), np.full(2, 12.0))
    >>> Thompson().scores(score, np.random.default_rng(0)).argmax()
    np.int64(1)
    >>> Thompson(temperature=0.0, optimism=2.0).scores(score, np.random.default_rng(0)).tolist()
    [2.0, 102.0]
    """

    temperature: float = 1.0
    optimism: float = 0.0

    def __post_init__(self) -> None:
        for name in ("temperature", "optimism"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
                raise ValueError(f"{name} must be finite and at least 0, got {value!r}")

    def scores(self, score: StudentT, rng: np.random.Generator) -> Array:
        """Draw a score for every arm."""
        if score.mean.ndim == 1:
            return _kernels.draw(rng, *score, self.optimism, self.temperature)
        freedom, shape = score.freedom, score.mean.shape
        drawn = rng.standard_normal(shape) if freedom[0] == math.inf else rng.standard_t(freedom, size=shape)
        if self.temperature != 1.0 or self.optimism:
            drawn = self.optimism + self.temperature * drawn
        drawn *= score.scale
        drawn += score.mean
        return drawn

    def joint_scores(self, score: StudentT, covariance: Array, rng: np.random.Generator) -> Array:
        """Draw correlated scores of items that share one posterior, (k,).

        Parameters
        ----------
        score
            Marginal distributions, all with the same degrees of freedom.
        covariance
            Covariance matrix (k, k); its diagonal holds the squared scales.
        """
        values, vectors = np.linalg.eigh(covariance)
        drawn: Array = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(values)))
        freedom = float(score.freedom[0])
        if freedom < math.inf:
            drawn /= math.sqrt(rng.chisquare(freedom) / freedom)
        return score.mean + self.optimism * score.scale + self.temperature * drawn

    def propensities(self, score: StudentT) -> Array:
        """Return the probability that each arm has the largest score, by quadrature, without drawing."""
        mean, scale, freedom = score
        if self.temperature != 1.0 or self.optimism:
            mean, scale = mean + self.optimism * scale, self.temperature * scale
        return chances_of_largest(mean, scale, freedom)
