"""NeuralLinearMM: limited memory with a prior for the mean only, the paper's baseline 6."""

from dataclasses import dataclass

from lim2.algorithms.neural import Buffered
from lim2.algorithms.neural_linear_base import Restart, Round


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearMM(Restart, Buffered):
    """LiM2 without the matched covariance: the last layer is the prior mean, I / prior_precision the prior covariance.

    Its settings are those of :class:`lim2.algorithms.LiM2`.
    """

    @property
    def round(self) -> Round:
        """Train in every round on a buffer; the last layer is the prior of the mean."""
        return Round(mean_prior=True, train_every=1, all_arms=False)
