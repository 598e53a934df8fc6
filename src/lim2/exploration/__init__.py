"""Component 2, exploration: what is believed about each arm, and how an arm is chosen from it."""

from typing import Protocol

import numpy as np

from lim2.exploration.posterior import Array, Beliefs, Posterior, RecursivePosterior
from lim2.exploration.thompson import Thompson
from lim2.exploration.transported import TransportedPosterior
from lim2.exploration.ucb import UCB


class Exploration(Protocol):
    """Turns beliefs into scores; the arm with the largest is played."""

    def scores(self, posterior: Beliefs, features: Array, rng: np.random.Generator) -> Array:
        """Return every arm's score, (n_arms,) for one feature vector or (n, n_arms) for many."""
        ...


__all__ = ["UCB", "Beliefs", "Exploration", "Posterior", "RecursivePosterior", "Thompson", "TransportedPosterior"]
