"""Component 2, exploration: what is believed about each arm, and how an arm is chosen from it."""

from typing import Protocol, runtime_checkable

import numpy as np

from lim2.exploration.random import Random
from lim2.exploration.scores import StudentT
from lim2.exploration.thompson import Thompson
from lim2.exploration.ucb import UCB
from lim2.state import Array


class Exploration(Protocol):
    """Turns the distribution of every arm's score into one score per arm; the arm with the largest is played."""

    def scores(self, score: StudentT, rng: np.random.Generator) -> Array:
        """Return every arm's score, in the shape of ``score.mean``."""
        ...


@runtime_checkable
class KnowsPropensities(Protocol):
    """What an exploration adds for ``decide`` and ``propensities``."""

    def propensities(self, score: StudentT) -> Array:
        """Return the probability that each arm's score is the largest; draw nothing."""
        ...


def named(exploration: "str | Exploration") -> Exploration:
    """Return the exploration that a setting names; an object is taken as it is."""
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


__all__ = ["UCB", "Exploration", "KnowsPropensities", "Random", "StudentT", "Thompson", "named"]
