"""NeuralLinearMM: limited memory with a prior for the mean only, the paper's baseline 6."""

from dataclasses import dataclass

from lim2.algorithms.neural import Buffered
from lim2.algorithms.neural_linear_base import Restart, Round


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearMM(Restart, Buffered):
    """LiM2 without the matched covariance: the last layer is the prior mean, I / prior_precision the prior covariance.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, buffer, batch, steps, initial_pulls, epsilon, prior_precision, a0, b0, \
    learning_rate, intercept, exploration, representation, seed, standardize
        The same as for :class:`lim2.algorithms.LiM2`.
    """

    @property
    def round(self) -> Round:
        """Train in every round on a buffer; the last layer is the prior of the mean."""
        return Round(mean_prior=True, train_every=1, all_arms=False)
