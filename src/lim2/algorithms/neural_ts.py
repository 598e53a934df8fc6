"""NeuralTS: Thompson sampling over a network's gradients, the paper's baseline 4."""

from dataclasses import dataclass

from lim2.algorithms.gradient import GradientBandit
from lim2.exploration import Exploration, Thompson


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralTS(GradientBandit):
    """Thompson sampling with a network's output as the mean and its gradient as features.

    It is :class:`lim2.NeuralUCB`, with the same settings, except that the score of an arm is drawn from
    N(output, lambda nu g' U^-1 g).

    References
    ----------
    Zhang, Zhou, Li and Gu, *Neural Thompson sampling*, ICLR 2021.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.NeuralTS(n_arms=2, n_features=1, hidden=4, seed=0)
    >>> agent.update([1.0], 0, 1.0)
    >>> agent.propensities([1.0]).round(2).tolist()
    [0.6, 0.4]
    """

    @property
    def policy(self) -> Exploration:
        """The arm with the largest score drawn."""
        return Thompson()
