"""Component 2, exploration: the posterior of each arm, and how an arm is chosen from it."""

from typing import Protocol, runtime_checkable

import numpy as np

from lim2.exploration.random import Random
from lim2.exploration.scores import StudentT
from lim2.exploration.thompson import Thompson
from lim2.exploration.ucb import UCB
from lim2.state import Array


class Exploration(Protocol):
    """Maps the distribution of every arm's score to one score per arm; the arm with the largest score is played."""

    def scores(self, score: StudentT, rng: np.random.Generator) -> Array:
        """Return every arm's score, in the shape of ``score.mean``."""
        ...


@runtime_checkable
class KnowsPropensities(Protocol):
    """Additional method of an exploration, needed by ``decide`` and ``propensities``."""

    def propensities(self, score: StudentT) -> Array:
        """Return the probability that each arm has the largest score, without drawing."""
        ...


def named(exploration: "str | Exploration") -> Exploration:
    """Return the exploration named by a setting; an object is returned unchanged."""
    if isinstance(exploration, str):
        choices: dict[str, Exploration] = {"thompson": Thompson(), "ucb": UCB()}
        if exploration not in choices:
            raise ValueError(f"exploration must be one of 'thompson', 'ucb', got {exploration!r}")
        return choices[exploration]
    if not callable(getattr(exploration, "scores", None)):
        raise ValueError(
            f"exploration must be 'thompson', 'ucb' or an object with a method `scores`, such as "
            f"lim2.exploration.UCB(optimism=2.0); got {exploration!r}"
        )
    return exploration


__all__ = ["UCB", "Exploration", "KnowsPropensities", "Random", "StudentT", "Thompson"]
