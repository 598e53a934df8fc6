"""NeuralLinearNaive: limited memory without priors, the paper's baseline 7."""

import functools
from dataclasses import dataclass

from lim2.algorithms.neural import recomputing
from lim2.algorithms.restart import Restart, Round


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearNaive(Restart):
    """LiM2 without its priors: every training restarts the posteriors from N(0, I / prior_precision) and the buffer.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, buffer, batch, steps, initial_pulls, epsilon, prior_precision, a0, b0, \
    learning_rate, refresh, noise, intercept, exploration, representation, seed, recompute_every, recompute_share, \
    standardize, forget
        The same as for :class:`lim2.algorithms.LiM2`.
    train_every
        Number of rounds between two trainings. 1: online, in every round. With more, as in the forgetting experiment
        (``train_every=400, steps=800``), the posteriors are exact between trainings and restart at each training.
    """

    buffer: int | None = None
    train_every: int = 1
    refresh: str = "played"
    noise: str = "history"
    recompute_every: int = 1
    recompute_share: float = 1.0

    @functools.cached_property
    def round(self) -> Round:
        """Train on a buffer, in every round or in phases; the prior of the mean is 0."""
        recompute = recomputing(self.recompute_every, self.recompute_share)
        return Round(False, self.train_every, True, self.buffer, self.refresh, self.noise, recompute)
