"""LinearTS: Thompson sampling on the raw context, the paper's Algorithm 1 with unknown noise."""

import functools
import itertools
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms import running_rewards
from lim2.algorithms.base import Algorithm, Diagnostics, nothing_to_report
from lim2.algorithms.running_rewards import NO_REWARDS, Rewards
from lim2.algorithms.start import OPTIMISM, TEMPERATURE, linear_start, turns_of
from lim2.checks import share
from lim2.exploration import Exploration, StudentT, Thompson, named, posterior, rank_k, roots, sums
from lim2.exploration.posterior import Posterior, check_prior
from lim2.exploration.rank_k import by_arm
from lim2.exploration.roots import RootPosterior
from lim2.exploration.sums import Sums, added, added_many, moved, no_sums, shifted, solve
from lim2.representation.intercept import with_one
from lim2.representation.scaling import (
    Moments,
    Scaling,
    covers,
    covers_each,
    map_between,
    no_moments,
    observe,
    scaled,
    scaling,
    unlimited,
)
from lim2.representation.scaling import observe_many as observe_contexts
from lim2.state import Array, Ints, Writes, with_arm, without_arm, written

# The scaling in use follows the moments while few contexts are known, and then whenever so many more are: far less than
# moments vary by chance.
EVERY_UP_TO, GROWTH = 16, 1.05
PULLS, PRECISION, A, B = 2, 0.25, 6.0, 6.0  # of the published runs


class State(NamedTuple):
    """Posterior of every arm; the other fields are only used with ``scaled``, ``standardize`` or ``forget``."""

    posterior: Any  # RootPosterior; Posterior where it is solved from sums
    sums: Sums | None  # of rewards minus their centre in use, as is the posterior
    moments: Moments | None
    scaling: Scaling | None  # in use; it follows the moments from time to time
    renewed: Annotated[float, "", "nonnegative"]  # how many contexts were known when it last did
    rewards: Rewards | None  # their moments, and the centre and scale in use; with ``scaled`` only


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearTS(Algorithm):
    """Thompson sampling for linear contextual bandits.

    The posterior of each arm is exact Bayesian linear regression on the context, by rank-one updates in
    O(n_features^2); no past data are stored. The priors expect rewards and columns of order 1; with ``scaled=True``
    both may have any scale and origin.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context.
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    intercept
        Whether to append a constant 1 to the context, as in the published runs.
    initial_pulls
        Number of initial pulls of every arm, in turn. None: 2; with ``scaled=True`` up to 24 in total, but at least 2
        per arm.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, from 0 to 1.
    prior_precision
        Precision of the prior N(0, noise / prior_precision) of the weights. None: 0.25. Not with ``scaled=True``.
    a0, b0
        Prior InvGamma(a0, b0) of the noise variance. None: 6 each. Not with ``scaled=True``.
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``. None: ``"thompson"``,
        which samples from the posterior; with ``scaled=True``
        ``lim2.exploration.Thompson(temperature=0.1, optimism=0.4)``.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.
    standardize
        Whether to scale raw columns by their running mean and standard deviation. The posterior stays exact: when the
        scaling is renewed, it equals that of a regression on all contexts in the new scaling.
    scaled
        Whether to set the priors by the scales of the data, and to explore less than plain Thompson sampling, as
        ``AdaptiveTS`` does: the simplest choice for columns and rewards of any scale. Columns are scaled as with
        ``standardize=True``. With m and s the running mean and standard deviation of all rewards, the prior mean of
        every arm's score is m, and its prior variance is c s^2 from the context plus c s^2 from the constant, with c =
        max(1, n_arms / 6). The prior of the noise variance is InvGamma(15, 15 s^2). m and s are renewed with the
        scaling. See ``docs/learning.md``.
    forget
        Share of all information that decays in every round, 0.001 for a memory of about 1,000 rounds; see
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

    A column of a million and rewards of 500, in which little varies:

    >>> rng = np.random.default_rng(0)
    >>> agent = lim2.LinearTS(n_arms=2, n_features=1, scaled=True, seed=0)
    >>> right = 0
    >>> for x in rng.normal(1e6, 3.0, size=200):
    ...     arm = agent.act([x])
    ...     right += int(arm == (x > 1e6))
    ...     agent.update([x], arm, 500.0 + 0.01 * (x - 1e6) * (1 if arm else -1))
    >>> right, agent.means([1e6 + 3.0]).round(2).tolist()
    (191, [499.97, 500.03])
    """

    initial_pulls: int | None = None
    intercept: bool = True
    prior_precision: float | None = None
    a0: float | None = None
    b0: float | None = None
    exploration: str | Exploration | None = None
    standardize: bool = False
    scaled: bool = False
    forget: float = 0.0

    state_type: ClassVar[type[Any]] = State
    draws: ClassVar[bool] = False
    batches: ClassVar[bool] = True

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        for name in ("prior_precision", "a0", "b0"):
            if self.scaled and getattr(self, name) is not None:
                raise ValueError(f"{name} cannot be used with scaled=True, which sets the priors itself: leave it out")
        if not self.scaled:
            check_prior(*self._prior)
        share("forget", self.forget)
        if self.scales and not self.intercept:
            word = "scaled" if self.scaled else "standardize"
            raise ValueError(f"{word}=True needs intercept=True, which absorbs changes of the columns' means")
        _ = self.policy

    @functools.cached_property
    def turns(self) -> int:
        """Number of initial pulls of every arm, in turn."""
        if self.initial_pulls is not None:
            return super().turns
        return turns_of(len(self.names)) if self.scaled else PULLS

    @functools.cached_property
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""
        if self.exploration is None:
            return Thompson(TEMPERATURE, OPTIMISM) if self.scaled else Thompson()
        return named(self.exploration)

    @functools.cached_property
    def scales(self) -> bool:
        """Whether columns are scaled."""
        return self.scaled or self.standardize

    @functools.cached_property
    def beliefs(self) -> Any:
        """The kind of posterior: roots, which stay exact forever, or one that is solved from sums."""
        return posterior if self.scales or self.forget else roots

    @functools.cached_property
    def width(self) -> int:
        """Number of features."""
        return (self.shape[0] if self.crossing is None else self.crossing.width) + self.intercept

    @functools.cached_property
    def _prior(self) -> tuple[float, float, float]:
        """The precision of the weights, a and b that an arm starts from, unless data say."""
        given = ((self.prior_precision, PRECISION), (self.a0, A), (self.b0, B))
        precision, a, b = (usual if value is None else value for value, usual in given)
        return precision, a, b

    def _start(self, used: Scaling | None, rewards: Rewards | None, n_arms: int) -> tuple[Any, float, float]:
        """Return the precisions of the weights, a and b that an arm starts from."""
        if used is None or rewards is None:
            return self._prior
        varies = used.factor != 0.0
        varying = int(np.count_nonzero(varies))
        if self.crossing is not None:  # the products, too
            varying += int(np.count_nonzero(varies[: self.crossing.context])) * int(
                np.count_nonzero(varies[self.crossing.context :])
            )
        return linear_start(self.width, varying, rewards.scale, n_arms)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return the initial state."""
        moments = no_moments(self.shape) if self.scales else None
        used = None if moments is None else scaling(moments)
        rewards = NO_REWARDS if self.scaled else None
        start = self.beliefs.prior(n_arms, self.width, *self._start(used, rewards, n_arms))
        kept = no_sums(n_arms, self.width) if self.beliefs is posterior else None
        return State(start, kept, moments, used, 0.0, rewards)

    def features(self, state: State, contexts: NDArray[Any]) -> Array:
        """Return the contexts in the scaling in use, with the products of items and a constant 1."""
        return self._features(state, contexts, self.crossing)

    def _features(self, state: State, contexts: NDArray[Any], crossed: Any) -> Array:
        if state.scaling is not None:
            contexts = scaled(state.scaling, contexts)
        if crossed is not None:
            contexts = crossed(contexts)
        return with_one(contexts) if self.intercept else contexts

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        return self._score(state, self.features(state, contexts))

    def _score(self, state: State, features: Array) -> StudentT:
        score: StudentT = self.beliefs.score(state.posterior, features)
        return score if state.rewards is None else score._replace(mean=score.mean + state.rewards.center)

    def score_items(self, state: State, rows: NDArray[Any], decisions: int) -> StudentT:
        """Return the scores of the candidates of one or several decisions."""
        if self.crossing is None or decisions > 1:
            return self.score(state, rows)
        return self._score(state, self._features(state, rows, self.crossing.in_one_context))

    def joint_covariance(self, state: State, rows: NDArray[Any]) -> Array:
        """Return the covariance matrix of the scores of rows of context and item."""
        cov: Array = self.beliefs.covariance(state.posterior, self.features(state, rows))
        return cov

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
        new, due = (state, False) if state.moments is None else self._rescaled(state, context, reward)
        assert new.sums is not None
        z = self.features(new, context)
        if new.rewards is not None:
            reward -= new.rewards.center
        if not (self.forget or due):
            beliefs, kept = posterior.observe(state.posterior, arm, z, reward), sums.observe(new.sums, arm, z, reward)
            return Writes(new, [*beliefs, *kept])
        whole = added(new.sums, arm, z, reward, keep=1.0 - self.forget)
        start = self._start(new.scaling, new.rewards, len(whole.weight))
        return new._replace(posterior=solve(whole, *start), sums=whole)

    def _rescaled(self, state: State, context: NDArray[Any], reward: float) -> tuple[State, bool]:
        """Add a tuple to the moments; if the scales are then out of date, renew them. Return whether they were."""
        moments, used, renewed, rewards = state[2:]
        assert moments is not None and used is not None
        moments = observe(moments, context, 1.0 - self.forget)
        fits = moments.weight > EVERY_UP_TO and moments.weight < GROWTH * renewed and covers(used, context)
        if rewards is not None:
            rewards = running_rewards.observe(rewards, reward, 1.0 - self.forget)
            fits = fits and running_rewards.covers(rewards, reward)
        new = state._replace(moments=moments, rewards=rewards)
        return (new, False) if fits and not self.forget else (self._renewed(new), True)

    def _renewed(self, state: State) -> State:
        """Renew the scales from the moments, and express the sums in them."""
        kept, moments, used, rewards = state.sums, state.moments, state.scaling, state.rewards
        assert kept is not None and moments is not None and used is not None
        latest = scaling(moments)
        change = map_between(used, latest)
        kept = moved(kept, change if self.crossing is None else self.crossing.mapping(change))
        if rewards is not None:
            before, rewards = rewards.center, running_rewards.renew(rewards)
            kept = shifted(kept, rewards.center - before)
        return State(state.posterior, kept, moments, latest, moments.weight, rewards)

    # A batch: as one reward after the other

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[State | Writes, Diagnostics]:  # fmt: skip
        """Condition every played arm on its rewards by a rank-k update. The posteriors equal those of a loop.

        Where a loop would renew the scales in the middle of a batch, they are renewed there.
        """
        new: State | Writes = state
        if state.sums is None:
            Z = self.features(state, contexts)
            rows = [rank_k.predicted_many(state.posterior, i, Z[own], rewards[own])[0] for i, own in by_arm(arms)]
            new = Writes(state, list(itertools.chain.from_iterable(rows)))
        elif self.forget:
            new = self._learn_fading(state, contexts, arms, rewards)
        else:
            while len(rewards):
                state = written(new) if isinstance(new, Writes) else new
                count = self._before_renewal(state, contexts, rewards)
                if count:
                    new = self._learn_fitting(state, contexts[:count], arms[:count], rewards[:count])
                else:
                    count = 1
                    new = self._learn_from_sums(state, contexts[0], int(arms[0]), float(rewards[0]))
                contexts, arms, rewards = contexts[count:], arms[count:], rewards[count:]
        return new, nothing_to_report

    def _learn_fading(self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array) -> State:
        """Let all sums fade reward by reward, and solve once with the last scales."""
        keep, new = 1.0 - self.forget, state
        if state.moments is not None:
            new = new._replace(moments=observe_contexts(state.moments, contexts, keep))
            if state.rewards is not None:
                new = new._replace(rewards=running_rewards.observe_many(state.rewards, rewards, keep))
            new = self._renewed(new)
        assert new.sums is not None
        Z = self.features(new if new.scaling is None else new._replace(scaling=unlimited(new.scaling)), contexts)
        whole = added_many(new.sums, arms, Z, rewards - (0.0 if new.rewards is None else new.rewards.center), keep)
        start = self._start(new.scaling, new.rewards, len(whole.weight))
        return new._replace(posterior=solve(whole, *start), sums=whole)

    def _before_renewal(self, state: State, contexts: NDArray[Any], rewards: Array) -> int:
        """Return the number of tuples before the first that makes the scales out of date."""
        assert state.moments is not None and state.scaling is not None
        weights = state.moments.weight + np.arange(1.0, len(rewards) + 1.0)
        fits = (weights > EVERY_UP_TO) & (weights < GROWTH * state.renewed) & covers_each(state.scaling, contexts)
        if state.rewards is not None:
            fits &= np.abs(rewards - state.rewards.center) <= state.rewards.limit
        return len(fits) if fits.all() else int(fits.argmin())

    def _learn_fitting(self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array) -> Writes:
        """Add tuples in the scales in use, which stay."""
        assert state.moments is not None and state.sums is not None
        new, rows, Z = (
            state._replace(moments=observe_contexts(state.moments, contexts)),
            [],
            self.features(state, contexts),
        )
        if state.rewards is not None:
            new = new._replace(rewards=running_rewards.observe_many(state.rewards, rewards))
            rewards = rewards - state.rewards.center
        for arm, own in by_arm(arms):
            rows += rank_k.observe_many(state.posterior, arm, Z[own], rewards[own])
            rows += sums.observe_many(state.sums, arm, Z[own], rewards[own])
        return Writes(new, rows)

    # Arms and files

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return a state with one more arm: from the prior, or a copy of another."""
        start = self._start(state.scaling, state.rewards, len(state.posterior.a) + 1)
        beliefs = with_arm(state.posterior, like, self.beliefs.prior(1, self.width, *start))
        kept = None if state.sums is None else with_arm(state.sums, like, no_sums(1, self.width))
        return state._replace(posterior=beliefs, sums=kept)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        kept = None if state.sums is None else without_arm(state.sums, arm)
        return state._replace(posterior=without_arm(state.posterior, arm), sums=kept)

    def kinds(self) -> dict[str, Any]:
        """Return the types of what depends on the settings."""
        solved, scales = self.beliefs is posterior, self.scales
        return {
            "posterior": Posterior if solved else RootPosterior, "sums": Sums if solved else None,
            "moments": Moments if scales else None, "scaling": Scaling if scales else None,
            "rewards": Rewards if self.scaled else None,
        }  # fmt: skip

    def sizes(self, n_arms: int) -> dict[str, Any]:
        """Return the lengths of the state's axes."""
        return {**super().sizes(n_arms), "g": self.width}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""
        if state.rewards is not None:
            running_rewards.check(state.rewards)
