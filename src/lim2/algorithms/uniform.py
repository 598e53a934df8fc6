"""The random policy: the zero of the paper's normalised score."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Algorithm, Diagnostics, nothing_to_report
from lim2.exploration import Exploration, Random, StudentT
from lim2.state import Array, Ints


class State(NamedTuple):
    """The number of arms: nothing is learned."""

    n_arms: Annotated[int, "count", "arm"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Uniform(Algorithm):
    """Play every arm with the same probability and learn nothing.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.Uniform(n_arms=3, n_features=2, seed=0)
    >>> [agent.act([0.0, 0.0]) for _ in range(5)]
    [0, 1, 1, 0, 1]
    """

    initial_pulls: int | None = 0

    state_type: ClassVar[type[Any]] = State
    draws: ClassVar[bool] = False
    batches: ClassVar[bool] = True

    @property
    def policy(self) -> Exploration:
        """Every arm with the same probability."""
        return Random()

    def init(self, n_arms: int, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return the state, which never changes."""
        return State(n_arms)

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return scores without information."""
        nothing = np.full((*contexts.shape[:-1], state.n_arms), np.nan)
        return StudentT(nothing, nothing, np.full(state.n_arms, np.inf))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[State, Diagnostics]:  # fmt: skip
        """Return the state unchanged."""
        return state, nothing_to_report

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[State, Diagnostics]:  # fmt: skip
        """Return the state unchanged."""
        return state, nothing_to_report

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return a state with one more arm."""
        return State(state.n_arms + 1)

    def remove_arm(self, state: State, arm: int) -> State:  # noqa: ARG002
        """Return a state with one arm fewer."""
        return State(state.n_arms - 1)
