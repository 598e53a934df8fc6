"""The random policy: the zero of the paper's normalised score."""

from collections.abc import Hashable, Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lim2.agents.base import Agent, Array


class Uniform(Agent):
    """Play every arm with the same probability and learn nothing.

    Examples
    --------
    >>> agent = Uniform(n_arms=3, n_features=2, seed=0)
    >>> [agent.act([0.0, 0.0]) for _ in range(5)]
    [0, 1, 1, 0, 1]
    """

    name: ClassVar[str] = "Uniform"

    def __init__(
        self,
        n_arms: int | None = None,
        n_features: int | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(n_arms, n_features, arms=arms, initial_pulls=0, seed=seed, settings=locals())

    def _look(self, contexts: Array) -> tuple[int, ...]:
        return contexts.shape[:-1]

    def _draw(self, seen: tuple[int, ...]) -> Array:
        # Independent scores, so that any eligible subset is uniform too.
        return self._act_rng.random((*seen, self.n_arms))

    def _beliefs(self, seen: tuple[int, ...]) -> tuple[Array, Array]:
        return np.full((*seen, self.n_arms), np.nan), np.full((*seen, self.n_arms), np.nan)

    def _chances(self, seen: tuple[int, ...], eligible: NDArray[np.intp]) -> Array:
        return np.full((*seen, len(eligible)), 1.0 / len(eligible))

    def _add_arm(self, like: int | None) -> None:
        pass

    def _remove_arm(self, arm: int) -> None:
        pass

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        pass
