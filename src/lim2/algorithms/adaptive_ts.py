"""AdaptiveTS: neural-linear Thompson sampling that finds its own scales, in bounded memory."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms import refit, reward_scale
from lim2.algorithms.adaptive_state import (
    ForItems,
    State,
    first_state,
    for_items,
    with_new_arm,
    without_old_arm,
)
from lim2.algorithms.base import Diagnostics, rms
from lim2.algorithms.neural import BUFFER_PER_ARM, WithNetwork, check_network, report
from lim2.algorithms.start import A0, OPTIMISM, TEMPERATURE, turns_of
from lim2.checks import number, positive_int
from lim2.exploration import Exploration, StudentT, Thompson, roots
from lim2.exploration.rank_k import by_arm, predicted_many
from lim2.exploration.roots import Scorer, part_of
from lim2.memory import Memory, sample, store, store_many
from lim2.representation import MLP, Representation, RMSProp, Step
from lim2.representation import view as views
from lim2.representation.scaling import Moments, Scaling, no_moments, scaling
from lim2.representation.view import View
from lim2.state import Array, Ints, Writes

BATCH, DECAY, SMALLEST_BUFFER = 128, 0.005, 1000
YOUNG, MOST_STEPS = 1000, 8  # from this round on a batch of rewards trains at most so often, however large it is

# The linear beliefs decide alone from a lead of MARGIN + RANGE on, and not at all up to MARGIN. In their lead an arm's
# rewards count from number TRIED on, and less by KEEP per round.
MARGIN, RANGE, TRIED, KEEP = 5.0, 25.0, 50, 0.9995


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptiveTS(WithNetwork):
    """Neural-linear Thompson sampling in bounded memory that finds its own scales. It is the recommended agent.

    The features are the hidden layer of a network, the context itself and a constant 1. Between refits a round is exact
    Bayesian linear regression: the new tuple updates the posterior of its arm in O(g^2), and the network trains on the
    buffer. A refit is due when the number of rounds has grown by a fifth, at the latest when an
    eighth of the buffer is new. It takes over
    the features of the trained network, rescales columns and rewards by their running moments, and refits every arm
    from the prior in these scales, from sums over evicted tuples and from the buffer. At most four arms are refitted in
    one round, so time and memory per round are bounded.

    A second posterior is linear: it does not use the hidden layer. Both predict each reward before they learn it, and
    the linear one takes over if its predictions are better.

    Raw columns need no scaling: each is scaled by its own mean and standard deviation. Decisions do not depend on the
    scale or the origin of rewards. The agent detects changes: if recent rewards are more likely when earlier data have
    less weight, it reduces their weight and evicts older tuples. See ``docs/agent.md``.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out if the representation knows it.
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    hidden
        Sizes of the network's hidden layers.
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
        Increase of the log density of recent rewards above which earlier data lose weight. math.inf: never, for a
        problem that does not change.
    reward_range
        Smallest and largest possible reward, if known. The agent then explores for rewards that it has never observed:
        give it if large rewards are rare.
    initial_pulls
        Number of initial pulls of every arm, in turn. None: up to 24 for all arms together, but at least 2 per
        arm, so that the agent observes an arm in several contexts before it discards it.
    min_propensity
        Smallest probability of choosing each eligible arm; at most 1 / n_arms. With items, the share of uniformly
        random decisions.
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
    >>> agent.state.memory.held <= 500, agent.info.refits < 60
    (True, True)
    """

    initial_pulls: int | None = None
    hidden: int | Sequence[int] = (64,)
    learning_rate: float = 0.02
    buffer: int | None = None
    train_every: float | None = None
    temperature: float = TEMPERATURE
    optimism: float = OPTIMISM
    change_threshold: float = 3.0
    reward_range: Sequence[float] | None = None

    state_type: ClassVar[type[Any]] = State
    batches: ClassVar[bool] = True

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        if self.train_every not in (None, math.inf):
            positive_int("train_every", self.train_every)  # type: ignore[arg-type]  # refuses what is no number
        if self.change_threshold != math.inf:
            number("change_threshold", self.change_threshold, least=0.0)
        _ = self.capacity(len(self.names)), self.least_scale

    @functools.cached_property
    def turns(self) -> int:
        """Number of initial pulls of every arm, in turn."""
        return turns_of(len(self.names)) if self.initial_pulls is None else super().turns

    @functools.cached_property
    def period(self) -> float:
        """Rounds from one that trains to the next."""
        usual = 2 if self.crossing is None else math.inf
        return usual if self.train_every is None else self.train_every

    @functools.cached_property
    def network(self) -> Representation:
        """The representation in the settings."""
        given = self.representation
        return MLP(self.hidden, RMSProp(self.learning_rate, decay=DECAY)) if given is None else given

    @functools.cached_property
    def policy(self) -> Exploration:
        """Exploration: how an arm is chosen from the scores."""
        return Thompson(self.temperature, self.optimism)

    @functools.cached_property
    def least_scale(self) -> float:
        """Smallest scale of rewards: half of their range, if known."""
        return 0.0 if self.reward_range is None else reward_scale.half_range(self.reward_range)

    @functools.cached_property
    def linear(self) -> int:
        """Number of features taken from the context."""
        return views.linear_columns(self.columns, self.takes_floats)

    @functools.cached_property
    def columns(self) -> tuple[int, ...]:
        """The shape of a context or, with items, of a context, an item and their products."""
        return self.shape if self.crossing is None else (self.crossing.width,)

    @functools.cached_property
    def width(self) -> int:
        """Number of features: hidden layer, context, constant."""
        return self.network.width + self.linear + 1

    def capacity(self, n_arms: int) -> int:
        """Return the number of tuples kept at a refit."""
        usual = max(BUFFER_PER_ARM * n_arms, SMALLEST_BUFFER)
        return usual if self.buffer is None else positive_int("buffer", self.buffer)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the initial state."""
        f, first = self.network.init(self.shape, n_arms, rng), None
        if self.takes_floats:
            first = scaling(no_moments(self.shape))
        return first_state(self, n_arms, View(f, first, views.projection(self.columns[0], self.linear, rng)))

    def score(self, state: State | ForItems, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm; while a refit is under way some arms have one view, the rest another."""
        if isinstance(state, ForItems):
            return self.score_items(state, contexts, len(contexts))
        one = contexts.ndim == len(self.shape)
        rows = contexts[None] if one else contexts
        z = self.features(state.view, rows)
        if state.before is None:
            return self._score(state, state.posterior, state.linear, z[0] if one else z)
        parts = [(slice(state.moved), z), (slice(state.moved, None), self.features(state.before, rows))]
        scores = [
            self._score(state, part_of(state.posterior, arms), part_of(state.linear, arms), z[0] if one else z)
            for arms, z in parts
        ]
        return StudentT(*(np.concatenate(pair, axis=-1) for pair in zip(*scores, strict=True)))

    def score_items(self, state: State | ForItems, rows: NDArray[Any], decisions: int) -> StudentT:
        """Return the scores of the candidates of one or several decisions."""
        if isinstance(state, State) and (self.crossing is None or state.before is not None):
            return self.score(state, rows)
        assert self.crossing is not None
        crossed = self.crossing.in_one_context if decisions == 1 else self.crossing
        z = views.features(self.network, state.view, rows, self.linear, crossed)
        if isinstance(state, ForItems):
            z = z.take(state.kept, axis=1)
        return self._score(state, state.posterior, state.linear, z)

    def for_items(self, state: State | ForItems) -> State | ForItems:
        """Return the state as it scores items fastest."""
        return state if isinstance(state, ForItems) else for_items(self, state)

    def for_deciding(self, state: State) -> State | ForItems:
        """Return what scores items, or the state without the buffer and the sums over what has left it."""
        scores = self.for_items(state)
        return scores._replace(evicted=None, memory=None) if isinstance(scores, State) else scores  # type: ignore[arg-type]

    def _share(self, state: State | ForItems) -> float:
        """Return the weight of the linear posterior in a decision."""
        return min(max((state.lead - MARGIN) / RANGE, 0.0), 1.0)

    def _score(self, state: State | ForItems, posterior: Scorer, linear: Scorer, z: Array) -> StudentT:
        """Return the score by the posterior with the hidden layer, by the linear one, or between the two."""
        share = self._share(state)
        if share == 0.0:
            return roots.score(posterior, z)
        own = roots.score(linear, z[..., self.network.width :])
        if share == 1.0:
            return own
        mean, scale, freedom = roots.score(posterior, z)
        return StudentT(mean + share * (own.mean - mean), scale + share * (own.scale - scale), freedom)

    def joint_covariance(self, state: State | ForItems, rows: NDArray[Any]) -> Array:
        """Return the covariance matrix of the scores of rows of context and item, from the posterior that decides."""
        z, scale = self.features(state.view, rows), self.score(state, rows).scale[:, 0]
        z = z.take(state.kept, axis=1) if isinstance(state, ForItems) else z
        leads = self._share(state) > 0.5
        cov = roots.covariance(*((state.linear, z[:, self.network.width :]) if leads else (state.posterior, z)))
        return cov * np.multiply.outer(*2 * (scale / np.sqrt(np.maximum(cov.diagonal(), np.finfo(float).tiny)),))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Store the tuple, train the network, begin a refit if it is time, count the tuple, refit some arms."""
        E, _ = store(state.memory, context, arm, reward)
        new, step = self._trained(state, E, 1, rng)
        if state.before is None and refit.is_due(self, new):
            new = refit.begun(self, new)
        view = new.view if new.before is None or arm < new.moved else new.before
        z = self.features(view, context[None])[0]
        rows, density = roots.predicted(new.posterior, arm, z, reward)
        more, other = roots.predicted(new.linear, arm, z[self.network.width :], reward)
        tried = self.linear and new.posterior.a[arm] >= A0 + 0.5 * TRIED
        new, rows = new._replace(lead=KEEP * new.lead + (other - density if tried else 0.0)), rows + more
        if new.before is not None:
            new = refit.continued(self, new, rows)
        before = state.view if new.refits > state.refits else None
        return Writes(new, rows), lambda: self._report(new, step, before)

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Learn all tuples in one update: one training step, at most one refit started, one rank-k update per arm."""
        k = len(rewards)
        new, step = self._trained(state, store_many(state.memory, contexts, arms, rewards), k, rng)
        if state.before is None and refit.is_due(self, new, k):
            new = refit.begun(self, new)
        rows, gains, hidden = [], np.zeros(k), self.network.width
        for view, those in self._by_view(new, arms):
            Z = self.features(view, contexts[those])
            for arm, own in by_arm(arms[those]):
                more, densities = predicted_many(new.posterior, arm, Z[own], rewards[those][own])
                other, linear = predicted_many(new.linear, arm, Z[own, hidden:], rewards[those][own])
                known = float(new.posterior.a[arm]) + 0.5 * np.arange(len(own))
                gains[those[own]] = (linear - densities) * (known >= A0 + 0.5 * TRIED)
                rows += more + other
        weights = KEEP ** np.arange(k - 1.0, -1.0, -1.0)
        new = new._replace(lead=KEEP**k * new.lead + (float(np.dot(weights, gains)) if self.linear else 0.0))
        if new.before is not None:
            new = refit.continued(self, new, rows, k)
        before = state.view if new.refits > state.refits else None
        return Writes(new, rows), lambda: self._report(new, step, before)

    def _trained(self, state: State, E: Memory, k: int, rng: np.random.Generator) -> tuple[State, Step | None]:
        """Return the state k rounds later, with the stored tuples, and with the network trained if it is due."""
        t, f, step = state.rounds + k, state.network, None
        young, due = (
            upto // self.period - state.rounds // self.period for upto in (max(min(t, YOUNG), state.rounds), t)
        )
        steps = int(young + min(due - young, MOST_STEPS)) if state.refits else 0
        if steps:
            batch = sample(E, BATCH, rng, batches=steps)
            inputs = views.inputs(state.view, batch.contexts)
            targets = (batch.rewards - state.rewards.mean) / state.rewards.scale
            for start in range(0, len(targets), BATCH):
                own = slice(start, start + BATCH)
                _, f, step = self.network.train(f, inputs[own], batch.arms[own], targets[own])
        return state._replace(network=f, memory=E, rounds=t), step

    def _by_view(self, state: State, arms: Ints) -> list[tuple[View, Ints]]:
        """Return the views that arms have, each with the rows of a batch that are of such arms."""
        if state.before is None:
            return [(state.view, np.arange(len(arms)))]
        moved = arms < state.moved
        parts = ((state.view, np.flatnonzero(moved)), (state.before, np.flatnonzero(~moved)))
        return [(view, rows) for view, rows in parts if len(rows)]

    def features(self, view: View, contexts: NDArray[Any]) -> Array:
        """Return the features of rows of contexts under a view."""
        return views.features(self.network, view, contexts, self.linear, self.crossing)

    def _report(self, new: State, step: Step | None, before: View | None) -> dict[str, Any]:
        """Return the diagnostics of an update. ``before`` is the view that a refit has replaced, if one has begun."""
        values = report(self.network, new.network, new.memory, step)
        if before is not None:
            contexts = new.memory.contexts[new.memory.rows()[-BATCH:]]
            old = self.features(before, contexts)
            values["drift"] = rms(self.features(new.view, contexts) - old, old)
        return {**values, "refits": new.refits, "changes": new.changes}

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        return with_new_arm(self, state, like, rng)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        return without_old_arm(self, state, arm)

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of the networks, and the absent parts."""
        scales, projects = self.takes_floats, 0 < self.linear < self.columns[0]
        parts: dict[str, Any] = {**self.network.kinds("network"), "moments": Moments if scales else None}
        for view in ("view", "before"):
            parts |= self.network.kinds(f"{view}/network")
            parts |= {f"{view}/scaling": Scaling if scales else None, f"{view}/projection": Array if projects else None}
        return parts

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that follow from the settings."""
        own = {"g": self.width, "own": self.linear + 1, "linear": self.linear}
        own |= {"column": self.columns[0], "older": len(refit.OLDER)}
        return {**super().sizes(n_arms), **self.network.sizes(self.shape, n_arms), **own}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""
        self.check_memory(state)
        for f in (state.network, state.view.network, *(() if state.before is None else (state.before.network,))):
            check_network(self.network, f, len(state.oldest))
        reward_scale.check(state.rewards.scale)
        if not max(state.refitted, state.tested) <= state.rounds == state.memory.stored:
            raise ValueError("the rounds of the last refit and the last change test do not fit the number of rounds")
        if state.memory.capacity is not None:
            raise ValueError("the memory must have no fixed capacity, because refits bound it")
        if (state.moved and (state.before is None or state.moved >= len(state.oldest))) or state.keep > 1.0:
            raise ValueError("the state of the current refit is impossible")
