"""Component 2, exploration: what is believed about each arm, and how an arm is chosen from it."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lim2.exploration.posterior import Array, Beliefs, Posterior, RecursivePosterior
from lim2.exploration.summed import Summed
from lim2.exploration.thompson import Thompson
from lim2.exploration.transported import TransportedPosterior
from lim2.exploration.ucb import UCB


class Exploration(Protocol):
    """Turns beliefs into scores; the arm with the largest is played."""

    def scores(self, posterior: Beliefs, features: Array, rng: np.random.Generator) -> Array:
        """Return every arm's score, (n_arms,) for one feature vector or (n, n_arms) for many."""
        ...


@runtime_checkable
class KnowsPropensities(Protocol):
    """What an exploration adds for ``decide`` and ``propensities``: how likely each arm's score is the largest."""

    def propensities(self, posterior: Beliefs, features: Array, eligible: NDArray[np.intp]) -> Array:
        """Return the chances of the eligible arms, (k,) for one feature vector or (n, k) for many; draw nothing."""
        ...


__all__ = [
    "UCB",
    "Beliefs",
    "Exploration",
    "KnowsPropensities",
    "Posterior",
    "RecursivePosterior",
    "Summed",
    "Thompson",
    "TransportedPosterior",
]
