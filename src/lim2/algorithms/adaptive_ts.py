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
from lim2.algorithms.neural import BUFFER_PER_ARM, WithNetwork, check_network, report
from lim2.algorithms.reward_scale import RewardScale
from lim2.checks import LARGEST, number, positive_int
from lim2.exploration import Exploration, StudentT, Thompson, roots
<<<<<<< HEAD
from lim2.exploration.evidence import centred, fit, log_evidence, of_arm, sums_of, total
from lim2.exploration.roots import RootPosterior
from lim2.exploration.sums import Sums, no_sums
=======
from lim2.exploration.evidence import Data, log_evidence, of_arms
from lim2.exploration.refit import refit
from lim2.exploration.roots import RootPosterior
>>>>>>> no-transport
from lim2.memory import Memory, sample, store
from lim2.representation import MLP, Representation, RMSProp, Step
from lim2.representation.scaling import Moments, Scaling, no_moments, observe_many, scaled, scaling
from lim2.state import Array, Count, Ints, Write, Writes, with_arm, without_arm

BATCH, SMALLEST_BUFFER = 128, 1000
DECAY = 0.005
POWER = 1.0
AE = 15.0
LARGEST_LINEAR = 256  # columns of the context among the features; more are projected to so many
TURNS = 24  # at the start, all arms together
A0 = 15.0  # the noise variance starts at InvGamma(A0, A0 s^2)
ARMS_PER_VARIANCE = 6.0
WIDER = (1.0, 4.0, 16.0)  # the start's variances may be larger by these factors
OLDER = (1.0, 16.0, 256.0)  # by which what was learned before a change may count less
GROWTH, PART = 0.1, 8  # beliefs are refitted after a tenth of the rounds, or an eighth of the buffer
ARMS_PER_ROUND = 8  # are refitted in one round, so that none takes long
SAMPLE = 512  # tuples by which the size of the features is measured
SMALLEST_SIZE, LARGEST_SIZE = 1e-60, 1e60


class View(NamedTuple):
    """What turns contexts into features, and the scale of rewards; it changes at refits only."""

    network: Any  # whose hidden layer counts
    scaling: Scaling | None  # None where contexts are not numbers
    scale: Annotated[float, "", "positive"]  # s


class State(NamedTuple):
    """What AdaptiveTS knows after some rounds."""

    network: Any  # f, in training
    before: View  # the one that arms from `moved` on still have
    view: View  # the one that the others have
    moved: Count  # how many arms the refit under way has reached; all arms: none is under way
    posterior: RootPosterior
    evicted: Sums  # of what has left the buffer, in the features of then
    memory: Memory  # E, the buffer
    moments: Moments | None  # of the columns
    rewards: RewardScale
    projection: Annotated[Array, "column linear"] | None
    precision: Annotated[Array, "g", "positive"]  # of the weights, at the start
    evidence: Annotated[Array, "arm wider"]  # of each arm's rewards, had the start been wider
    doubt: Annotated[Array, "arm older"]  # of its recent rewards, had what was learned before counted less
    oldest: Annotated[Ints, "arm", "count"]  # tuples with smaller stamps leave the buffer
    keep: Annotated[float, "", "positive"]  # what counts of that which was learned before a change
    rounds: Count  # t
    refitted: Count  # the round in which the last refit began
    tested: Count  # what came since then is recent
    testing: Count  # 1 while a refit tests for a change
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
    learning_rate: float = 0.02
    buffer: int | None = None
    train_every: int = 2
    temperature: float = 0.2
    optimism: float = 0.2
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
        return max(TURNS // len(self.names), 2) if self.initial_pulls is None else super().turns

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
        f, E = self.network.init(self.shape, n_arms, rng), memory.empty(None, n_arms, self.shape)  # trimmed at refits
        moments, projection = no_moments(self.shape) if self.takes_floats else None, None
        if 0 < self.linear < self.shape[0]:
            projection = rng.standard_normal((self.shape[0], self.linear)) / math.sqrt(self.linear)
        view = View(f, None if moments is None else scaling(moments), 1.0)
        beliefs, evicted = roots.prior(n_arms, self.width, 1.0, A0, A0), no_sums(n_arms, self.width)
        return State(
            f, view, view, n_arms, beliefs, evicted, E, moments, reward_scale.NO_REWARDS, projection,
            np.ones(self.width), np.zeros((n_arms, len(WIDER))), np.zeros((n_arms, len(OLDER))),
            np.zeros(n_arms, dtype=np.intp), 1.0, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        rows = contexts[None] if contexts.ndim == len(self.shape) else contexts
        z, moved = self._features(state, state.view, rows), state.moved
        if moved == len(state.oldest):
            return roots.score(state.posterior, z[0] if rows is not contexts else z)
        parts = z, self._features(state, state.before, rows)
        halves = RootPosterior(*(p[:moved] for p in state.posterior)), RootPosterior(*(p[moved:] for p in state.posterior))
        scores = [roots.score(half, p[0] if rows is not contexts else p) for half, p in zip(halves, parts, strict=True)]
        return StudentT(*(np.concatenate(pair, axis=-1) for pair in zip(*scores, strict=True)))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Count the tuple, train the network, and refit beliefs if it is time."""
        t, f, step, n_arms = state.rounds + 1, state.network, None, len(state.oldest)
        E, _ = store(state.memory, context, arm, reward)
        view = state.view if arm < state.moved else state.before
        rows = roots.observe(state.posterior, arm, self._features(state, view, context[None])[0], reward)
        if state.refits and t % self.train_every == 0:
            batch = sample(E, BATCH, rng)
            inputs, targets = _inputs(state.view, batch.contexts), batch.rewards - state.rewards.mean
            _, f, step = self.network.train(f, inputs, batch.arms, targets / state.rewards.scale)
        new = state._replace(network=f, memory=E, rounds=t)
        due = min(GROWTH * t, self._capacity(n_arms) / PART)
        if state.moved == n_arms and (t - state.refitted >= due or state.keep < 1.0):
            new = self._begun(new)
        if new.moved < n_arms:
            new = self._refitted(new, rows)
        return Writes(new, rows), lambda: self._report(new, step)

    def _begun(self, state: State) -> State:
        """Begin a refit: take over the network in training and the scales of what came since the last one."""
        E, t, n_arms = state.memory, state.rounds, len(state.oldest)
        new = E.stamps[: E.held] >= state.refitted
        rewards = reward_scale.observe(state.rewards, E.rewards[: E.held][new], self._least_scale)
        moments = None if state.moments is None else observe_many(state.moments, E.contexts[: E.held][new])
        view = View(state.network, None if moments is None else scaling(moments), rewards.scale)
        Z = self._features(state, view, E.contexts[: E.held : -(-E.held // SAMPLE)])
        tests = state.keep == 1.0 and t - state.tested >= self._capacity(n_arms) / PART
        if state.keep < 1.0:
            oldest = np.full(n_arms, state.tested, dtype=np.intp)
        else:
            oldest = memory.oldest_in_shares(E, self._capacity(n_arms))
        return state._replace(
            before=state.view, view=view, moved=0, moments=moments, rewards=rewards, precision=self._start(Z, n_arms),
            oldest=oldest, refitted=t, testing=int(tests and self.change_threshold < math.inf), refits=state.refits + 1,
        )  # fmt: skip

    def _refitted(self, state: State, rows: list[Write]) -> State:
        """Refit the next arms: the start, what has left the buffer, and the buffer in the new features.

        The noise stays that of the errors made before each tuple was learned from: features that were trained on the
        buffer fit it too well.
        """
        E, n_arms, b0 = state.memory, len(state.oldest), A0 * state.view.scale**2
        arms, stamps, centre = E.arms[: E.held], E.stamps[: E.held], state.rewards.mean - state.rewards.origin
        evidence, doubt, fits = state.evidence.copy(), state.doubt.copy(), []
        batch = range(state.moved, min(state.moved + ARMS_PER_ROUND, n_arms))
        for i in batch:
            own = np.flatnonzero(arms == i)
            Z, r = self._features(state, state.view, E.contexts[own]), E.rewards[own] - state.rewards.origin
            left, recent = stamps[own] < state.oldest[i], stamps[own] >= state.tested
            before = total(of_arm(state.evicted, i), sums_of(Z[~recent], r[~recent]))
            after = sums_of(Z[recent], r[recent])
            gone = total(before, sums_of(Z[:0], r[:0]), state.keep)
            if state.keep == 1.0:
                gone = total(of_arm(state.evicted, i), sums_of(Z[left], r[left]))
            known, came = (centred(part, centre) for part in (before, after))
            evidence[i] = [log_evidence(state.precision / c, total(known, came, state.keep), AE, AE * state.view.scale**2) for c in WIDER]
            if state.testing:
                doubt[i] = [_gain(state.precision, known, came, 1.0 / c, b0) for c in OLDER]
            fits.append((i, gone, total(known, came, state.keep)))
        wider = WIDER[int(evidence.sum(axis=0).argmax())]
        a, b = ({arm: value for array, arm, value in rows if array is part} for part in state.posterior[2:])
        for i, gone, data in fits:
            half = 0.5 * float(data.weight)
            noise = 0.0
            count = a.get(i, state.posterior.a[i]) - A0
            if state.refits > 1 and count > 0.0:
                noise = max(b.get(i, state.posterior.b[i]) - A0 * state.before.scale**2, 0.0) / count
            share = (b0 + half * noise) / (A0 + half) / state.view.scale**2
            mean, root = fit(state.precision / wider * (min(share,1.0)**POWER), data)
            mean[-1] += state.rewards.mean
            new = zip(state.posterior, (mean, root, A0 + half, b0 + half * noise), strict=True)
            rows += [(array, i, value) for array, value in new]
            rows += [(array, i, value) for array, value in zip(state.evicted, gone, strict=True)]
        state = state._replace(evidence=evidence, doubt=doubt, moved=batch.stop)
        return state if batch.stop < n_arms else self._ended(state)

    def _ended(self, state: State) -> State:
        """End a refit: what was counted elsewhere leaves the buffer; was there a change?"""
        E, keep = state.memory, 1.0
        stays = E.stamps[: E.held] >= state.oldest[E.arms[: E.held]]
        E = E if stays.all() else memory.kept(E, stays)
        tested, changes = state.tested, state.changes + (state.keep < 1.0)
        if state.testing:
            density = state.doubt.sum(axis=0)
            best = int(density.argmax())
            keep = 1.0 / OLDER[best] if density[best] - density[0] > self.change_threshold else 1.0
        if keep == 1.0 and (state.testing or state.keep < 1.0):
            tested = state.refitted
        return state._replace(memory=E, keep=keep, tested=tested, changes=changes, testing=0)

    def _start(self, features: Array, n_arms: int) -> Array:
        """Return the precisions of the weights at the start, in units of the noise.

        What hidden layer, context and constant add to a score has the variance of the rewards, and more where there
        are many arms: the one that is right may then be far above what is usual.
        """
        squares, sizes = np.square(features).mean(axis=0), np.ones(self.width)
        for part in (slice(self.network.width), slice(self.network.width, -1)):
            size = float(squares[part].sum())
            if SMALLEST_SIZE <= size <= LARGEST_SIZE:  # otherwise features are dead, have exploded, or there are none
                sizes[part] = size
        return sizes / max(n_arms / ARMS_PER_VARIANCE, 1.0)

    def _features(self, state: State, view: View, contexts: NDArray[Any]) -> Array:
        """Return the features of rows of contexts: the network's hidden layer, the contexts themselves, and a 1."""
        inputs = _inputs(view, contexts)
        hidden, out = self.network.features(view.network, inputs), np.empty((len(inputs), self.width))
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
        reward_scale.check(state.rewards)
        if not max(state.refitted, state.tested) <= state.rounds == state.memory.stored:
            raise ValueError("rounds, and those of the last refit and change test, do not fit together")


def _inputs(view: View, contexts: NDArray[Any]) -> NDArray[Any]:
    """Return contexts as the network gets them: scaled, if they are numbers."""
    return contexts if view.scaling is None else scaled(view.scaling, contexts)


def _gain(precision: Array, known: Sums, came: Sums, keep: float, b0: float) -> float:
    """Return the log density of recent rewards, given what was known before, which counts ``keep``."""
    if not known.weight:
        return 0.0
    before = Sums(*(keep * part for part in known))
    return log_evidence(precision, total(known, came, keep), A0, b0) - log_evidence(precision, before, A0, b0)
