"""NeuralLinear: the full-memory version, trained in phases on all history, the paper's baseline 2."""

from dataclasses import dataclass
from typing import ClassVar

from lim2.algorithms.neural_linear_base import Restart, Round


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinear(Restart):
    """Neural-linear Thompson sampling with full memory.

    Between training phases the posteriors are updated exactly under fixed features. Every ``train_every`` rounds the
    network is trained on ``steps`` batches from all history, all features are recomputed, and every arm's posterior
    restarts from them. Memory and the cost of a phase grow with the number of rounds.

    Other settings are those of :class:`lim2.algorithms.LiM2`.

    Parameters
    ----------
    train_every
        Number of rounds between training phases.
    steps
        Number of batches in a training phase.

    References
    ----------
    Riquelme, Tucker and Snoek, *Deep Bayesian bandits showdown*, ICLR 2018.
    """

    steps: int = 800
    train_every: int = 400
    prior_precision: float = 0.25

    why_no_batches: ClassVar[str] = "most of its time is training in phases, of which a batch would save nothing"

    @property
    def round(self) -> Round:
        """Train in phases on everything; the prior of the mean is 0, and every arm is refitted."""
        return Round(mean_prior=False, train_every=self.train_every, all_arms=True)
