"""LinearTS: Thompson sampling on the raw context, the paper's Algorithm 1 with unknown noise."""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Algorithm, Diagnostics, nothing_to_report
from lim2.exploration import Exploration, StudentT, named, sqrt_posterior
from lim2.exploration.batch_update import by_arm, predicted_many
from lim2.exploration.posterior import check_prior
from lim2.exploration.sqrt_posterior import SqrtPosterior
from lim2.representation.intercept import with_one
from lim2.state import Array, Ints, Writes, with_arm, without_arm

UNUSED = ("sums", "moments", "scaling", "renewed", "rewards")  # parts of files of lim2 0.2


class State(NamedTuple):
    """State of LinearTS."""

    posterior: SqrtPosterior


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearTS(Algorithm):
    """Thompson sampling for linear contextual bandits, the baseline of the paper.

    The posterior of each arm is exact Bayesian linear regression on the context, by rank-one updates in
    O(n_features^2); no past data are stored. The priors expect rewards and columns of order 1. For numbers of any scale
    and origin use ``AdaptiveTS(hidden=())``, the linear agent that finds its own scales.

    Parameters
    ----------
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    initial_pulls
        Number of initial pulls of every arm, in turn.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, from 0 to 1.
    intercept
        Whether to append a constant 1 to the context, as in the published runs.
    prior_precision
        Precision of the prior N(0, noise / prior_precision) of the weights.
    a0, b0
        Prior InvGamma(a0, b0) of the noise variance.
    exploration
        ``"thompson"``, which samples from the posterior, ``"ucb"``, or an object such as
        ``lim2.exploration.UCB(optimism=2.0)``.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.

    References
    ----------
    Agrawal and Goyal, *Thompson sampling for contextual bandits with linear payoffs*, ICML 2013.
    Riquelme, Tucker and Snoek, *Deep Bayesian bandits showdown*, ICLR 2018 (the unknown noise).

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=2, n_features=1, initial_pulls=0, seed=0)
    >>> agent.update([1.0], 0, 1.0)
    >>> agent.means([1.0]).round(3).tolist()
    [0.889, 0.0]
    """

    intercept: bool = True
    prior_precision: float = 0.25
    a0: float = 6.0
    b0: float = 6.0
    exploration: str | Exploration = "thompson"

    state_type: ClassVar[type[Any]] = State
    draws: ClassVar[bool] = False
    batches: ClassVar[bool] = True

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        check_prior(self.prior_precision, self.a0, self.b0)
        _ = self.policy

    @functools.cached_property
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""
        return named(self.exploration)

    @functools.cached_property
    def width(self) -> int:
        """Number of features."""
        return (self.shape[0] if self.crossing is None else self.crossing.width) + self.intercept

    def init(self, n_arms: int, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return the initial state: the prior of every arm."""
        return State(sqrt_posterior.prior(n_arms, self.width, self.prior_precision, self.a0, self.b0))

    def features(self, contexts: NDArray[Any], in_one_context: bool = False) -> Array:
        """Return the contexts, with the products of items and a constant 1."""
        if self.crossing is not None:
            contexts = self.crossing.in_one_context(contexts) if in_one_context else self.crossing(contexts)
        return with_one(contexts) if self.intercept else contexts

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        return sqrt_posterior.score(state.posterior, self.features(contexts))

    def score_items(self, state: State, rows: NDArray[Any], decisions: int) -> StudentT:
        """Return the scores of the candidates of one or several decisions."""
        return sqrt_posterior.score(state.posterior, self.features(rows, in_one_context=decisions == 1))

    def joint_covariance(self, state: State, rows: NDArray[Any]) -> Array:
        """Return the covariance matrix of the scores of rows of context and item."""
        return sqrt_posterior.covariance(state.posterior, self.features(rows))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[Writes, Diagnostics]:  # fmt: skip
        """Condition the played arm on one more reward: a rank-one update of its posterior."""
        return Writes(
            state, sqrt_posterior.observe(state.posterior, arm, self.features(context), reward)
        ), nothing_to_report

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[Writes, Diagnostics]:  # fmt: skip
        """Condition every played arm on its rewards by a rank-k update. The posteriors equal those of a loop."""
        Z = self.features(contexts)
        rows = [predicted_many(state.posterior, arm, Z[places], rewards[places])[0] for arm, places in by_arm(arms)]
        return Writes(state, list(itertools.chain.from_iterable(rows))), nothing_to_report

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        return State(with_arm(state.posterior, like, self.init(1, rng).posterior))

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        return State(without_arm(state.posterior, arm))

    def rebuilt(self, leaves: Mapping[str, Any]) -> State:
        """Return the state with these leaves by path; a file of lim2 0.2 has parts that are empty."""
        state: State = super().rebuilt({path: leaf for path, leaf in leaves.items() if path not in UNUSED})
        return state

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes."""
        return {**super().sizes(n_arms), "g": self.width}
