"""AdaptiveTS: Thompson sampling with two Bayesian regressions over one representation, in bounded memory.

The features of a context are the hidden layer of a network, the scaled context and a constant 1. The *full* regression
uses all of them, the *linear* one the context and the constant. Between refits a round is the exact conjugate update of
the played arm. A refit takes over the trained network, the scales of columns and rewards and the widths of the linear
prior, tests for a change, and fits every arm again: prior, sums over evicted tuples, buffer. Formulas:
``docs/concepts/agent.md``.
"""

import copy
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms import adaptive_ts_files as files
from lim2.algorithms import reward_scale
from lim2.algorithms.base import Diagnostics, rms
from lim2.algorithms.delays import Delays, stamped, stamped_one
from lim2.algorithms.neural import BUFFER_PER_ARM, WithNetwork, check_network, report
from lim2.algorithms.reward_scale import RewardScale, limited
from lim2.algorithms.scale_free_prior import A0, ITEM_VARIANCE, LINEAR_A0, OPTIMISM, TEMPERATURE, turns_of, variance_of
from lim2.checks import number, positive_int
from lim2.exploration import Exploration, StudentT, Thompson, sqrt_posterior
from lim2.exploration import sufficient_statistics as statistics
from lim2.exploration.batch_update import by_arm, predicted_many
from lim2.exploration.sqrt_posterior import LinearPosterior, Predicted, Roots, SqrtPosterior, TriangularPosterior
from lim2.exploration.sufficient_statistics import Sums, block, of_arm, sums_of, total
from lim2.memory import Memory, sample, store, store_many
from lim2.moments import Moments, Scaling, no_moments, observe_many, scaling
from lim2.representation import MLP, Representation, RMSProp, Step
from lim2.representation import view as views
from lim2.representation.no_network import NoNetwork
from lim2.representation.view import View, squared_lengths
from lim2.state import Array, Count, Ints, Write, Writes, with_arm, without_arm, written

SMALLEST_BUFFER, BATCH, RATE_DECAY = 1000, 128, 0.005
MOST_STEPS = 64  # of training, for a batch of rewards
GROWTH, PART = 0.2, 8  # a refit is due after a fifth of the rounds or an eighth of the buffer
SAMPLE = 512  # tuples from which the size of the features is measured
LEAD_RANGE, LEAD_DECAY = 10.0, 0.9995  # the linear regression decides alone from a lead of so many nats on
FULL_SCALE = 0.6  # of the scores of the full regression, whose prior for the hidden layer is wide
WIDTHS = np.power(4.0, -np.arange(8.0))  # of the prior of context and constant
PAST_WEIGHTS = np.array([1.0, 1 / 16, 1 / 256])  # of the data before a change
LONGEST_WINDOW = 16  # of recent decisions in a test for change, in units of the shortest one: all of the buffer


class State(NamedTuple):
    """State of AdaptiveTS."""

    network: Any  # in training; the view has an older copy
    view: View  # contexts -> features
    full: SqrtPosterior | None  # over hidden layer, context and constant; None: there is no hidden layer
    linear: LinearPosterior | None  # over context and constant; None: contexts are no vectors
    lead: float  # log predictive density of `linear` minus that of `full`, decayed
    noise: Annotated[float, "", "positive"]  # prior noise of `linear`: that of all arms together
    precision: Annotated[Array, "g", "positive"]  # of the weights in the prior
    memory: Memory  # the buffer; its stamps tell when decisions were made
    evicted: Sums  # over tuples that have left the buffer, of rewards minus their mean at the last refit
    moments: Moments | None  # of the columns
    rewards: RewardScale
    delays: Delays
    refitted: Count  # round of the last refit
    tested: Count  # decisions since this stamp have not been tested for a change
    refits: Count
    changes: Count


class ForItems(NamedTuple):
    """Part of the state that scores items: only features that can be nonzero, and triangular sqrt_posterior."""

    view: View
    features: Ints  # of all that the view gives
    full: TriangularPosterior | None
    linear: TriangularPosterior | None
    lead: float


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptiveTS(WithNetwork):
    """Thompson sampling that finds its own scales, features and width of prior. It is the recommended agent.

    It takes columns and rewards of any scale: clicks, revenue, counts, ratings. Two Bayesian regressions predict every
    reward before they learn it: one on the context, one that adds the hidden layer of a network. The linear one decides
    where its predictions are better, and the evidence chooses how much a context may change its scores at all, so that
    useless columns cost little. A change of the rewards is detected, single outliers are limited, and time and memory
    per round are bounded. See ``docs/concepts/agent.md``.

    Parameters
    ----------
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out if the representation knows it.
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    hidden
        Sizes of the network's hidden layers. ``()``: none, a linear agent.
    learning_rate
        Initial rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used.
    buffer
        Number of tuples kept at a refit, all arms together, in equal shares. Up to an eighth more are stored before the
        next refit. None: 100 per arm, and at least 1,000.
    train_every
        Number of rounds between two training steps. math.inf: never train the network. None: 2; with items math.inf,
        because products of context and item replace the training at less cost.
    temperature
        Random part of a draw, 0.4 by default: a score is drawn as mean + scale * (optimism + temperature * t), with t
        Student-t. Plain Thompson sampling has temperature 1 and optimism 0.
    optimism
        Constant part of a draw, 0.4 by default: a bonus for uncertain arms.
    change_threshold
        Increase of the log density of recent rewards, in nats, above which earlier data lose weight. math.inf: never,
        for a problem that does not change.
    reward_range
        Smallest and largest possible reward, if known. The agent then explores for rewards that it has never observed:
        give it if large rewards are rare. Rewards outside count as the nearer end.
    initial_pulls
        Number of initial pulls of every arm, in turn. None: up to 24 for all arms together, but at least 2 per
        arm, so that the agent observes an arm in several contexts before it discards it.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, from 0 to 1.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.
    n_item_features
        Number of features of an item, instead of arms. Items are passed with every call, see :class:`lim2.ItemAgent`.

    Examples
    --------
    >>> import lim2
    >>> rng = np.random.default_rng(0)
    >>> agent = lim2.AdaptiveTS(n_arms=2, n_features=2, seed=0)
    >>> reward = 0.0
    >>> for context in rng.normal(size=(500, 2)):
    ...     arm = agent.act(context * [1e-6, 1e6])  # columns of any size
    ...     r = float(arm == (context[0] * context[1] > 0))
    ...     agent.update(context * [1e-6, 1e6], arm, r)
    ...     reward += r
    >>> reward > 400  # chance: 250
    True
    >>> agent.state.memory.held <= 500, agent.info.refits < 60, agent.info.changes
    (True, True, 0)
    """

    initial_pulls: int | None = None
    hidden: int | Sequence[int] = (64,)
    learning_rate: float = 0.02
    buffer: int | None = None
    train_every: float | None = None
    temperature: float = TEMPERATURE
    optimism: float = OPTIMISM
    change_threshold: float = 12.0
    reward_range: Sequence[float] | None = None

    state_type: ClassVar[type[Any]] = State
    batches: ClassVar[bool] = True
    dated: ClassVar[bool] = True

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        if self.train_every not in (None, math.inf):
            positive_int("train_every", self.train_every)  # type: ignore[arg-type]  # refuses what is no number
        if self.change_threshold != math.inf:
            number("change_threshold", self.change_threshold, least=0.0)
        _ = self.capacity(len(self.names)), self.least_scale
        if not self.network.width + self.linear:
            raise ValueError("hidden=() needs contexts that are vectors: give a size as n_features")

    @functools.cached_property
    def turns(self) -> int:
        """Number of initial pulls of every arm, in turn."""
        return turns_of(len(self.names)) if self.initial_pulls is None else super().turns

    @functools.cached_property
    def period(self) -> float:
        """Number of rounds between two training steps."""
        usual = 2 if self.crossing is None and self.network.width else math.inf
        return usual if self.train_every is None else self.train_every

    @functools.cached_property
    def network(self) -> Representation:
        """The representation in the settings."""
        if self.representation is not None:
            return self.representation
        if not isinstance(self.hidden, int) and not len(self.hidden):
            return NoNetwork()
        return MLP(self.hidden, RMSProp(self.learning_rate, decay=RATE_DECAY))

    @functools.cached_property
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""
        return Thompson(self.temperature, self.optimism)

    @functools.cached_property
    def least_scale(self) -> float:
        """Smallest scale of rewards: half of their range, if known."""
        return 0.0 if self.reward_range is None else reward_scale.half_range(self.reward_range)

    @functools.cached_property
    def columns(self) -> tuple[int, ...]:
        """Shape of a context or, with items, of a context, an item and their products."""
        return self.shape if self.crossing is None else (self.crossing.width,)

    @functools.cached_property
    def linear(self) -> int:
        """Number of features taken from the context."""
        return views.linear_columns(self.columns, self.takes_floats)

    def capacity(self, n_arms: int) -> int:
        """Return the number of tuples kept at a refit."""
        usual = max(BUFFER_PER_ARM * n_arms, SMALLEST_BUFFER)
        return usual if self.buffer is None else positive_int("buffer", self.buffer)

    def features(self, view: View, contexts: NDArray[Any]) -> Array:
        """Return the features of rows of contexts under a view."""
        return views.features(self.network, view, contexts, self.linear, self.crossing)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the initial state."""
        f, hidden, x = self.network.init(self.shape, n_arms, rng), self.network.width, self.linear
        moments = no_moments(self.shape) if self.takes_floats else None
        order, width = np.arange(self.columns[0]) if 0 < x < self.columns[0] else None, hidden + x + 1
        full = sqrt_posterior.prior(n_arms, width, 1.0, A0, A0) if hidden else None
        linear = LinearPosterior(*sqrt_posterior.prior(n_arms, x + 1, 1.0, LINEAR_A0, LINEAR_A0)) if x else None
        return State(
            f, View(f, None if moments is None else scaling(moments), order), full, linear, 0.0, 1.0, np.ones(width),
            memory.empty(None, n_arms, self.shape), statistics.no_sums(n_arms, width), moments,
            reward_scale.NO_REWARDS, Delays(0, 0, 0), 0, 0, 0, 0,
        )  # fmt: skip

    # Deciding

    def score(self, state: State | ForItems, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        one = contexts.ndim == len(self.shape)
        z = self.features(state.view, contexts[None] if one else contexts)
        return self._score(state, z[0] if one else z)

    def score_items(self, state: State | ForItems, rows: NDArray[Any], decisions: int) -> StudentT:
        """Return the scores of the candidates of one or several decisions."""
        if self.crossing is None:
            return self.score(state, rows)
        crossed = self.crossing.in_one_context if decisions == 1 else self.crossing
        return self._score(state, views.features(self.network, state.view, rows, self.linear, crossed))

    def _score(self, state: State | ForItems, z: Array) -> StudentT:
        """Return the score by the full regression, by the linear one, or between the two."""
        hidden, share = self.network.width, self._share(state)
        if isinstance(state, ForItems):
            z = z.take(state.features, axis=1)
        if state.full is None or share == 1.0:
            assert state.linear is not None
            return sqrt_posterior.score(state.linear, z[..., hidden:])
        mean, scale, freedom = sqrt_posterior.score(state.full, z)
        if share == 0.0 or state.linear is None:
            return StudentT(mean, FULL_SCALE * scale, freedom)
        simple = sqrt_posterior.score(state.linear, z[..., hidden:])
        scale = (1.0 - share) * FULL_SCALE * scale + share * simple.scale
        return StudentT(mean + share * (simple.mean - mean), scale, freedom)

    def _share(self, state: State | ForItems) -> float:
        """Return the weight of the linear regression in a decision."""
        return 1.0 if state.full is None else min(max(state.lead / LEAD_RANGE, 0.0), 1.0)

    def joint_covariance(self, state: State | ForItems, rows: NDArray[Any]) -> Array:
        """Return the covariance matrix of the scores of rows of context and item, from the regression that decides."""
        z, scale = self.features(state.view, rows), self.score(state, rows).scale[:, 0]
        z = z.take(state.features, axis=1) if isinstance(state, ForItems) else z
        leads = state.linear is not None and self._share(state) > 0.5
        beliefs, z = (state.linear, z[:, self.network.width :]) if leads else (state.full, z)
        assert beliefs is not None
        cov = sqrt_posterior.covariance(beliefs, z)
        return cov * np.multiply.outer(*2 * (scale / np.sqrt(np.maximum(cov.diagonal(), np.finfo(float).tiny)),))

    def for_items(self, state: State | ForItems) -> State | ForItems:
        """Return the part of the state that scores items, without columns that have never varied: they are 0."""
        if isinstance(state, ForItems) or self.crossing is None:
            return state
        varies, hidden, view = np.ones(len(state.evicted.cross[0]), dtype=bool), self.network.width, state.view
        if view.scaling is not None and view.order is None:
            varies[hidden : hidden + len(view.scaling.factor)] = view.scaling.factor != 0.0
        full = None if state.full is None else sqrt_posterior.of_features(state.full, varies)
        linear = None if state.linear is None else sqrt_posterior.of_features(state.linear, varies[hidden:])
        return ForItems(view, np.flatnonzero(varies), full, linear, state.lead)

    def for_deciding(self, state: State) -> State | ForItems:
        """Return what scores items, or the state without the buffer and the sums over what has left it."""
        scores = self.for_items(state)
        return scores._replace(evicted=None, memory=None) if isinstance(scores, State) else scores  # type: ignore[arg-type]

    # Learning

    def newest(self, state: State) -> int:
        """Return the time of the newest decision whose reward was learned."""
        return state.delays.newest

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator,
        decided: int | None = None,
    ) -> tuple[State | Writes, Diagnostics]:  # fmt: skip
        """Store the tuple, train the network, update the arm, and refit all arms if that is due."""
        stamp, delays = stamped_one(state.delays, decided)
        E, _ = store(state.memory, context, arm, reward, stamp)
        new, step = self._trained(state._replace(memory=E, delays=delays), 1, rng)
        z, r = self.features(new.view, context[None])[0], limited(new.rewards, reward)
        rows: list[Write] = []
        predictions: list[Predicted] = []
        for beliefs, first in self._members(new):
            writes, prediction = sqrt_posterior.predicted(beliefs, arm, z[first:], r)
            rows, predictions = rows + writes, [*predictions, prediction]
        lead = LEAD_DECAY * new.lead
        if len(predictions) == 2 and self._is_tried(new, arm):
            lead += _gain(*predictions)
        return self._learned(Writes(new._replace(lead=lead), rows), state.view, step)

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator,
        decided: Ints | None = None,
    ) -> tuple[State | Writes, Diagnostics]:  # fmt: skip
        """Learn all tuples in one update: one rank-k update per arm, at most one refit."""
        k = len(rewards)
        stamps, delays = stamped(state.delays, k, decided)
        E = store_many(state.memory, contexts, arms, rewards, stamps)
        new, step = self._trained(state._replace(memory=E, delays=delays), k, rng)
        Z, r, gains = self.features(new.view, contexts), limited(new.rewards, rewards), np.zeros(k)
        rows: list[Write] = []
        for arm, places in by_arm(arms):
            predictions: list[Predicted] = []
            for beliefs, first in self._members(new):
                writes, prediction = predicted_many(beliefs, arm, Z[places, first:], r[places])
                rows, predictions = rows + writes, [*predictions, prediction]
            if len(predictions) == 2:
                gains[places] = _gain(*predictions) * self._is_tried(new, arm, np.arange(len(places)))
        lead = LEAD_DECAY**k * new.lead + float(np.dot(LEAD_DECAY ** np.arange(k - 1.0, -1.0, -1.0), gains))
        return self._learned(Writes(new._replace(lead=lead), rows), state.view, step)

    def _members(self, state: State) -> Iterator[tuple[Roots, int]]:
        """Yield the regressions, each with the first feature that it uses."""
        if state.full is not None:
            yield state.full, 0
        if state.linear is not None:
            yield state.linear, self.network.width

    def _is_tried(self, state: State, arm: int, later: Any = 0) -> Any:
        """Return whether an arm has more rewards than the linear regression has weights: then its densities count."""
        assert state.full is not None
        return state.full.a[arm] + 0.5 * later >= A0 + 0.5 * (self.linear + 1)

    def _learned(self, new: Writes, before: View, step: Step | None) -> tuple[State | Writes, Diagnostics]:
        """Return the updated state, refitted if that is due, and the diagnostics."""
        rounds, capacity = new.state.memory.stored, self.capacity(len(new.state.memory.counts))
        if rounds - new.state.refitted < min(GROWTH * rounds, capacity / PART):
            return new, lambda: self._report(new.state, step, None)
        refitted = self._refitted(self._rescaled(written(new)))
        return refitted, lambda: self._report(refitted, step, before)

    def _trained(self, state: State, k: int, rng: np.random.Generator) -> tuple[State, Step | None]:
        """Return the state with the network trained, as often as is due after k rewards."""
        after, f, step = state.memory.stored, state.network, None
        if self.period == math.inf or not state.refits:
            return state, None
        steps = int(min(after // self.period - (after - k) // self.period, MOST_STEPS))
        if steps:
            batch = sample(state.memory, BATCH, rng, batches=steps)
            inputs = views.scaled_rows(state.view, batch.contexts)
            targets = (limited(state.rewards, batch.rewards) - state.rewards.mean) / state.rewards.scale
            for start in range(0, len(targets), BATCH):
                rows = slice(start, start + BATCH)
                f, step = views.train(self.network, f, inputs[rows], batch.arms[rows], targets[rows])
        return state._replace(network=f), step

    # Refits

    def _rescaled(self, state: State) -> State:
        """Take over the moments of the new tuples, and let the noise start at the new scale of the rewards."""
        E, full, linear, before = state.memory, state.full, state.linear, state.rewards.scale**2
        rows = E.rows()
        new = rows[len(rows) - (E.stored - state.refitted) :]
        low, high = self.reward_range or reward_scale.limits(E.rewards[rows])
        rewards = state.rewards._replace(low=float(low), high=float(high))
        rewards = reward_scale.observe(rewards, limited(rewards, E.rewards[new]), self.least_scale)
        noise = spread = rewards.scale**2
        if full is not None:  # errors in the first rewards, of unknown scale, say nothing
            full = full._replace(b=A0 * spread + (full.b - A0 * before if state.refits else (full.a - A0) * spread))
        if state.refits and linear is not None:  # that of all arms together
            errors, count = (linear.b - LINEAR_A0 * state.noise).sum(), (linear.a - LINEAR_A0).sum()
            noise = float((A0 * spread + max(errors, 0.0)) / (A0 + max(count, 0.0)))
        moments = None if state.moments is None else observe_many(state.moments, E.contexts[new])
        return state._replace(moments=moments, rewards=rewards, noise=noise, full=full)

    def _refitted(self, state: State) -> State:
        """Fit every arm again: new features, scales and widths; older data weigh less after a change."""
        E, rewards, every_arm = state.memory, state.rewards, range(len(state.memory.counts))
        view, closed, slots = self._viewed(state), state.delays.closed, E.rows()
        Z, arms, stamps = self.features(view, E.contexts[slots]), E.arms[slots], E.stamps[slots]
        r, shift = limited(rewards, E.rewards[slots]) - rewards.mean, rewards.mean - rewards.origin
        starts = self._windows(state, stamps)
        ages = np.searchsorted([*starts, closed], stamps, side="right")  # 0: past; the last: rewards are under way
        groups = _groups(arms, ages, len(every_arm), len(starts) + 2)
        sums = [[sums_of(Z[rows], r[rows]) for rows in by_age] for by_age in groups]
        evicted = [statistics.centred(of_arm(state.evicted, arm), shift) for arm in every_arm]
        known = [total(evicted[arm], *sums[arm][:-1]) for arm in every_arm]
        precision = self._precision(state, Z[:: max(-(-E.held // SAMPLE), 1)], known)
        weights, since = np.ones(len(sums)), closed
        for place, since in reversed(list(enumerate(starts))):  # noqa: B007  # the shortest window of recent decisions first
            past = [total(evicted[arm], *sums[arm][: place + 1]) for arm in every_arm]
            recent = [np.concatenate(by_age[place + 1 : -1]) for by_age in groups]
            weights = self._weights_of_past(state, precision, past, [(Z[rows], r[rows]) for rows in recent])
            if weights.min() < 1.0:  # a change
                break
        changed, shares = weights < 1.0, memory.newest_in_shares(E, self.capacity(len(sums)))
        valid = ~changed[arms] | (stamps >= since)
        gone, stays = valid & ~shares, valid & shares
        for arm in every_arm:
            if changed[arm]:
                evicted[arm] = statistics.times(past[arm], float(weights[arm]))
                known[arm] = total(evicted[arm], sums_of(*(part[recent[arm]] for part in (Z, r))))
            leaving = np.flatnonzero(gone & (arms == arm))
            evicted[arm] = total(evicted[arm], sums_of(Z[leaving], r[leaving]))
        data = [total(known[arm], sums[arm][-1]) for arm in every_arm]
        return self._fitted(state._replace(precision=precision), data)._replace(
            view=view, rewards=rewards._replace(origin=rewards.mean),
            memory=E if stays.all() else memory.with_slots(E, stays),
            evicted=Sums(*map(np.array, zip(*evicted, strict=True))),
            delays=state.delays._replace(longest=0, before=state.delays.longest), refitted=E.stored,
            tested=closed if starts else state.tested, refits=state.refits + 1,
            changes=state.changes + bool(changed.any()),
        )  # fmt: skip

    def _windows(self, state: State, stamps: Ints) -> list[int]:
        """Return the stamps from which on decisions are recent in the tests that are due, ascending.

        A test is due once an eighth of the buffer is new and closed. At every second one a window twice as long is
        tested as well, at every fourth one four times as long, and so on: rare rewards need a longer look.
        """
        shortest, closed = self.capacity(len(state.memory.counts)) / PART, state.delays.closed
        known = np.sort(stamps[stamps < closed])
        if self.change_threshold == math.inf or (known >= state.tested).sum() < shortest:
            return []
        count = max(int(closed / shortest), 1)
        length = min(count & -count, LONGEST_WINDOW)  # the largest power of two that divides the number of the test
        longest = int(known[max(len(known) - int(length * shortest), 0)])
        return [longest, state.tested] if longest < state.tested else [state.tested]

    def _viewed(self, state: State) -> View:
        """Return the view with the trained network and the current scales; columns stay once sums depend on them."""
        order, E = state.view.order, state.memory
        if order is not None and not state.evicted.weight.any():
            rows = E.contexts[E.rows()]
            order = views.by_frequency(rows if self.crossing is None else self.crossing(rows))
        return View(state.network, None if state.moments is None else scaling(state.moments), order)

    def _precision(self, state: State, features: Array, known: Sequence[Sums]) -> Array:
        """Return the prior precisions of the weights.

        The hidden layer adds the variance of the rewards, context and constant as much of it as is likely.
        """
        variance = variance_of(len(state.memory.counts)) if self.crossing is None else ITEM_VARIANCE
        precision: Array = squared_lengths(features, self.network.width) / (variance * state.rewards.scale**2)
        first, parts = self.network.width, [arm for arm, sums in enumerate(known) if sums.weight >= 2.0]
        if state.linear is not None and parts:
            noise = state.linear.b / state.linear.a
            data = [(float(noise[arm]), block(known[arm], first), WIDTHS) for arm in parts]
            nats = np.sum([statistics.width_evidence(precision[first:], *one) for one in data], axis=0)
            precision[first:-1] /= statistics.likely_width(nats, WIDTHS)
            nats = np.sum([statistics.constant_evidence(precision[first:], *one) for one in data], axis=0)
            precision[-1] /= statistics.likely_width(nats, WIDTHS)
        return precision

    def _weights_of_past(
        self, state: State, precision: Array, past: Sequence[Sums], recent: Sequence[tuple[Array, Array]]
    ) -> Array:
        """Return how much the past of every arm counts: 1, or less if the regressions see a change.

        Where the linear one decides alone, it is tested alone: the full one has too many weights to see anything.
        """
        weights, members = np.zeros(len(past)), list(self._members(state))[::-1]  # the linear one is quicker
        alone = len(members) == 2 and self._share(state) == 1.0
        for beliefs, first in members[:1] if alone else members:
            gains = [
                statistics.forgetting(precision[first:], noise, block(sums, first), Z[:, first:], r, PAST_WEIGHTS)
                for noise, sums, (Z, r) in zip((beliefs.b / beliefs.a).tolist(), past, recent, strict=True)
            ]
            nats, likeliest = statistics.change(np.array(gains), PAST_WEIGHTS)
            if not nats > self.change_threshold:
                return np.ones(len(past))
            weights = np.maximum(weights, likeliest)
        return weights

    def _fitted(self, state: State, data: Sequence[Sums]) -> State:
        """Return the state with both regressions fitted to the sums of every arm.

        Trained features fit the buffer too well, so b of the full regression stays that of errors made before learning.
        The noise of the linear one follows from the data.
        """
        full, linear, before = state.full, state.linear, state.rewards.scale**2
        count = np.array([float(sums.weight) for sums in data])
        if full is not None:
            a, seen = A0 + 0.5 * count, full.a - A0
            b = A0 * before + (full.b - A0 * before) * np.divide(a - A0, seen, out=np.zeros(len(a)), where=seen > 0.0)
            mu, root = _fits(state, state.precision, (b / a).tolist(), data)
            full = SqrtPosterior(mu, root, a, b)
        if linear is not None:
            first, a = self.network.width, LINEAR_A0 + 0.5 * count
            parts = [block(sums, first) for sums in data]
            mu, root = _fits(state, state.precision[first:], [state.noise] * len(data), parts)
            mean = mu - state.rewards.mean * (np.arange(len(mu[0])) == len(mu[0]) - 1)
            left = np.array([s.squares for s in parts]) - np.vecdot(mean, np.array([s.cross for s in parts]))
            linear = LinearPosterior(mu, root, a, LINEAR_A0 * state.noise + 0.5 * np.maximum(left, 0.0))
        return state._replace(full=full, linear=linear)

    def _report(self, new: State, step: Step | None, before: View | None) -> dict[str, Any]:
        """Return the diagnostics of an update. ``before`` is the view that a refit has replaced."""
        values = report(self.network, new.network, new.memory, step)
        if before is not None:
            contexts = new.memory.contexts[new.memory.rows()[-BATCH:]]
            old = self.features(before, contexts)
            values["drift"] = rms(self.features(new.view, contexts) - old, old)
        evicted = max(new.memory.stored - new.memory.held, 0)
        return {**values, "evicted": evicted, "refits": new.refits, "changes": new.changes}

    # Arms

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        E, net, twin = memory.add_arm(state.memory, None), self.network, copy.deepcopy(rng)
        if like is not None:
            E = memory.copied_first(E, like, len(E.counts) - 1)  # the newest slots stay those of new tuples
        f, view = net.add_arm(state.network, like, rng), net.add_arm(state.view.network, like, twin)
        fresh = self.init(1, np.random.default_rng(0))
        fresh = fresh._replace(precision=state.precision, rewards=state.rewards, noise=state.noise)
        fresh = self._fitted(fresh, [of_arm(fresh.evicted, 0)])
        parts = {name: with_arm(getattr(state, name), like, getattr(fresh, name)) for name in _per_arm(state)}
        return state._replace(network=f, view=state.view._replace(network=view), memory=E, **parts)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        E, net = state.memory, self.network
        new = E.arms.take(E.rows())[E.held - (E.stored - state.refitted) :]
        parts = {name: without_arm(getattr(state, name), arm) for name in _per_arm(state)}
        return state._replace(
            network=net.remove_arm(state.network, arm), memory=memory.remove_arm(E, arm, None),
            view=state.view._replace(network=net.remove_arm(state.view.network, arm)),
            refitted=state.refitted + int((new == arm).sum()), **parts,
        )  # fmt: skip

    # Files

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of the networks, and the absent parts."""
        scales, narrows = self.takes_floats, 0 < self.linear < self.columns[0]
        return {
            **self.network.kinds("network"), **self.network.kinds("view/network"),
            "moments": Moments if scales else None, "view/scaling": Scaling if scales else None,
            "view/order": Ints if narrows else None,
            "full": SqrtPosterior if self.network.width else None, "linear": LinearPosterior if self.linear else None,
        }  # fmt: skip

    @classmethod
    def upgraded(cls, settings: dict[str, Any], leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of an older file, with today's defaults where it has those of then."""
        then = files.OLD_DEFAULTS if files.is_old(leaves) else {}
        return settings | {name: getattr(cls, name) for name, values in then.items() if settings.get(name) in values}

    def rebuilt(self, leaves: Mapping[str, Any]) -> State:
        """Return the state with these leaves; one of an earlier version is fitted again."""
        is_old = files.is_old(leaves)
        state: State = super().rebuilt(files.converted(leaves, self.columns[0], self.linear > 0) if is_old else leaves)
        return self._refitted(state) if is_old and state.refits else state

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that follow from the settings."""
        axes = {"g": self.network.width + self.linear + 1, "linear": self.linear + 1, "column": self.columns[0]}
        return {**super().sizes(n_arms), **self.network.sizes(self.shape, n_arms), **axes}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""
        self.check_memory(state)
        for f in (state.network, state.view.network):
            check_network(self.network, f, len(state.memory.counts))
        reward_scale.check(state.rewards.scale)
        if not state.refitted <= state.memory.stored:
            raise ValueError("the round of the last refit does not fit the number of rounds")
        if state.memory.capacity is not None:
            raise ValueError("the memory must have no fixed capacity, because refits bound it")
        if state.view.order is not None and not np.array_equal(np.sort(state.view.order), np.arange(self.columns[0])):
            raise ValueError("the order of the columns must name each of them once")


def _per_arm(state: State) -> list[str]:
    """Return the fields that hold statistics per arm."""
    return [name for name in ("full", "linear", "evicted") if getattr(state, name) is not None]


def _gain(full: Predicted, linear: Predicted) -> Any:
    """Return by how much the linear regression predicted rewards better, in nats."""
    return sqrt_posterior.log_density(linear, full.a) - sqrt_posterior.log_density(full, full.a)


def _groups(arms: Ints, ages: Ints, n_arms: int, n_ages: int) -> list[list[Ints]]:
    """Return the rows of every arm by age, in their order."""
    order, counts = np.lexsort((ages, arms)), np.bincount(arms * n_ages + ages, minlength=n_arms * n_ages)
    groups = np.split(order, np.cumsum(counts)[:-1])
    return [groups[start : start + n_ages] for start in range(0, len(groups), n_ages)]


def _fits(state: State, precision: Array, noise: Sequence[float], data: Sequence[Sums]) -> tuple[Array, Array]:
    """Return means and roots of all arms; the sums are of rewards minus their mean."""
    fits = [statistics.fit(precision * value, sums) for value, sums in zip(noise, data, strict=True)]
    mu, root = (np.array(part) for part in zip(*fits, strict=True))
    mu[:, -1] += state.rewards.mean
    return mu, root
