"""Your own algorithm, with LinUCB as the example: `python examples/own_algorithm.py`.

LinUCB is by Li, Chu, Langford and Schapire (2010). docs/research/adding-an-algorithm.md explains this file. Needs
`pip install lim2`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.agents import register
from lim2.algorithms.base import Algorithm, Diagnostics, nothing_to_report
from lim2.exploration import UCB, Exploration, StudentT
from lim2.state import Array, with_arm, without_arm


class State(NamedTuple):
    """The statistics of a ridge regression, per arm."""

    A: Annotated[Array, "arm d d", "psd"]  # I + the sum of x x'
    b: Annotated[Array, "arm d"]  # the sum of r x


@dataclass(frozen=True, kw_only=True, eq=False)
class LinUCB(Algorithm):
    """Play the arm with the largest x'theta + alpha sqrt(x' A^-1 x).

    Parameters
    ----------
    n_arms, n_features, arms, initial_pulls, epsilon, seed
        As for every agent.
    alpha
        The weight of the uncertainty in the upper confidence bound.
    """

    alpha: float = 1.0
    initial_pulls: int = 0

    state_type: ClassVar[type[Any]] = State
    draws: ClassVar[bool] = False

    @property
    def policy(self) -> Exploration:
        """Upper confidence bounds, without random draws."""
        return UCB(self.alpha)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return the state before the first reward."""
        d = self.shape[0]
        return State(np.tile(np.eye(d), (n_arms, 1, 1)), np.zeros((n_arms, d)))

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return x'theta and sqrt(x' A^-1 x) of every arm, for one context (d,) or rows of contexts (n, d)."""
        X = np.atleast_2d(contexts)
        solved = np.linalg.solve(state.A, np.broadcast_to(X.T, (len(state.A), *X.T.shape)))  # A^-1 x: (n_arms, d, n)
        mean = np.einsum("adn,ad->na", solved, state.b)
        scale = np.sqrt(np.einsum("adn,nd->na", solved, X))
        freedom = np.full(len(state.A), np.inf)  # normal, not Student-t
        return StudentT(mean[0], scale[0], freedom) if contexts.ndim == 1 else StudentT(mean, scale, freedom)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[State, Diagnostics]:  # fmt: skip
        """Return the state after one more reward, in new arrays; the old state does not change."""
        A, b = state.A.copy(), state.b.copy()
        A[arm] += np.outer(context, context)
        b[arm] += reward * context
        return State(A, b), nothing_to_report

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm, which starts from the prior or as a copy of another arm."""
        return with_arm(state, like, self.init(1, rng))

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without the given arm."""
        return without_arm(state, arm)

    def sizes(self, n_arms: int) -> dict[str, Any]:
        """Return the lengths of the state's axes, which `lim2.load` checks."""
        return {"arm": n_arms, "context": self.shape, "d": self.shape[0]}


make = register(LinUCB)  # now it can be created, saved, loaded and benchmarked by its name


if __name__ == "__main__":
    agent = make(n_arms=2, n_features=2, seed=0)
    rng, earned = np.random.default_rng(0), 0.0
    for context in rng.normal(size=(1000, 2)):
        arm = agent.act(context)
        reward = float(arm == (context[0] > 0.0))
        agent.update(context, arm, reward)
        earned += reward
    print(f"{agent!r} earned {earned:.0f} of 1000; a guess earns 500")
