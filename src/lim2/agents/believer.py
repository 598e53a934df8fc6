"""Agents that hold beliefs about every arm's score, and explore by them."""

from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2._blas import one_thread
from lim2.agents.base import Agent, Array
from lim2.agents.checks import one_of
from lim2.exploration import UCB, Beliefs, Exploration, Thompson


def make_exploration(exploration: str | Exploration) -> Exploration:
    """Return the exploration that a setting names; an object is taken as it is."""
    if isinstance(exploration, str):
        return Thompson() if one_of("exploration", exploration, ("thompson", "ucb")) == "thompson" else UCB()
    if not callable(getattr(exploration, "scores", None)):
        raise ValueError(
            f"exploration must be 'thompson', 'ucb' or an object with a method `scores`, such as "
            f"lim2.exploration.UCB(optimism=2.0); got {exploration!r}"
        )
    return exploration


class Believer(Agent):
    """An agent with a linear belief about every arm over some features of the context."""

    _kept: ClassVar[tuple[str, ...]] = (*Agent._kept, "posterior")
    _served: ClassVar[tuple[str, ...]] = (*Agent._served, "posterior")

    def __init__(
        self,
        n_arms: int | None,
        n_features: int | None,
        *,
        arms: Iterable[Hashable] | None,
        exploration: str | Exploration,
        initial_pulls: int,
        min_propensity: float,
        seed: int | None,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            arms=arms,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            seed=seed,
            settings=settings,
        )
        self.exploration = make_exploration(exploration)
        self.posterior: Beliefs

    def _objects(self) -> dict[str, Any]:
        return {**super()._objects(), "exploration": self.exploration}

    def _features(self, contexts: Array) -> Array:
        """Return the features of (n, n_features) contexts, as (n, width)."""
        raise NotImplementedError

    def _features_like(self, contexts: Array) -> Array:
        """Return the features of one context as a vector, or of many as rows."""
        one = contexts.ndim == len(self.context_shape)
        return self._features(contexts[None])[0] if one else self._features(contexts)

    def _look(self, contexts: Array) -> Array:
        return self._features_like(contexts)

    def _draw(self, seen: Array) -> Array:
        return self.exploration.scores(self.posterior, seen, self._act_rng)

    def _beliefs(self, seen: Array) -> tuple[Array, Array]:
        means, spread = self.posterior.moments(seen)
        return means, np.sqrt(self.posterior.with_noise(spread))

    def _chances(self, seen: Array, eligible: NDArray[np.intp]) -> Array:
        propensities = getattr(self.exploration, "propensities", None)  # isinstance of a protocol is slow
        if not callable(propensities):
            raise NotImplementedError(
                f"{self.exploration!r} does not tell its propensities, so only `act` works: give it a method "
                "`propensities(posterior, features, eligible)`, see lim2.exploration.KnowsPropensities"
            )
        chances: Array = propensities(self.posterior, seen, eligible)
        return chances

    def _add_arm(self, like: int | None) -> None:
        self.posterior.add_arm(like)

    def _remove_arm(self, arm: int) -> None:
        self.posterior.remove_arm(arm)

    def means(self, contexts: ArrayLike) -> Array:
        """Return the expected score of every arm: (n_arms,) for one context, (n, n_arms) for rows of contexts."""
        return self._moments(contexts)[0]

    def variances(self, contexts: ArrayLike) -> Array:
        """Return the variance of every arm's score, in the shape of :meth:`means`; infinite where a <= 1."""
        return self.posterior.with_noise(self._moments(contexts)[1])

    def _moments(self, contexts: ArrayLike) -> tuple[Array, Array]:
        one = np.ndim(contexts) == len(self.context_shape)
        xs = self._checked_context(contexts) if one else self._checked_contexts(contexts)
        with one_thread:
            return self.posterior.moments(self._features_like(xs))


def with_intercept(features: Array) -> Array:
    """Append a constant 1 to every row."""
    out = np.empty((len(features), features.shape[1] + 1))
    out[:, :-1] = features
    out[:, -1] = 1.0
    return out
