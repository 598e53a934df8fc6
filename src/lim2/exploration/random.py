"""Uniformly random exploration."""

from dataclasses import dataclass

import numpy as np

from lim2.exploration.scores import StudentT
from lim2.state import Array


@dataclass(frozen=True)
class Random:
    """Play every eligible arm with the same probability."""

    def scores(self, score: StudentT, rng: np.random.Generator) -> Array:
        """Draw independent uniform scores, so that any eligible subset is uniform too."""
        return rng.random(score.mean.shape)

    def propensities(self, score: StudentT) -> Array:
        """Return the same probability for every arm."""
        return np.full(score.mean.shape, 1.0 / score.mean.shape[-1])
