"""Upper confidence bounds."""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from lim2.exploration.propensity import one_hot
from lim2.exploration.scores import StudentT
from lim2.state import Array


@dataclass(frozen=True)
class UCB:
    """Play the arm whose upper confidence bound, mean + optimism * scale of its score, is largest.

    Parameters
    ----------
    optimism
        Number of scales added to the mean of a score.

    Examples
    --------
    >>> score = StudentT(np.array([0.5, 0.0]), np.array([0.2, 1.0]), np.full(2, 12.0))
    >>> UCB(optimism=2.0).scores(score).tolist()
    [0.9, 2.0]
    """

    optimism: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.optimism, Real) or not 0.0 <= float(self.optimism) < math.inf:
            raise ValueError(f"optimism must be finite and at least 0, got {self.optimism!r}")

    def scores(self, score: StudentT, rng: np.random.Generator | None = None) -> Array:  # noqa: ARG002
        """Return the upper confidence bound of every arm; it draws nothing."""
        return score.mean + self.optimism * score.scale

    def propensities(self, score: StudentT) -> Array:
        """Return 1 for the arm with the largest bound and 0 for the others; ties go to the first."""
        return one_hot(self.scores(score))
