"""TransportTS: every tuple counted once, forever; beliefs transported when the features have moved."""

import copy
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms import scales as scaling
from lim2.algorithms.base import Diagnostics
from lim2.algorithms.change_detection import inflation
from lim2.algorithms.neural import Neural, buffer_size, check_network, grown_memory, report, shrunk_memory
from lim2.algorithms.scales import Scales
from lim2.checks import number, positive_int
from lim2.exploration import UCB, Exploration, StudentT, Thompson, named, roots, transported
from lim2.exploration.roots import RootPosterior
from lim2.matching import transport_map
from lim2.memory import Memory, sample, store, store_in_shares
from lim2.representation import ContextReader, Step
from lim2.state import Array, Count, Write, Writes, with_arm, without_arm, written

LARGEST_SKIP = 512
SMALLEST_SIZE, LARGEST_SIZE = 1e-12, 1e12
SAME = 1e-12  # a share of squared features below which contexts do not differ


class State(NamedTuple):
    """What TransportTS knows after some rounds."""

    network: Any  # f, in training
    reference: Any  # the network whose features the beliefs are about
    posterior: RootPosterior  # the prior and the buffer
    prior: RootPosterior  # what has left the buffer
    memory: Memory  # E, the buffer
    scales: Scales
    origin: Annotated[Array, "g"]  # features are measured from their mean at the last refit; from 0 with `skip`
    advantage: float  # of the network over the beliefs, in squared errors
    measured: bool  # whether arms can have been played twice, so that the noise is known
    rounds: Count  # t
    tested: Count  # the round of the last change test
    refits: Count
    inflations: Count
    network_priors: Count


class Held(NamedTuple):
    """The buffer sorted by arm, and by age within an arm: the oldest first."""

    contexts: NDArray[Any]
    features: Array  # as the beliefs know them
    rewards: Array
    bounds: list[int]  # arm i has the rows bounds[i] to bounds[i + 1]


@dataclass(frozen=True, kw_only=True, eq=False)
class TransportTS(Neural):
    """Neural-linear Thompson sampling in bounded memory, beyond the paper: meant as the default choice.

    Beliefs are about the features of the *reference network*, a copy of the one in training. While the features of the
    network in training stay within ``tolerance`` of them, a round is exact Bayesian linear regression: the new tuple
    enters the posterior of its arm, the one that leaves the buffer enters the prior of its arm, in O(g^2). When they
    have moved further, the network in training becomes the reference: priors, which hold exactly what has left the
    buffer, are transported to the new features, and every arm is refitted from its prior and the buffer. So every tuple
    counts once, forever, and time follows drift.

    Each time half of the buffer is new, a change test compares it with the priors. If its older half would have
    predicted the newer one significantly better under wider priors, they are inflated: what was learned before a change
    counts less. See ``docs/transport.md``.

    The features are the network's last hidden layer, the context itself (``skip``) and a constant 1. Contexts are
    divided by their running root mean square, rewards are scaled by their running mean and standard deviation:
    decisions do not depend on the scale or the origin of rewards.

    Texts, images and long contexts are not among the features. There everything depends on a network that may memorise
    its buffer. So it trains in every round, on a buffer in which arms have equal shares as far as they were played;
    features are measured from their mean, the noise by errors made before a tuple was trained on; and where the
    network's own outputs have lately been closer to the rewards than the beliefs, its last layer replaces the means of
    the priors, which then no longer count every tuple once.

    There is no ``standardize`` and no ``forget``. One size serves all columns of a context: scale columns of different
    units beforehand. And it forgets when a change is detected, not at a rate.

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
    buffer
        How many tuples are remembered, all arms together. None: 100 per arm.
    batch
        Tuples in a training batch. None: 16 per arm.
    steps
        Batches of a round that trains.
    train_every
        Rounds from one that trains to the next. None: 2 with ``skip``, else 1.
    initial_pulls
        How often every arm is played, in turn, at the start.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    prior_precision
        What the hidden layer, the context and the constant add to a score starts with the variance s^2 /
        prior_precision each, with s the standard deviation of the rewards: whatever the number and the size of the
        features.
    a0, b0
        The noise variance starts at InvGamma(a0, b0 s^2).
    learning_rate
        First rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    tolerance
        How far the features of the network in training may move from those of the reference, root mean square over a
        batch relative to their size, before the beliefs follow; the same for the scales of rewards and contexts. 0
        refits in every round.
    ridge
        How strongly the transport is drawn to the identity, relative to the mean square of a feature.
    change_threshold
        By how many standard errors wider priors must predict the buffer better to be inflated. math.inf: never, for a
        problem that does not change.
    optimism, temperature
        A score is drawn as mean + scale * (optimism + temperature * t), t being Student-t: the share of a belief's
        scale that an arm gets as a bonus, and the share with which it is drawn. ``means`` and ``variances`` are the
        belief's own; propensities are those of what is drawn.
    skip
        Whether the context itself is among the features, next to the hidden layer. None: if it is a vector of at most
        512 numbers.
    exploration
        ``"thompson"``, as above; ``"ucb"``, the same with nothing drawn; or an object, which brings its own optimism
        and temperature, such as ``lim2.exploration.UCB(optimism=2.0)``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used, and the network gets contexts
        as they are.
    seed
        The same seed and inputs give the same decisions.

    Examples
    --------
    >>> import lim2
    >>> rng = np.random.default_rng(0)
    >>> agent = lim2.TransportTS(n_arms=2, n_features=2, seed=0)
    >>> reward = 0.0
    >>> for context in rng.normal(size=(500, 2)):
    ...     arm = agent.act(context)
    ...     r = float(arm == (context[0] * context[1] > 0))
    ...     agent.update(context, arm, r)
    ...     reward += r
    >>> reward > 350  # chance: 250
    True
    >>> agent.state.memory.held, agent.rounds, agent.info.refits < 100
    (200, 500, True)
    """

    buffer: int | None = None
    train_every: int | None = None
    a0: float = 1.0
    b0: float = 0.1
    learning_rate: float = 0.015
    tolerance: float = 0.2
    ridge: float = 0.01
    change_threshold: float = 3.0
    optimism: float = 0.4
    temperature: float = 0.2
    skip: bool | None = None

    # No settings here
    state_type: ClassVar[type[Any]] = State
    intercept: ClassVar[bool] = False  # type: ignore[misc]
    standardize: ClassVar[bool] = False  # type: ignore[misc]
    forget: ClassVar[float] = 0.0  # type: ignore[misc]

    def validate(self) -> None:
        """Raise a ValueError if a setting makes no sense."""
        super().validate()
        number("tolerance", self.tolerance, least=0.0)
        number("ridge", self.ridge, above=0.0)
        if self.change_threshold != math.inf:
            number("change_threshold", self.change_threshold, least=0.0)
        _ = buffer_size(self.buffer, len(self.names)), self.skips, self.period

    @functools.cached_property
    def policy(self) -> Exploration:
        """How an arm is chosen from the scores."""
        return named(self.exploration, Thompson(self.temperature, self.optimism), UCB(self.optimism))

    @functools.cached_property
    def skips(self) -> bool:
        """Whether contexts are among the features."""
        vectors = len(self.shape) == 1 and not isinstance(self.network, ContextReader)
        if self.skip and not vectors:
            raise ValueError(f"skip is for contexts that are vectors, not of shape {self.shape}")
        return vectors and self.shape[0] <= LARGEST_SKIP if self.skip is None else bool(self.skip)

    @functools.cached_property
    def period(self) -> int:
        """Rounds from one that trains to the next."""
        return positive_int("train_every", 1 + self.skips if self.train_every is None else self.train_every)

    @functools.cached_property
    def width(self) -> int:
        """The number of features: hidden layer, context, constant."""
        return self.net.width + self.shape[0] * self.skips + 1

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the state before the first reward."""
        f = self.net.init(self.shape, n_arms, rng)
        posterior, prior = self._beliefs(n_arms), self._beliefs(n_arms)
        E = memory.empty(buffer_size(self.buffer, n_arms), n_arms, self.shape)
        return State(f, f, posterior, prior, E, scaling.NO_SCALES, np.zeros(self.width), 0.0, False, 0, 0, 0, 0, 0)

    def _beliefs(self, n_arms: int) -> RootPosterior:
        return roots.prior(n_arms, self.width, self.prior_precision, self.a0, self.b0)

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score of every arm."""
        if contexts.ndim == len(self.shape):
            return roots.score(state.posterior, self._features(state, contexts[None])[0])
        return roots.score(state.posterior, self._features(state, contexts))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Count the tuple; train the network; test for a change; refit if the features have moved, or the problem."""
        t, f, drift, step, factor = state.rounds + 1, state.network, None, None, 1.0
        E, evicted = (store if self.skips else store_in_shares)(state.memory, context, arm, reward)
        capacity = cast(int, E.capacity)
        scales = scaling.observe(state.scales, context, reward)
        moved = scaling.drift(scales) > self.tolerance
        if moved:
            scales = scaling.refresh(scales)
        leaving = () if evicted is None else (evicted.context,)
        z = self._features(state, np.array((context, *leaving)))  # by the reference network
        posterior = roots.observe(state.posterior, arm, z[0], reward)  # the new tuple enters the posterior
        prior = [] if evicted is None else roots.observe(state.prior, evicted.arm, z[1], evicted.reward)
        measured, advantage = state.measured or state.rounds >= 2 * len(E.counts), state.advantage
        if measured and not self.skips:
            advantage += self._error_reduction(state, context, z[0], arm, reward) - advantage / capacity
        if state.rounds and t % self.period == 0:  # the first round has nothing to learn from yet
            f, drift, step = self._train(f, state.reference, E, scales, rng)
            moved = moved or drift >= self.tolerance
        tests = self.change_threshold < math.inf and 2 * (t - state.tested) >= capacity  # half of E is new
        counts = t if tests else state.tested, state.refits, state.inflations, state.network_priors
        new = State(f, state.reference, *state[2:4], E, scales, state.origin, advantage, measured, t, *counts)
        rows = posterior + prior
        if tests or moved:
            held, left = self._held(state, E), written(Writes(state.prior, prior))
            if tests:
                factor = self._inflation(state, held, left)
                new = new._replace(inflations=new.inflations + (factor > 1.0))
            if moved or factor > 1.0:
                new, rows = self._refit(state, new, held, left, posterior, factor), []
        return Writes(new, rows), lambda: self._report(new, drift, step)

    def _train(
        self, f: Any, reference: Any, E: Memory, scales: Scales, rng: np.random.Generator
    ) -> tuple[Any, float, Step]:
        """Train the network; return it, and how far its features were from the reference's before the last step."""
        for _ in range(self.steps):
            batch = sample(E, self.batch_size(len(E.counts)), rng)
            inputs, targets = self._inputs(batch.contexts, scales), (batch.rewards - scales.centre) / scales.scale
            features, f, step = self.net.train(f, inputs, batch.arms, targets)
        fixed = self.net.features(reference, inputs)
        away = features - fixed
        if not self.skips:
            varying = fixed - fixed.mean(axis=0)  # what all contexts share distinguishes none
            if _squares(varying) > SAME * _squares(fixed):
                away, fixed = away - away.mean(axis=0), varying
        size = _squares(fixed)
        return f, math.sqrt(_squares(away) / size) if size > 0.0 else math.inf, step

    def _held(self, state: State, E: Memory) -> Held:
        """Return the buffer sorted, with its features."""
        rows = E.rows()
        rows = rows[np.lexsort((E.stamps[rows], E.arms[rows]))]
        contexts = E.contexts[rows]
        return Held(contexts, self._features(state, contexts), E.rewards[rows], [0, *np.cumsum(E.counts).tolist()])

    def _inflation(self, state: State, held: Held, prior: RootPosterior) -> float:
        """Test for a change; return the factor by which prior covariances should be inflated."""
        # Alone, a network memorises what is in the buffer: the noise is that of the errors made before.
        b = prior.b if self.skips else prior.a * (state.posterior.b / state.posterior.a)
        return inflation(prior, np.flatnonzero(prior.a > self.a0), b, held[1:], self.change_threshold)

    def _refit(
        self, state: State, new: State, held: Held, prior: RootPosterior, rows: list[Write], factor: float
    ) -> State:
        """Make the network in training the reference; transport the priors, and refit every arm from the buffer."""
        f, scales, origin = new.network, new.scales, np.zeros(self.width)
        z = self._features(new._replace(reference=f, origin=origin), held.contexts)
        if not self.skips and len(z):
            origin[:-1] = z[:, :-1].mean(axis=0)
            z -= origin
        informed = prior.a > self.a0  # of these arms something has left the buffer
        takes_network = new.advantage > 0.0 and bool(informed.any())
        if not informed.all():
            variances = self._prior_variances(self._noise_share(state, scales, new.measured), z)
            prior = transported.start(prior, ~informed, scales.centre, variances, self.b0 * scales.scale**2)
        if informed.any():
            prior = transported.transport(prior, informed, transport_map(held.features, z, self.ridge))
        if factor > 1.0:
            prior = transported.inflate(prior, informed, factor)
        if takes_network:  # in the scales in which it was trained, not in the new ones
            outputs = self._outputs(f, state.scales, origin)
            prior = prior._replace(mu=np.where(informed[:, None], outputs, prior.mu))
        posterior = transported.refit(prior, z, held.rewards, held.bounds)
        if new.measured and not self.skips:  # the noise is what could not be predicted
            ahead = written(Writes(state.posterior, rows))
            posterior = posterior._replace(b=np.where(ahead.a > self.a0, ahead.b, posterior.b))
        new = new._replace(refits=new.refits + 1, network_priors=new.network_priors + takes_network)
        return new._replace(reference=f, posterior=posterior, prior=prior, origin=origin)

    def _report(self, new: State, drift: float | None, step: Step | None) -> dict[str, Any]:
        counts = {name: getattr(new, name) for name in ("refits", "inflations", "network_priors")}
        return {**report(self.net, new.network, new.memory, step), "drift": drift, **counts}

    def _error_reduction(self, state: State, context: NDArray[Any], z: Array, arm: int, reward: float) -> float:
        """Return by how much smaller the squared error of the network's output is than that of the beliefs' mean."""
        hidden = self.net.features(state.network, self._inputs(context[None], state.scales))[0]
        weights, bias = self.net.last_layer(state.network)
        output = state.scales.centre + state.scales.scale * float(np.dot(weights[arm], hidden) + bias[arm])
        return float(reward - np.dot(state.posterior.mu[arm], z)) ** 2 - (reward - output) ** 2

    def _outputs(self, f: Any, scales: Scales, origin: Array) -> Array:
        """Return the weights with which features, measured from an origin, give the network's outputs as rewards."""
        weights, bias = self.net.last_layer(f)
        out = scales.scale * np.column_stack((weights, bias))
        out[:, -1] += scales.centre + np.dot(out[:, :-1], origin[:-1])
        return out

    def _prior_variances(self, noise: float, features: Array) -> Array:
        """Return the variance of every weight at the start, in units of the noise, a share of the rewards' variance.

        What hidden layer, context and constant add to a score varies by 1 / prior_precision of the rewards' variance.
        """
        squares = np.einsum("ij,ij->j", features, features) / max(len(features), 1)
        sizes = np.ones(len(squares))
        for part in (slice(self.net.width), slice(self.net.width, -1)):
            size = float(squares[part].sum())
            if SMALLEST_SIZE <= size <= LARGEST_SIZE:  # otherwise features are dead, have exploded, or there are none
                sizes[part] = size
        return 1.0 / (self.prior_precision * noise * sizes)

    def _noise_share(self, state: State, scales: Scales, measured: bool) -> float:
        """Return the share of the rewards' variance that is noise; 1 until that is known."""
        _, _, a, b = state.posterior
        return min(float(b.sum() / a.sum()) / scales.scale**2, 1.0) if measured else 1.0

    def _features(self, state: State, contexts: NDArray[Any]) -> Array:
        """Return the features of contexts: the reference network's, the contexts themselves with ``skip``, and a 1."""
        inputs = self._inputs(contexts, state.scales)
        hidden = self.net.features(state.reference, inputs)
        one = np.ones((len(hidden), 1))
        if not self.skips:
            return np.concatenate((hidden, one), axis=1) - state.origin
        scaled = inputs if self.representation is None else contexts / state.scales.size
        return np.concatenate((hidden, scaled, one), axis=1)

    def _inputs(self, contexts: NDArray[Any], scales: Scales) -> NDArray[Any]:
        """Return contexts as the network gets them."""
        return contexts / scales.size if self.representation is None else contexts

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or like another."""
        E, posterior, twin = grown_memory(state.memory, self.buffer), self._beliefs(1), copy.deepcopy(rng)
        prior = posterior
        if like is not None:
            E, rows = memory.copy_tuples(E, like, len(E.counts) - 1)
            z, own = self._features(state, E.contexts[rows]), RootPosterior(*(part[[like]] for part in state.prior))
            prior = transported.refit(own, z, E.rewards[rows], [0, len(rows)])  # there is no room for these tuples
        elif state.refits:
            noise, z = (
                self._noise_share(state, state.scales, state.measured),
                self._features(state, E.contexts[E.rows()]),
            )
            variances, b = self._prior_variances(noise, z), self.b0 * state.scales.scale**2
            prior = posterior = transported.start(prior, np.array([True]), state.scales.centre, variances, b)
        return state._replace(
            network=self.net.add_arm(state.network, like, rng),
            reference=self.net.add_arm(state.reference, like, twin),
            posterior=with_arm(state.posterior, like, posterior),
            prior=with_arm(state.prior, None, prior),
            memory=E,
        )

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; those after it move up."""
        return state._replace(
            network=self.net.remove_arm(state.network, arm),
            reference=self.net.remove_arm(state.reference, arm),
            posterior=without_arm(state.posterior, arm),
            prior=without_arm(state.prior, arm),
            memory=shrunk_memory(state.memory, arm, self.buffer),
        )

    def kinds(self) -> Mapping[str, Any]:
        """Return the types of the two networks."""
        return {**self.net.kinds("network"), **self.net.kinds("reference")}

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the state's axes that are known from the settings."""
        return {**super().sizes(n_arms), "g": self.width}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible in a way that annotations do not tell."""
        super().check(state)
        check_network(self.net, state.reference, len(state.posterior.a))
        scaling.check(state.scales)
        if self.skips and state.advantage:
            raise ValueError("with contexts among the features the network's advantage is not measured")


def _squares(array: Array) -> float:
    flat = array.reshape(-1)
    return float(np.dot(flat, flat))
