"""AdaptiveTS: Thompson sampling with two Bayesian regressions over one representation, in bounded memory.

The features of a context are the hidden layer of a network, the scaled context and a constant 1. The *full* regression
uses all of them, the *linear* one the context and the constant. Between refits a round is the exact conjugate update of
the played arm. A refit takes over the trained network, the scales of columns and rewards and the widths of the linear
prior, tests for a change, and fits every arm again: prior, sums over evicted tuples, buffer. Formulas:
``docs/concepts/agent.md``.
"""

import copy
import functools
import itertools
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
from lim2.exploration.batch_update import by_arm, predicted_many
from lim2.exploration.sqrt_posterior import LinearPosterior, Predicted, Roots, SqrtPosterior, TriangularPosterior
from lim2.exploration.sufficient_statistics import (
    Sums,
    block,
    centred,
    change,
    constant_evidence,
    fit,
    forgetting,
    no_sums,
    of_arm,
    sums_of,
    times,
    total,
    width_evidence,
)
from lim2.memory import Memory, sample, store, store_many
from lim2.moments import Moments, Scaling, no_moments, observe_many, scaling
from lim2.representation import MLP, Representation, RMSProp, Step
from lim2.representation import view as views
from lim2.representation.no_network import NoNetwork
from lim2.representation.view import View, squared_lengths
from lim2.state import Array, Count, Ints, Write, Writes, with_arm, without_arm, written

SMALLEST_BUFFER, BATCH, RATE_DECAY = 1000, 128, 0.005
STEPS_FROM, MOST_STEPS = 1000, 8  # from this round on, a batch of rewards trains at most so often
GROWTH, PART, BATCH_PART = 0.2, 8, 3  # a refit is due after a fifth of the rounds or an eighth of the buffer (a third)
SAMPLE = 512  # tuples from which the size of the features is measured
LEAD_RANGE, LEAD_DECAY = 10.0, 0.9995  # the linear regression decides alone from a lead of so many nats on
LINEAR_SCALE = 2.0  # a calibrated prior explores too little by OPTIMISM and TEMPERATURE, chosen for a wide one
WIDTHS = np.power(4.0, -np.arange(8.0))  # of the linear prior: the widest with evidence within WIDTH_SLACK nats
PAST_WEIGHTS = np.array([1.0, 1 / 16, 1 / 256])  # of the data before a change
LONGEST_WINDOW = 16  # of recent decisions in a test for change, in units of the shortest one: all of the buffer
LEADER_FACTOR = 2.0  # of the threshold, where the linear regression decides alone and is tested alone


class Width(NamedTuple):
    """Variance of the linear prior relative to that of the full one."""

    context: Annotated[float, "", "positive"]
    constant: Annotated[float, "", "positive"]


WIDEST, WIDTH_SLACK = Width(1.0, 1.0), Width(6.0, 3.0)


class State(NamedTuple):
    """State of AdaptiveTS."""

    network: Any  # in training; the view has an older copy
    view: View  # contexts -> features
    full: SqrtPosterior | None  # over hidden layer, context and constant; None: there is no hidden layer
    linear: LinearPosterior | None  # over context and constant; None: contexts are no vectors
    lead: float  # log predictive density of `linear` minus that of `full`, decayed
    noise: Annotated[float, "", "positive"]  # prior noise of `linear`: that of all arms together
    width: Width  # of the prior of `linear`
    memory: Memory  # the buffer; its stamps tell when decisions were made
    evicted: Sums  # over tuples that have left the buffer, of rewards minus their origin
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
        Random part of a draw, 0.1 by default: a score is drawn as mean + scale * (optimism + temperature * t), with t
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
    change_threshold: float = 6.0
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
        order = np.arange(self.columns[0]) if 0 < x < self.columns[0] else None
        full = sqrt_posterior.prior(n_arms, hidden + x + 1, 1.0, A0, A0) if hidden else None
        linear = LinearPosterior(*sqrt_posterior.prior(n_arms, x + 1, 1.0, LINEAR_A0, LINEAR_A0)) if x else None
        return State(
            f, View(f, None if moments is None else scaling(moments), order), full, linear, 0.0, 1.0, WIDEST,
            memory.empty(None, n_arms, self.shape), no_sums(n_arms, hidden + x + 1), moments,
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
        if share == 0.0 or state.linear is None:
            assert state.full is not None
            return sqrt_posterior.score(state.full, z)
        by_linear = sqrt_posterior.score(state.linear, z[..., hidden:])
        by_linear = by_linear._replace(scale=LINEAR_SCALE * by_linear.scale)
        if share == 1.0 or state.full is None:
            return by_linear
        mean, scale, freedom = sqrt_posterior.score(state.full, z)
        return StudentT(mean + share * (by_linear.mean - mean), scale + share * (by_linear.scale - scale), freedom)

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
        due = self._is_due(new, 1)
        new = self._rescaled(new) if due else new
        z, r = self.features(new.view, context[None])[0], limited(new.rewards, reward)
        rows: list[Write] = []
        predictions: list[Predicted] = []
        for beliefs, first in self._members(new):
            writes, prediction = sqrt_posterior.predicted(beliefs, arm, z[first:], r)
            rows, predictions = rows + writes, [*predictions, prediction]
        lead = LEAD_DECAY * new.lead
        if len(predictions) == 2 and self._is_tried(new, arm):
            lead += _gain(*predictions)
        return self._learned(Writes(new._replace(lead=lead), rows), due, state.view, step)

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator,
        decided: Ints | None = None,
    ) -> tuple[State | Writes, Diagnostics]:  # fmt: skip
        """Learn all tuples in one update: one rank-k update per arm, at most one refit."""
        k = len(rewards)
        stamps, delays = stamped(state.delays, k, decided)
        E = store_many(state.memory, contexts, arms, rewards, stamps)
        new, step = self._trained(state._replace(memory=E, delays=delays), k, rng)
        due = self._is_due(new, k)
        new = self._rescaled(new) if due else new
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
        return self._learned(Writes(new._replace(lead=lead), rows), due, state.view, step)

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

    def _learned(self, new: Writes, due: bool, before: View, step: Step | None) -> tuple[State | Writes, Diagnostics]:
        """Return the updated state, refitted if that is due, and the diagnostics."""
        if not due:
            return new, lambda: self._report(new.state, step, None)
        refitted = self._refitted(written(new))
        return refitted, lambda: self._report(refitted, step, before)

    def _trained(self, state: State, k: int, rng: np.random.Generator) -> tuple[State, Step | None]:
        """Return the state with the network trained, as often as is due after k rewards."""
        after, f, step = state.memory.stored, state.network, None
        if self.period == math.inf:
            return state, None
        rounds = after - k
        early, due = (
            upto // self.period - rounds // self.period for upto in (max(min(after, STEPS_FROM), rounds), after)
        )
        steps = int(early + min(due - early, MOST_STEPS)) if state.refits else 0
        if steps:
            batch = sample(state.memory, BATCH, rng, batches=steps)
            inputs = views.scaled_rows(state.view, batch.contexts)
            targets = (limited(state.rewards, batch.rewards) - state.rewards.mean) / state.rewards.scale
            for start in range(0, len(targets), BATCH):
                rows = slice(start, start + BATCH)
                f, step = views.train(self.network, f, inputs[rows], batch.arms[rows], targets[rows])
        return state._replace(network=f), step

    # Refits

    def _is_due(self, state: State, k: int) -> bool:
        """Return whether to refit; ``k`` is the number of rewards that came at once."""
        rounds, part = state.memory.stored, PART if k == 1 else BATCH_PART
        return rounds - state.refitted >= min(GROWTH * rounds, self.capacity(len(state.memory.counts)) / part)

    def _rescaled(self, state: State) -> State:
        """Take over the moments of the new tuples, and let the noise start at the new scale of the rewards."""
        E = state.memory
        rows = E.rows()
        new = rows[len(rows) - (E.stored - state.refitted) :]
        low, high = self.reward_range or reward_scale.limits(E.rewards[rows])
        rewards = state.rewards._replace(low=float(low), high=float(high))
        rewards = reward_scale.observe(rewards, limited(rewards, E.rewards[new]), self.least_scale)
        moments = None if state.moments is None else observe_many(state.moments, E.contexts[new])
        before, spread = state.rewards.scale**2, rewards.scale**2
        noise, centre, full, linear = spread, None if state.refits else rewards.mean, state.full, state.linear
        if state.refits and linear is not None:  # that of all arms together
            errors = float(np.maximum(linear.b - LINEAR_A0 * state.noise, 0.0).sum())
            noise = (A0 * spread + errors) / (A0 + float(np.maximum(linear.a - LINEAR_A0, 0.0).sum()))
        return state._replace(
            moments=moments, rewards=rewards, noise=noise,
            full=None if full is None else sqrt_posterior.restarted(full, A0, before, spread, centre),
            linear=None if linear is None else sqrt_posterior.restarted(linear, LINEAR_A0, state.noise, noise, centre),
        )  # fmt: skip

    def _refitted(self, state: State) -> State:
        """Fit every arm again: new features, scales and widths; older data weigh less after a change."""
        E, rewards, every_arm = state.memory, state.rewards, range(len(state.memory.counts))
        view, hidden, closed = self._viewed(state), self.network.width, state.delays.closed
        slots = E.rows()
        Z, arms, stamps = self.features(view, E.contexts[slots]), E.arms[slots], E.stamps[slots]
        r, shift = limited(rewards, E.rewards[slots]) - rewards.origin, rewards.mean - rewards.origin
        precision = self._precision(state, Z[:: max(-(-E.held // SAMPLE), 1)])
        starts = self._windows(state, stamps)
        ages = np.searchsorted([*starts, closed], stamps, side="right")  # 0: past; the last: rewards are under way
        n_ages, order = len(starts) + 2, np.lexsort((ages, arms))  # stable: tuples stay in the order of the memory
        bounds = np.searchsorted(arms[order] * n_ages + ages[order], np.arange(len(every_arm) * n_ages + 1)).tolist()
        groups = [order[first:last] for first, last in itertools.pairwise(bounds)]
        sums = [[sums_of(Z[rows], r[rows]) for rows in groups[arm * n_ages : (arm + 1) * n_ages]] for arm in every_arm]
        evicted = [of_arm(state.evicted, arm) for arm in every_arm]
        weights, since = np.ones(len(sums)), closed
        for place, start in reversed(list(enumerate(starts))):  # the shortest window of recent decisions first
            past = [total(evicted[arm], *sums[arm][: place + 1]) for arm in every_arm]
            recent = [total(*sums[arm][place + 1 : -1]) for arm in every_arm]
            parts = [(centred(one, shift), centred(other, shift)) for one, other in zip(past, recent, strict=True)]
            weights, since = self._weights_of_past(state, precision, parts), start
            if weights.min() < 1.0:  # a change
                break
        changed = weights < 1.0
        shares = memory.newest_in_shares(E, self.capacity(len(sums)))
        stays = np.where(changed[arms], stamps >= since, shares)
        if stays.sum() > (1.0 + 1.0 / PART) * self.capacity(len(sums)):  # of a large batch
            stays &= shares
        gone = np.flatnonzero(~stays & (~changed[arms] | (stamps >= since)))
        known = []  # of every arm: without rewards of a time when others are under way
        for arm in every_arm:
            if changed[arm]:
                evicted[arm] = times(past[arm], float(weights[arm]))
                known.append(total(evicted[arm], recent[arm]))
            else:
                known.append(total(evicted[arm], *sums[arm][:-1]))
            leaving = gone[arms[gone] == arm]
            if len(leaving):
                evicted[arm] = total(evicted[arm], sums_of(Z[leaving], r[leaving]))
        width = self._width(state, precision[hidden:], [centred(one, shift) for one in known])
        narrow = _narrowed(precision[hidden:], width)
        data = [centred(total(one, by_age[-1]), shift) for one, by_age in zip(known, sums, strict=True)]
        fulls = [self._fit_full(state, arm, precision, one) for arm, one in enumerate(data)] if state.full else []
        linears = [self._fit_linear(state, narrow, block(one, hidden)) for one in data] if state.linear else []
        return state._replace(
            view=view, full=SqrtPosterior(*map(np.array, zip(*fulls, strict=True))) if state.full else None,
            linear=LinearPosterior(*map(np.array, zip(*linears, strict=True))) if state.linear else None, width=width,
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

    def _precision(self, state: State, features: Array) -> Array:
        """Return the prior precisions of the weights: each group of features adds the variance of the rewards."""
        variance = variance_of(len(state.memory.counts)) if self.crossing is None else ITEM_VARIANCE
        precision: Array = squared_lengths(features, self.network.width) / (variance * state.rewards.scale**2)
        return precision

    def _weights_of_past(self, state: State, precision: Array, parts: Sequence[tuple[Sums, Sums]]) -> Array:
        """Return how much the past of every arm counts: 1, or less if the regressions see a change.

        Where the linear one decides alone, it is tested alone: the full one has too many weights to see anything.
        """
        hidden, weights = self.network.width, np.zeros(len(parts))
        members, threshold = list(self._members(state))[::-1], self.change_threshold  # the linear one is quicker
        if len(members) == 2 and self._share(state) == 1.0:
            members, threshold = members[:1], LEADER_FACTOR * threshold
        for beliefs, first in members:
            prior = precision if first < hidden else _narrowed(precision[hidden:], state.width)
            densities = [
                forgetting(prior, noise, block(past, first), block(recent, first), PAST_WEIGHTS)
                for noise, (past, recent) in zip((beliefs.b / beliefs.a).tolist(), parts, strict=True)
            ]
            nats, likeliest = change(np.array(densities), PAST_WEIGHTS)
            if not nats > threshold:
                return np.ones(len(parts))
            weights = np.maximum(weights, likeliest)
        return weights

    def _width(self, state: State, precision: Array, data: list[Sums]) -> Width:
        """Return the widest priors of context and constant within WIDTH_SLACK nats of the best evidence of all arms."""
        if state.linear is None:
            return state.width
        noise, width, hidden = state.linear.b / state.linear.a, state.width, self.network.width
        known = [(float(noise[arm]), block(sums, hidden)) for arm, sums in enumerate(data) if sums.weight >= 2.0]
        members = ("context", width_evidence), ("constant", constant_evidence)
        for name, density in members:
            prior = _narrowed(precision, width._replace(**{name: 1.0}))
            nats = sum((density(prior, one, sums, WIDTHS) for one, sums in known), np.zeros(len(WIDTHS)))
            if nats.any():
                plausible = nats >= nats.max() - getattr(WIDTH_SLACK, name)
                width = width._replace(**{name: float(WIDTHS[plausible.argmax()])})
        return width

    def _fit_full(self, state: State, arm: int, precision: Array, data: Sums) -> tuple[Array, Array, float, float]:
        """Return mean, root, a and b of an arm of the full regression.

        Trained features fit the buffer too well, so b stays that of the errors made before learning.
        """
        assert state.full is not None
        a, b = A0 + 0.5 * float(data.weight), A0 * state.rewards.scale**2
        count = float(state.full.a[arm]) - A0
        if count > 0.0:
            b += (float(state.full.b[arm]) - b) * (a - A0) / count
        mean, root = fit(precision * (b / a), data)
        mean[-1] += state.rewards.mean
        return mean, root, a, b

    def _fit_linear(self, state: State, precision: Array, data: Sums) -> tuple[Array, Array, float, float]:
        """Return mean, root, a and b of an arm of the linear regression, whose noise follows from the data."""
        mean, root = fit(precision * state.noise, data)
        b = LINEAR_A0 * state.noise + 0.5 * max(float(data.squares) - float(np.dot(mean, data.cross)), 0.0)
        mean[-1] += state.rewards.mean
        return mean, root, LINEAR_A0 + 0.5 * float(data.weight), b

    def _report(self, new: State, step: Step | None, before: View | None) -> dict[str, Any]:
        """Return the diagnostics of an update. ``before`` is the view that a refit has replaced."""
        values = report(self.network, new.network, new.memory, step)
        if before is not None:
            contexts = new.memory.contexts[new.memory.rows()[-BATCH:]]
            old = self.features(before, contexts)
            values["drift"] = rms(self.features(new.view, contexts) - old, old)
        return {
            **values,
            "evicted": max(new.memory.stored - new.memory.held, 0),
            "refits": new.refits,
            "changes": new.changes,
        }

    # Arms

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        E, net, twin = memory.add_arm(state.memory, None), self.network, copy.deepcopy(rng)
        if like is not None:
            E = memory.copied_first(E, like, len(E.counts) - 1)  # the newest slots stay those of new tuples
        f, view = net.add_arm(state.network, like, rng), net.add_arm(state.view.network, like, twin)
        fresh = self._new_arm(state._replace(memory=E))
        parts = {name: with_arm(getattr(state, name), like, getattr(fresh, name)) for name in _per_arm(state)}
        return state._replace(network=f, view=state.view._replace(network=view), memory=E, **parts)

    def _new_arm(self, state: State) -> State:
        """Return a state whose only arm has the prior of a new arm."""
        E, fresh, hidden = state.memory, self.init(1, np.random.default_rng(0)), self.network.width
        if not state.refits:
            return fresh
        rows = E.rows()[:: max(-(-E.held // SAMPLE), 1)]
        precision = self._precision(state, self.features(state.view, E.contexts[rows]))
        none, narrow = of_arm(fresh.evicted, 0), _narrowed(precision[hidden:], state.width)
        if fresh.full is not None:
            full = self._fit_full(state._replace(full=fresh.full), 0, precision, none)
            fresh = fresh._replace(full=SqrtPosterior(*(np.array([part]) for part in full)))
        if fresh.linear is not None:
            linear = self._fit_linear(state, narrow, block(none, hidden))
            fresh = fresh._replace(linear=LinearPosterior(*(np.array([part]) for part in linear)))
        return fresh

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
        """Return the settings of a file of lim2 0.2 for the present change test, whose thresholds are higher."""
        if files.is_old(leaves) and settings.get("change_threshold") == files.OLD_THRESHOLD:
            return settings | {"change_threshold": cls.change_threshold}
        return settings

    def rebuilt(self, leaves: Mapping[str, Any]) -> State:
        """Return the state with these leaves; one of lim2 0.2 is fitted again if its beliefs are of two views."""
        is_old = files.is_old(leaves)
        new = files.converted(leaves, self.columns[0], self.linear > 0) if is_old else leaves
        state: State = super().rebuilt(new)
        return self._refitted(state) if is_old and files.has_two_views(leaves) and state.refits else state

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
        if max(state.width) > 1.0:
            raise ValueError(f"the widths of the prior must be at most 1, got {state.width}")
        if state.view.order is not None and not np.array_equal(np.sort(state.view.order), np.arange(self.columns[0])):
            raise ValueError("the order of the columns must name each of them once")


def _per_arm(state: State) -> list[str]:
    """Return the fields that hold statistics per arm."""
    return [name for name in ("full", "linear", "evicted") if getattr(state, name) is not None]


def _gain(full: Predicted, linear: Predicted) -> Any:
    """Return by how much the linear regression predicted rewards better, in nats."""
    return sqrt_posterior.log_density(linear, full.a) - sqrt_posterior.log_density(full, full.a)


def _narrowed(precision: Array, width: Width) -> Array:
    """Return prior precisions of context and constant for a width of the prior."""
    out = precision / width.context
    out[-1] = precision[-1] / width.constant
    return out
