"""The random policy: the zero of the paper's normalised score."""

from typing import ClassVar

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

    def __init__(self, n_arms: int, n_features: int, *, seed: int | None = None) -> None:
        super().__init__(n_arms, n_features, initial_pulls=0, seed=seed, settings=locals())

    def _scores(self, contexts: Array) -> Array:
        # Independent scores, so that any eligible subset is uniform too.
        return self._act_rng.random((*contexts.shape[:-1], self.n_arms))

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        pass
