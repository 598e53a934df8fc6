"""AdaptiveTS: neural-linear Thompson sampling that finds its own scales, in bounded memory."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms import refit, reward_scale
from lim2.algorithms.adaptive_state import State, first_state, with_new_arm, without_old_arm
from lim2.algorithms.base import Diagnostics
from lim2.algorithms.neural import BUFFER_PER_ARM, WithNetwork, check_network, report
from lim2.algorithms.start import A0, OPTIMISM, TEMPERATURE, turns_of
from lim2.checks import number, positive_int
from lim2.exploration import Exploration, StudentT, Thompson, roots
from lim2.exploration.rank_k import by_arm, predicted_many
from lim2.exploration.roots import LinearPosterior, RootPosterior, part_of
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
    """Neural-linear Thompson sampling in bounded memory that finds its own scales: meant as the default choice.

    The features are the hidden layer of a network, the context itself and a constant 1. Between refits a round is exact
    Bayesian linear regression: the new tuple enters the posterior of its arm, in O(g^2); the network trains on the
    buffer. At a refit, after every fifth of the rounds and at the latest after an eighth of the buffer, the network in
    training becomes the one whose features count, columns and rewards are scaled anew by the moments of all of them,
    and every arm is refitted: from the start in these scales, from sums over what has left the buffer, and from the
    buffer. At most four arms are refitted in one round. So time and memory of a round do not grow.

    Beside these beliefs there are linear ones, without the hidden layer. Where they have predicted rewards better,
    before learning from them, they decide.

    Raw columns are welcome: each is scaled by its own mean and deviation. Decisions do not depend on the scale or the
    origin of rewards. When recent rewards are likelier if what was learned before them counts less, it does, and what
    is older leaves the buffer. See ``docs/agent.md``.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out where the representation knows it.
    arms
        Instead of ``n_arms``: the names of the arms, any hashable values.
    hidden
        Sizes of the network's hidden layers.
    learning_rate
        First rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used.
    buffer
        How many tuples are kept at a refit, all arms together, in equal shares; until the next one there are an eighth
        more. None: 100 per arm, and at least 1,000.
    train_every
        Rounds from one that trains to the next; math.inf: the network stays as it was drawn. None: 2; with items
        math.inf, since products of context and item do what training would, at less cost.
    temperature, optimism
        A score is drawn as mean + scale * (optimism + temperature * t), t being Student-t: the share of a belief's
        scale with which it is drawn, and the share that an arm gets as a bonus.
    change_threshold
        By how much larger the log density of recent rewards must be for what was learned before to count less.
        math.inf: never, for a problem that does not change.
    reward_range
        The smallest and the largest reward there can be, where they are known. Then the agent looks for rewards that it
        has never seen: give it where large rewards are rare.
    initial_pulls
        How often every arm is played, in turn, at the start. None: twice, and more often where there are few arms, 24
        turns in all: what an arm costs in some contexts must be seen before it is given up.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms. With items it is the share of
        decisions that are uniform.
    seed
        The same seed and inputs give the same decisions.
    n_item_features
        Instead of arms: the size of the items, which come with every call. See :class:`lim2.ItemAgent`.

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
        """Raise a ValueError if a setting makes no sense."""
        super().validate()
        if self.train_every not in (None, math.inf):
            positive_int("train_every", self.train_every)  # type: ignore[arg-type]  # refuses what is no number
        if self.change_threshold != math.inf:
            number("change_threshold", self.change_threshold, least=0.0)
        _ = self.capacity(len(self.names)), self.least_scale

    @functools.cached_property
    def turns(self) -> int:
        """How often every arm is played, in turn, at the start."""
        return turns_of(len(self.names)) if self.initial_pulls is None else super().turns

    @functools.cached_property
    def period(self) -> float:
        """Rounds from one that trains to the next."""
        usual = 2 if self.crossing is None else math.inf
        return usual if self.train_every is None else self.train_every

    @functools.cached_property
    def network(self) -> Representation:
        """The representation that was asked for."""
        given = self.representation
        return MLP(self.hidden, RMSProp(self.learning_rate, decay=DECAY)) if given is None else given

    @functools.cached_property
    def policy(self) -> Exploration:
        """How an arm is chosen from the scores."""
        return Thompson(self.temperature, self.optimism)

    @functools.cached_property
    def least_scale(self) -> float:
        """The least that the scale of rewards can be: half of their range, if that is known."""
        return 0.0 if self.reward_range is None else reward_scale.half_range(self.reward_range)

    @functools.cached_property
    def linear(self) -> int:
        """How many features are the context's own."""
        return views.linear_columns(self.columns, self.takes_floats)

    @functools.cached_property
    def columns(self) -> tuple[int, ...]:
        """The shape of a context or, with items, of a context, an item and their products."""
        return self.shape if self.crossing is None else (self.crossing.width,)

    @functools.cached_property
    def width(self) -> int:
        """The number of features: hidden layer, context, constant."""
        return self.network.width + self.linear + 1

    def capacity(self, n_arms: int) -> int:
        """Return how many tuples are kept at a refit."""
        usual = max(BUFFER_PER_ARM * n_arms, SMALLEST_BUFFER)
        return usual if self.buffer is None else positive_int("buffer", self.buffer)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the state before the first reward."""
        f, first = self.network.init(self.shape, n_arms, rng), None
        if self.takes_floats:
            first = scaling(no_moments(self.shape))
        return first_state(self, n_arms, View(f, first, views.projection(self.columns[0], self.linear, rng)))

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm; while a refit is under way some arms have one view, the rest another."""
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

    def _share(self, state: State) -> float:
        """Return how much of a decision is left to the beliefs without the hidden layer."""
        return min(max((state.lead - MARGIN) / RANGE, 0.0), 1.0)

    def _score(self, state: State, posterior: RootPosterior, linear: LinearPosterior, z: Array) -> StudentT:
        """Return the score by the beliefs with the hidden layer, by those without, or between the two."""
        share = self._share(state)
        if share == 0.0:
            return roots.score(posterior, z)
        own = roots.score(linear, z[..., self.network.width :])
        if share == 1.0:
            return own
        mean, scale, freedom = roots.score(posterior, z)
        return StudentT(mean + share * (own.mean - mean), scale + share * (own.scale - scale), freedom)

    def joint_covariance(self, state: State, rows: NDArray[Any]) -> Array:
        """Return the covariances of the scores of rows of context and item, correlated as the beliefs that lead are."""
        z, scale = self.features(state.view, rows), self.score(state, rows).scale[:, 0]
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
        return Writes(new, rows), lambda: self._report(new, step)

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Do the same once for all tuples: one training, at most one refit begun, one rank-k update per arm."""
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
        return Writes(new, rows), lambda: self._report(new, step)

    def _trained(self, state: State, E: Memory, k: int, rng: np.random.Generator) -> tuple[State, Step | None]:
        """Return the state k rounds later, with what was stored meanwhile, and the network trained if it is time."""
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

    def _report(self, new: State, step: Step | None) -> dict[str, Any]:
        counts = {"refits": new.refits, "changes": new.changes}
        return {**report(self.network, new.network, new.memory, step), **counts}

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the start, or like another."""
        return with_new_arm(self, state, like, rng)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; those after it move up."""
        return without_old_arm(self, state, arm)

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of the networks, and what is absent."""
        scales, projects = self.takes_floats, 0 < self.linear < self.columns[0]
        parts: dict[str, Any] = {**self.network.kinds("network"), "moments": Moments if scales else None}
        for view in ("view", "before"):
            parts |= self.network.kinds(f"{view}/network")
            parts |= {f"{view}/scaling": Scaling if scales else None, f"{view}/projection": Array if projects else None}
        return parts

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that are known from the settings."""
        own = {"g": self.width, "own": self.linear + 1, "linear": self.linear}
        own |= {"column": self.columns[0], "older": len(refit.OLDER)}
        return {**super().sizes(n_arms), **self.network.sizes(self.shape, n_arms), **own}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible in a way that annotations do not tell."""
        self.check_memory(state)
        for f in (state.network, state.view.network, *(() if state.before is None else (state.before.network,))):
            check_network(self.network, f, len(state.oldest))
        reward_scale.check(state.rewards.scale)
        if not max(state.refitted, state.tested) <= state.rounds == state.memory.stored:
            raise ValueError("rounds, and those of the last refit and change test, do not fit together")
        if state.memory.capacity is not None:
            raise ValueError("the memory has a capacity, which only refits should bound")
        if (state.moved and (state.before is None or state.moved >= len(state.oldest))) or state.keep > 1.0:
            raise ValueError("a refit is under way that cannot be")
