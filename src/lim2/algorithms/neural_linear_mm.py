"""NeuralLinearMM: limited memory with a prior for the mean only, the paper's baseline 6."""

import functools
from dataclasses import dataclass

from lim2.algorithms.neural import recomputing
from lim2.algorithms.restart import Restart, Round


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearMM(Restart):
    """LiM2 without the matched covariance: the last layer is the prior mean, I / prior_precision the prior covariance.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, buffer, batch, steps, initial_pulls, epsilon, prior_precision, a0, b0, \
    learning_rate, refresh, noise, intercept, exploration, representation, seed, recompute_every, recompute_share, \
    standardize, forget
        The same as for :class:`lim2.algorithms.LiM2`.
    """

    buffer: int | None = None
    refresh: str = "played"
    noise: str = "history"
    recompute_every: int = 1
    recompute_share: float = 1.0

    @functools.cached_property
    def round(self) -> Round:
        """Train in every round on a buffer; the last layer is the prior of the mean."""
        recompute = recomputing(self.recompute_every, self.recompute_share)
        return Round(True, 1, True, self.buffer, self.refresh, self.noise, recompute)
