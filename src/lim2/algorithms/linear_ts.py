"""LinearTS: Thompson sampling on the raw context, the paper's Algorithm 1 with unknown noise."""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Algorithm, Diagnostics, nothing_to_report
from lim2.checks import share
from lim2.exploration import Exploration, StudentT, named, posterior, roots
from lim2.exploration.posterior import Posterior, check_prior
from lim2.exploration.roots import RootPosterior
from lim2.exploration.sums import Sums, added, moved, no_sums, solve
from lim2.representation.intercept import with_one
from lim2.representation.scaling import Moments, Scaling, covers, map_between, no_moments, observe, scaled, scaling
from lim2.state import Array, Writes, with_arm, without_arm

# The scaling in use follows the moments while few contexts are known, and then whenever so many more are: far less than
# moments vary by chance.
EVERY_UP_TO, GROWTH = 16, 1.05


class State(NamedTuple):
    """What is believed of every arm; the rest is there with ``standardize`` or ``forget`` only."""

    posterior: Any  # RootPosterior; Posterior where it is solved from sums
    sums: Sums | None
    moments: Moments | None
    scaling: Scaling | None  # in use; it follows the moments from time to time
    renewed: Annotated[float, "", "nonnegative"]  # how many contexts were known when it last did


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearTS(Algorithm):
    """Thompson sampling for linear contextual bandits.

    The belief about each arm is exact Bayesian linear regression on the context, kept up to date by rank-one updates:
    O(n_features^2) per update, and no memory of the past besides. The priors expect rewards of the order of 1.

    Parameters
    ----------
    n_arms, n_features
        Number of arms, and size of a context.
    arms
        Instead of ``n_arms``: the names of the arms, any hashable values.
    intercept
        Append a constant 1 to the context, as in the published runs.
    initial_pulls
        How often every arm is played, in turn, at the start.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    prior_precision
        The weights start at N(0, noise / prior_precision).
    a0, b0
        The noise variance starts at InvGamma(a0, b0).
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``.
    seed
        The same seed and inputs give the same decisions.
    standardize
        Scale raw columns by their running mean and deviation. The beliefs stay exact: whenever the scaling in use is
        renewed, they are those of a regression on all contexts in that scaling.
    forget
        By what share all information decays in every round, 0.001 for a memory of about 1,000 rounds; see
        ``docs/learning.md``. An update then costs O(n_arms n_features^3).

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
    standardize: bool = False
    forget: float = 0.0

    state_type: ClassVar[type[Any]] = State
    draws: ClassVar[bool] = False

    def validate(self) -> None:
        """Raise a ValueError if a setting makes no sense."""
        super().validate()
        check_prior(self.prior_precision, self.a0, self.b0)
        share("forget", self.forget)
        if self.standardize and not self.intercept:
            raise ValueError(
                "standardize=True needs intercept=True: when a column's mean moves, an intercept takes it up"
            )
        _ = self.policy

    @functools.cached_property
    def policy(self) -> Exploration:
        """How an arm is chosen from the scores."""
        return named(self.exploration)

    @functools.cached_property
    def beliefs(self) -> Any:
        """The kind of posterior: roots, which stay exact forever, or one that is solved from sums."""
        return posterior if self.standardize or self.forget else roots

    def prior(self, n_arms: int) -> Posterior | RootPosterior:
        """Return what is believed before the first reward."""
        width = self.shape[0] + self.intercept
        start: Posterior | RootPosterior = self.beliefs.prior(n_arms, width, self.prior_precision, self.a0, self.b0)
        return start

    def init(self, n_arms: int, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return the state before the first reward."""
        start = self.prior(n_arms)
        sums = no_sums(*start.mu.shape) if self.beliefs is posterior else None
        moments = no_moments(self.shape) if self.standardize else None
        return State(start, sums, moments, None if moments is None else scaling(moments), 0.0)

    def features(self, state: State, contexts: NDArray[Any]) -> Array:
        """Return the contexts in the scaling in use, with a constant 1."""
        if state.scaling is not None:
            contexts = scaled(state.scaling, contexts)
        return with_one(contexts) if self.intercept else contexts

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        score: StudentT = self.beliefs.score(state.posterior, self.features(state, contexts))
        return score

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[State | Writes, Diagnostics]:  # fmt: skip
        """Condition the played arm on one more reward: a rank-one update of its posterior."""
        if state.sums is not None:
            return self._learn_from_sums(state, context, arm, reward), nothing_to_report
        rows = roots.observe(state.posterior, arm, self.features(state, context), reward)
        return Writes(state, rows), nothing_to_report

    def _learn_from_sums(self, state: State, context: NDArray[Any], arm: int, reward: float) -> State | Writes:
        """Renew the scaling if it is due, let all sums fade, add the tuple; solve if anything but the tuple changed."""
        new, due = (state, False) if state.moments is None else self._rescaled(state, context)
        z = self.features(new, context)
        sums = added(new.sums, arm, z, reward, keep=1.0 - self.forget)  # type: ignore[arg-type]
        if not (self.forget or due):
            return Writes(new._replace(sums=sums), posterior.observe(state.posterior, arm, z, reward))
        return new._replace(posterior=solve(sums, self.prior_precision, self.a0, self.b0), sums=sums)

    def _rescaled(self, state: State, context: NDArray[Any]) -> tuple[State, bool]:
        """Take a context into the moments; where that makes the scaling in use out of date, renew it and say so."""
        moments, used = observe(state.moments, context, 1.0 - self.forget), state.scaling  # type: ignore[arg-type]
        assert used is not None and state.sums is not None
        few = moments.weight <= EVERY_UP_TO or moments.weight >= GROWTH * state.renewed
        if not (self.forget or few or not covers(used, context)):
            return state._replace(moments=moments), False
        latest = scaling(moments)
        sums = moved(state.sums, map_between(used, latest))
        return State(state.posterior, sums, moments, latest, moments.weight), True

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return a state with one more arm: from the prior, or like another."""
        fresh = self.prior(1)
        sums = None if state.sums is None else with_arm(state.sums, like, no_sums(*fresh.mu.shape))
        return state._replace(posterior=with_arm(state.posterior, like, fresh), sums=sums)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; those after it move up."""
        sums = None if state.sums is None else without_arm(state.sums, arm)
        return state._replace(posterior=without_arm(state.posterior, arm), sums=sums)

    def kinds(self) -> dict[str, Any]:
        """Return the types of what depends on the settings."""
        solved, scales = self.beliefs is posterior, self.standardize
        return {
            "posterior": Posterior if solved else RootPosterior, "sums": Sums if solved else None,
            "moments": Moments if scales else None, "scaling": Scaling if scales else None,
        }  # fmt: skip

    def sizes(self, n_arms: int) -> dict[str, Any]:
        """Return the lengths of the state's axes."""
        return {**super().sizes(n_arms), "g": self.shape[0] + self.intercept}
