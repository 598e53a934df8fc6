"""NeuralLinearNaive: limited memory without priors, the paper's baseline 7."""

from dataclasses import dataclass

from lim2.algorithms.neural import Buffered
from lim2.algorithms.neural_linear_base import Restart, Round


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearNaive(Restart, Buffered):
    """LiM2 without its priors: every training restarts the posteriors from N(0, I / prior_precision) and the buffer.

    Its settings are those of :class:`lim2.algorithms.LiM2`.
    train_every
        Number of rounds between two trainings. 1: online, in every round. With more, as in the forgetting experiment
        (``train_every=400, steps=800``), the posteriors are exact between trainings and restart at each training.
    """

    train_every: int = 1

    @property
    def round(self) -> Round:
        """Train on a buffer, in every round or in phases, which refit every arm; the prior of the mean is 0."""
        return Round(mean_prior=False, train_every=self.train_every, all_arms=self.train_every > 1)
