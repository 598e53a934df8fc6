"""AdaptiveTS: neural-linear Thompson sampling that finds its own scales, in bounded memory."""

import copy
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms import reward_scale
from lim2.algorithms.base import Diagnostics
from lim2.algorithms.change_test import before_recent
from lim2.algorithms.neural import BATCH_PER_ARM, BUFFER_PER_ARM, WithNetwork, check_network, report
from lim2.algorithms.reward_scale import RewardScale
from lim2.algorithms.start import A0, OPTIMISM, TEMPERATURE, turns_of, variance_of
from lim2.checks import LARGEST, number, positive_int
from lim2.exploration import Exploration, StudentT, Thompson, roots
from lim2.exploration.evidence import Data, log_evidence, of_arms
from lim2.exploration.roots import RootPosterior
from lim2.exploration.transported import refit
from lim2.memory import Memory, sample, store
from lim2.representation import Step
from lim2.representation.scaling import Moments, Scaling, no_moments, observe_many, scaled, scaling
from lim2.state import Array, Count, Writes, with_arm, without_arm, written

SMALLEST_BUFFER, LARGEST_BATCH = 1000, 512
LARGEST_LINEAR = 256  # columns of the context among the features; more are projected to so many
WIDER = (1.0, 2.0, 4.0, 8.0, 16.0)  # the start's variances may be larger by these factors
GROWTH, PART = 0.1, 8  # beliefs are refitted after a tenth of the rounds, or an eighth of the buffer
SMALLEST_SIZE, LARGEST_SIZE = 1e-60, 1e60


class State(NamedTuple):
    """What AdaptiveTS knows after some rounds."""

    network: Any  # f, in training
    reference: Any  # the network whose features the beliefs are about
    posterior: RootPosterior  # the prior and the buffer
    prior: RootPosterior  # the start, and what has left the buffer
    memory: Memory  # E, the buffer
    moments: Moments | None  # of the columns; None where contexts are not numbers
    scaling: Scaling | None  # the one in use
    rewards: RewardScale
    projection: Annotated[Array, "column linear"] | None
    rounds: Count  # t
    refitted: Count  # the round of the last refit
    tested: Count  # the round of the last change test
    refits: Count
    changes: Count


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptiveTS(WithNetwork):
    """Neural-linear Thompson sampling in bounded memory that finds its own scales: meant as the default choice.

    The features are the hidden layer of a network, the context itself and a constant 1. Between refits a round is exact
    Bayesian linear regression: the new tuple enters the posterior of its arm, in O(g^2); the network trains on the
    buffer. At a refit, after every tenth of the rounds and at the latest after an eighth of the buffer, the network in
    training becomes the one whose features count, columns and rewards are scaled anew by the moments of all of them,
    arms of which nothing has left the buffer start anew in that scale, and every arm is refitted from its prior and the
    buffer. What the buffer has no room for then enters the priors. So time and memory of a round do not grow.

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
        Rounds from one that trains to the next.
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
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    seed
        The same seed and inputs give the same decisions.

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
    >>> agent.state.memory.held, agent.info.refits < 60
    (500, True)
    """

    initial_pulls: int | None = None
    hidden: int | Sequence[int] = (100,)
    learning_rate: float = 0.05
    buffer: int | None = None
    train_every: int = 2
    temperature: float = TEMPERATURE
    optimism: float = OPTIMISM
    change_threshold: float = 3.0
    reward_range: Sequence[float] | None = None

    state_type: ClassVar[type[Any]] = State

    def validate(self) -> None:
        """Raise a ValueError if a setting makes no sense."""
        super().validate()
        positive_int("train_every", self.train_every)
        if self.change_threshold != math.inf:
            number("change_threshold", self.change_threshold, least=0.0)
        _ = self._capacity(len(self.names)), self._least_scale

    @functools.cached_property
    def turns(self) -> int:
        """How often every arm is played, in turn, at the start."""
        return turns_of(len(self.names)) if self.initial_pulls is None else super().turns

    @functools.cached_property
    def policy(self) -> Exploration:
        """How an arm is chosen from the scores."""
        return Thompson(self.temperature, self.optimism)

    @functools.cached_property
    def _least_scale(self) -> float:
        """Half of the range of rewards, if it is known."""
        if self.reward_range is None:
            return 0.0
        given: Any = self.reward_range
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
            raise ValueError(f"reward_range must be the smallest and the largest reward, got {given!r}")
        low, high = (number("reward_range", value) for value in given)
        if not -LARGEST < low < high < LARGEST:
            raise ValueError(f"reward_range must be two finite rewards, the smaller one first, got {given!r}")
        return 0.5 * (high - low)

    @functools.cached_property
    def linear(self) -> int:
        """How many features are the context's own: all its columns, or so many projections of them."""
        return min(self.shape[0], LARGEST_LINEAR) if self.takes_floats and len(self.shape) == 1 else 0

    @functools.cached_property
    def width(self) -> int:
        """The number of features: hidden layer, context, constant."""
        return self.network.width + self.linear + 1

    def _capacity(self, n_arms: int) -> int:
        usual = max(BUFFER_PER_ARM * n_arms, SMALLEST_BUFFER)
        return usual if self.buffer is None else positive_int("buffer", self.buffer)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the state before the first reward."""
        f, start = self.network.init(self.shape, n_arms, rng), roots.prior(n_arms, self.width, 1.0, A0, A0)
        E = memory.empty(None, n_arms, self.shape)  # trimmed at refits
        moments = no_moments(self.shape) if self.takes_floats else None
        projection = None
        if 0 < self.linear < self.shape[0]:
            projection = rng.standard_normal((self.shape[0], self.linear)) / math.sqrt(self.linear)
        scales = None if moments is None else scaling(moments)
        return State(f, f, start, start, E, moments, scales, reward_scale.NO_REWARDS, projection, 0, 0, 0, 0, 0)

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        if contexts.ndim == len(self.shape):
            return roots.score(state.posterior, self._features(state, contexts[None])[0])
        return roots.score(state.posterior, self._features(state, contexts))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Count the tuple, train the network, and refit the beliefs if it is time."""
        t, f, step = state.rounds + 1, state.network, None
        E, _ = store(state.memory, context, arm, reward)
        rows = roots.observe(state.posterior, arm, self._features(state, context[None])[0], reward)
        if state.refits and t % self.train_every == 0:
            batch = sample(E, min(BATCH_PER_ARM * len(E.counts), LARGEST_BATCH), rng)
            targets = (batch.rewards - state.rewards.mean) / state.rewards.scale
            _, f, step = self.network.train(f, _inputs(state, batch.contexts), batch.arms, targets)
        new = state._replace(network=f, memory=E, rounds=t)
        if t - state.refitted >= min(GROWTH * t, self._capacity(len(E.counts)) / PART):
            new = self._refitted(new, _noise(state, written(Writes(state.posterior, rows))))
            rows = []
        return Writes(new, rows), lambda: self._report(new, step)

    def _refitted(self, state: State, noise: Array) -> State:
        """Take over the network in training and the scales; test for a change; refit every arm; trim the buffer.

        The noise stays that of the errors made before each tuple was learned from: features that were trained on the
        buffer fit it too well.
        """
        E, n_arms, t = state.memory.canonical(), len(noise), state.rounds
        new = E.stamps >= state.refitted
        rewards = reward_scale.observe(state.rewards, E.rewards[new], self._least_scale)
        moments = None if state.moments is None else observe_many(state.moments, E.contexts[new])
        scales = None if moments is None else scaling(moments)
        state = state._replace(
            reference=state.network, moments=moments, scaling=scales, rewards=rewards, refitted=t,
            refits=state.refits + 1,
        )  # fmt: skip
        order = E.arms.argsort(kind="stable")
        data = Data(self._features(state, E.contexts[order]), E.rewards[order], E.arms[order])
        prior, start = self._begun(state.prior, rewards, data)
        before, newer = prior, data
        if self.change_threshold < math.inf and t - state.tested >= self._capacity(n_arms) / PART:
            recent = E.stamps >= state.tested
            older, newer = data.of(~recent[order]), data.of(recent[order])
            before, changed = before_recent(prior, older, newer, start, self.change_threshold)
            if changed:  # what is older has done its part
                prior, data, E = before, newer, memory.kept(E, recent)
                order = E.arms.argsort(kind="stable")
            state = state._replace(tested=t, changes=state.changes + changed)
        posterior = refit(before, newer.features, newer.rewards, newer.bounds(n_arms))
        posterior = posterior._replace(b=A0 * rewards.scale**2 + (posterior.a - A0) * noise)
        if E.held > self._capacity(n_arms):
            stays = memory.in_shares(E, self._capacity(n_arms))
            left = data.of(~stays[order])
            prior = refit(prior, left.features, left.rewards, left.bounds(n_arms))
            E = memory.kept(E, stays)
        return state._replace(posterior=posterior, prior=prior, memory=E)

    def _begun(self, prior: RootPosterior, rewards: RewardScale, data: Data) -> tuple[RootPosterior, RootPosterior]:
        """Return priors in which arms of which nothing has left the buffer start anew, and this start."""
        fresh, n_arms = prior.a == A0, len(prior.a)
        start = self._start(rewards, data.features, n_arms)
        if fresh.any():
            tiled = RootPosterior(*(np.repeat(part, n_arms, axis=0) for part in start))
            likeliest = int(log_evidence(tiled, np.flatnonzero(fresh), data, WIDER).argmax())
            start = start._replace(root=start.root * math.sqrt(WIDER[likeliest]))
        return RootPosterior(*(of_arms(fresh, new, old) for new, old in zip(start, prior, strict=True))), start

    def _start(self, rewards: RewardScale, features: Array, n_arms: int) -> RootPosterior:
        """Return what is believed of an arm at first.

        What hidden layer, context and constant add to its score has the variance of the rewards, and more where there
        are many arms: the one that is right may then be far above what is usual.
        """
        squares, sizes = np.square(features).mean(axis=0), np.ones(self.width)
        for part in (slice(self.network.width), slice(self.network.width, -1)):
            size = float(squares[part].sum())
            if SMALLEST_SIZE <= size <= LARGEST_SIZE:  # otherwise features are dead, have exploded, or there are none
                sizes[part] = size
        mu = np.zeros((1, self.width))
        mu[0, -1] = rewards.mean
        root = np.diag(np.sqrt(variance_of(n_arms) / sizes))
        return RootPosterior(mu, root[None], np.array([A0]), np.array([A0 * rewards.scale**2]))

    def _features(self, state: State, contexts: NDArray[Any]) -> Array:
        """Return the features of rows of contexts: the reference network's, the contexts themselves, and a 1."""
        inputs = _inputs(state, contexts)
        hidden, out = self.network.features(state.reference, inputs), np.empty((len(inputs), self.width))
        out[:, : -self.linear - 1] = hidden
        if self.linear:
            out[:, -self.linear - 1 : -1] = inputs if state.projection is None else np.dot(inputs, state.projection)
        out[:, -1] = 1.0
        return out

    def _report(self, new: State, step: Step | None) -> dict[str, Any]:
        counts = {"refits": new.refits, "changes": new.changes}
        return {**report(self.network, new.network, new.memory, step), **counts}

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the start, or like another."""
        n_arms, twin = len(state.prior.a) + 1, copy.deepcopy(rng)
        E, start = memory.add_arm(state.memory, None), roots.prior(1, self.width, 1.0, A0, A0)
        if like is not None:
            E, _ = memory.copy_tuples(E, like, n_arms - 1)
        elif state.refits:
            start = self._start(state.rewards, self._features(state, E.contexts[E.rows()]), n_arms)
        return state._replace(
            network=self.network.add_arm(state.network, like, rng),
            reference=self.network.add_arm(state.reference, like, twin),
            posterior=with_arm(state.posterior, like, start),
            prior=with_arm(state.prior, like, start),
            memory=E,
        )

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; those after it move up."""
        return state._replace(
            network=self.network.remove_arm(state.network, arm),
            reference=self.network.remove_arm(state.reference, arm),
            posterior=without_arm(state.posterior, arm),
            prior=without_arm(state.prior, arm),
            memory=memory.remove_arm(state.memory, arm, None),
        )

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of the two networks, and what is absent."""
        projects = 0 < self.linear < self.shape[0]
        return {
            **self.network.kinds("network"), **self.network.kinds("reference"),
            "moments": Moments if self.takes_floats else None, "scaling": Scaling if self.takes_floats else None,
            "projection": Array if projects else None,
        }  # fmt: skip

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that are known from the settings."""
        own = {"g": self.width, "linear": self.linear, "column": self.shape[0]}
        return {**super().sizes(n_arms), **self.network.sizes(self.shape, n_arms), **own}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible in a way that annotations do not tell."""
        self.check_memory(state)
        for f in (state.network, state.reference):
            check_network(self.network, f, len(state.prior.a))
        reward_scale.check(state.rewards.scale)
        if not max(state.refitted, state.tested) <= state.rounds == state.memory.stored:
            raise ValueError("rounds, and those of the last refit and change test, do not fit together")


def _inputs(state: State, contexts: NDArray[Any]) -> NDArray[Any]:
    """Return contexts as the network gets them: scaled, if they are numbers."""
    return contexts if state.scaling is None else scaled(state.scaling, contexts)


def _noise(state: State, posterior: RootPosterior) -> Array:
    """Return the noise variance of each arm by the errors that were made; 0 where there were none yet."""
    counts, squares = posterior.a - A0, posterior.b - A0 * state.rewards.scale**2
    known = (counts > 0.0) & (state.refits > 0)  # before the first refit rewards have no scale
    return np.where(known, np.maximum(squares, 0.0) / np.where(known, counts, 1.0), 0.0)
