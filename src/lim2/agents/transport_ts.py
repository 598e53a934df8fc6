"""LiM2-Transport: every tuple counted once for ever, beliefs transported when the features have moved."""

import copy
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from lim2._state import note, undo
from lim2.agents.base import Array, Sized
from lim2.agents.believer import Believer
from lim2.agents.checks import positive_int
from lim2.agents.doubt import widening
from lim2.agents.neural import NeuralBeliever, Size, context_shape
from lim2.agents.units import Units
from lim2.exploration import UCB, Exploration, Thompson, TransportedPosterior
from lim2.matching import transport_map
from lim2.memory import Buffer
from lim2.representation import MLP, ChangesArms, ContextReader, Representation

LARGEST_SKIP = 512
SMALLEST_SIZE, LARGEST_SIZE = 1e-12, 1e12
SAME = 1e-12  # a share of squared features below which contexts do not differ


class TransportTS(NeuralBeliever):
    """Neural-linear Thompson sampling in bounded memory, beyond the paper: meant to be picked without looking.

    Beliefs are about the features of the *settled* network, a copy of the one that is being trained. While the
    training network's features stay within ``tolerance`` of the settled ones, a round is exact Bayesian linear
    regression: the new tuple enters the played arm's belief, the one that leaves the buffer enters that arm's prior, in
    O(width^2). When they have moved further, the settled network takes over the trained one: priors, which hold exactly
    what has left the buffer, are transported to the new features, and every arm is refitted from its prior and the
    buffer. So every tuple counts once, for ever, and time follows drift.

    Each time half of the buffer is new, it is asked whether it bears the priors out. If its older half would have
    foretold the newer one better, had the priors been wider, they are made so: what was learned in a world that has
    changed gives way. See ``docs/transport.md``.

    The features are the network's last hidden layer, the context itself (``skip``) and a constant 1. Contexts are
    divided by their running root mean square, rewards enter in units of their running mean and standard deviation:
    decisions do not depend on the scale or the origin of rewards.

    Texts, images and long contexts are not among the features. There all rests on a network that may learn its buffer
    by heart. So it trains in every round, on a buffer in which arms have equal shares as far as they were played;
    features are measured from their mean, the noise by errors made before a tuple was trained on; and where the
    network's own outputs have lately come closer to the rewards than the beliefs, its last layer takes the place of the
    priors' means, which then no longer count every tuple once.

    There is no ``standardize`` and no ``forget``. One size serves all columns of a context: scale columns of different
    units beforehand. And it forgets when there is reason to, not at a rate.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out where the representation knows it.
    arms
        Instead of ``n_arms``: what the arms are called, any hashable values.
    hidden
        Sizes of the network's hidden layers.
    buffer
        How many tuples are remembered, all arms together. None: 100 an arm.
    batch
        Tuples in a training batch. None: 16 an arm.
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
        prior_precision each, with s the standard deviation of the rewards: however many features they are, and however
        large.
    a0, b0
        The noise variance starts at InvGamma(a0, b0 s^2).
    learning_rate
        First rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    tolerance
        How far the features of the network in training may move from the settled ones, root mean square over a batch
        relative to their size, before the beliefs follow; the same for the units of rewards and contexts. 0 refits in
        every round.
    ridge
        How strongly the transport is drawn to the identity, relative to the mean square of a feature.
    surprise
        How sure the buffer must be, in standard errors, that wider priors would have foretold it better, for these to
        be widened. math.inf: never, for a world that does not change.
    optimism, temperature
        A score is drawn as mean + scale * (optimism + temperature * t), t being Student-t: the share of a belief's
        scale that an arm gets as a bonus, and the share with which it is drawn. ``means`` and ``variances`` are the
        belief's own; propensities are those of what is drawn.
    skip
        Whether the context itself is among the features, next to what the network makes of it. None: if it is a vector
        of at most 512 numbers.
    exploration
        ``"thompson"``, as above; ``"ucb"``, the same with nothing drawn; or an object, which brings its own optimism
        and temperature, such as ``lim2.exploration.UCB(optimism=2.0)``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used, and the network gets contexts
        as they are.
    seed
        The same seed and inputs give the same decisions.

    Attributes
    ----------
    refits
        How many rounds have transported and refitted.
    widened
        How often the priors have been widened.
    deferred
        How often the network's last layer has taken the place of the priors' means; never with ``skip``.
    settled
        The network whose features the beliefs are about.
    prior
        What has left the buffer: the beliefs without it.
    origin
        What features are measured from: their mean over the buffer when it was last refitted; 0 with ``skip``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> agent = TransportTS(n_arms=2, n_features=2, seed=0)
    >>> reward = 0.0
    >>> for context in rng.normal(size=(500, 2)):
    ...     arm = agent.act(context)
    ...     r = float(arm == (context[0] * context[1] > 0))
    ...     agent.update(context, arm, r)
    ...     reward += r
    >>> reward > 350  # chance: 250
    True
    >>> agent.memory.counts.sum(), agent.rounds, agent.refits < 100
    (np.int64(200), 500, True)
    """

    name: ClassVar[str] = "LiM2-Transport"

    _passing: ClassVar[frozenset[str]] = NeuralBeliever._passing | {"_drift"}
    # What an update replaces by something new, besides the posterior, or does not touch.
    _replaced: ClassVar[tuple[str, ...]] = (
        "prior", "settled", "units", "origin", "refits", "widened", "deferred", "_weighed", "_lead", "_started",
    )  # fmt: skip
    _kept: ClassVar[tuple[str, ...]] = (*NeuralBeliever._kept, *_replaced)
    _served: ClassVar[tuple[str, ...]] = (*Believer._served, "settled", "units", "origin")

    memory: Buffer

    def __init__(
        self,
        n_arms: int | None = None,
        n_features: Size = None,
        *,
        arms: Iterable[Hashable] | None = None,
        hidden: int | Sequence[int] = (50,),
        buffer: int | None = None,
        batch: int | None = None,
        steps: int = 1,
        train_every: int | None = None,
        initial_pulls: int = 2,
        min_propensity: float = 0.0,
        prior_precision: float = 1.0,
        a0: float = 1.0,
        b0: float = 0.1,
        learning_rate: float = 0.015,
        tolerance: float = 0.2,
        ridge: float = 0.01,
        surprise: float = 3.0,
        optimism: float = 0.4,
        temperature: float = 0.2,
        skip: bool | None = None,
        exploration: str | Exploration = "thompson",
        representation: Representation | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            arms=arms,
            hidden=hidden,
            batch=batch,
            steps=steps,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            learning_rate=learning_rate,
            refresh="all",
            intercept=True,
            exploration=_exploration(exploration, optimism, temperature),
            representation=representation,
            seed=seed,
            standardize=False,
            forget=0.0,
            settings=locals(),
        )
        self.skip = _skips(skip, self.context_shape, self.representation)
        self.memory = self._make_buffer(buffer, fair=not self.skip)
        every = 1 + self.skip if train_every is None else train_every
        self.train_every = positive_int("train_every", every)
        self.tolerance = _amount("tolerance", tolerance)
        self.ridge = _amount("ridge", ridge, or_zero=False)
        self.surprise = surprise if surprise == math.inf else _amount("surprise", surprise)
        self._scales_inputs = representation is None
        width = self.representation.width + self.n_features * self.skip + 1
        believe = (self.n_arms, width, prior_precision, a0, b0)
        self.prior: TransportedPosterior = TransportedPosterior(*believe)
        self.posterior: TransportedPosterior = TransportedPosterior(*believe)  # type: ignore[assignment]  # other beliefs
        self.settled: Representation = copy.deepcopy(self.representation)
        self.units = Units()
        self.origin = np.zeros(width)
        self.refits = self.widened = self.deferred = 0
        self._weighed = 0  # the round in which the priors were last weighed
        self._lead = 0.0  # of the network over the beliefs, in squared errors
        self._started = False  # whether arms can have been seen twice, so that noise can be measured
        self._drift: float | None = None  # of the latest update, if it trained

    @classmethod
    def _least_numbers(cls, n_arms: int, settings: Mapping[str, Any]) -> int:
        given = settings["representation"]
        network = MLP(settings["hidden"]) if given is None else given
        shape = context_shape(settings["n_features"], network)
        width = int(network.width) + math.prod(shape) * _skips(settings["skip"], shape, network) + 1
        return super()._least_numbers(n_arms, settings) + n_arms * width**2

    def _components(self) -> Iterable[Sized]:
        return (*super()._components(), self.prior, self.settled, self.units, self.origin)

    @property
    def _deciding_network(self) -> Representation:
        return self.settled

    def _diagnosis(self) -> dict[str, Any]:
        counts = {"refits": self.refits, "widened": self.widened, "deferred": self.deferred}
        return {**super()._diagnosis(), "drift": self._drift, **counts}

    # A round

    @property
    def _trains(self) -> bool:
        """Whether the network is trained in this round; the first has nothing to learn from yet."""
        return self.rounds > 0 and (self.rounds + 1) % self.train_every == 0

    @property
    def _weighs(self) -> bool:
        """Whether the priors are weighed in this round: half of the buffer is new since they last were."""
        return self.surprise < math.inf and self.rounds + 1 - self._weighed >= self.memory.capacity / 2

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        self._started = self._started or self.rounds >= 2 * self.n_arms
        units = self.units.including(context, reward)
        moved = units.drift > self.tolerance
        if moved:
            units.adopt()
        seen = self._features_like(context)
        if not self.skip and self._started:
            self._lead += self._gain(context, seen, arm, reward) - self._lead / self.memory.capacity
        evicted = self.memory.stage(context, arm, reward)
        if evicted is not None:
            self.prior.observe(evicted.arm, self._features_like(evicted.context), evicted.reward)
        drift = self._train(units) if self._trains else None
        self.memory.commit()
        factor = 1.0
        if self._weighs:
            factor, self._weighed = self._weigh(), self.rounds + 1
            self.widened += factor > 1.0
        if moved or factor > 1.0 or (drift is not None and drift >= self.tolerance):
            contexts, posterior = self.memory.contexts, self.posterior.copy()
            old, new = self._features(contexts), self._features_by(self.representation, contexts, units)
            posterior.observe(arm, seen, reward)
            self._settle(units, posterior, old, new, factor)
        else:
            self.units = units
            self.posterior.observe(arm, seen, reward)
        self._drift = drift

    def _train(self, units: Units) -> float:
        """Train the network; return how far its features were, before the last step, from the settled ones."""
        for _ in range(self.steps):
            batch = self.memory.sample(self.batch, self._learn_rng)
            inputs = self._scaled(batch.contexts, units)
            features = self.representation.train_step(inputs, batch.arms, (batch.rewards - units.centre) / units.scale)
        settled = np.asarray(self.settled.features(inputs), dtype=np.float64)
        away = features - settled
        if not self.skip:
            varying = settled - settled.mean(axis=0)  # what all contexts share is no feature of any
            if _squares(varying) > SAME * _squares(settled):
                away, settled = away - away.mean(axis=0), varying
        size = _squares(settled)
        return math.sqrt(_squares(away) / size) if size > 0.0 else math.inf

    def _settle(
        self, units: Units, posterior: TransportedPosterior, old: Array, new: Array, factor: float = 1.0
    ) -> None:
        """Let the beliefs follow the network: transport what has left the buffer, refit from the buffer.

        ``posterior`` is what is believed until now, a copy. ``old`` and ``new`` are the buffer's features, the new ones
        as the network makes them; what has left it is widened by a factor. Everything is replaced by something new, and
        only at the end.
        """
        prior, origin = self.prior.copy(), self._origin(new)
        new = new - origin
        prior.transport(transport_map(old, new, self.ridge))
        prior.start(prior.unseen, units.centre, units.scale, self._noise_share(units), self._sizes(new))
        prior.widen(prior.seen, factor)
        defers = self._lead > 0.0 and prior.seen.size > 0
        if defers:  # by the units in which the network was trained, not those that are new
            prior.mu[prior.seen] = self._outputs(self.units, origin)[prior.seen]
        for arm in range(self.n_arms):
            rows = self.memory.rows(arm)
            ahead = not self.skip and self._started and posterior.a[arm] > posterior.a0
            posterior.refit(arm, prior, new[rows], self.memory.rewards[rows], keep_noise=ahead)
        self.settled = copy.deepcopy(self.representation)
        self.units, self.prior, self.posterior, self.origin = units, prior, posterior, origin
        self.refits, self.deferred = self.refits + 1, self.deferred + defers

    def _weigh(self) -> float:
        """Return by how much wider the priors should be, going by the buffer; 1 if it bears them out."""
        prior, posterior = self.prior, self.posterior
        # What has left the buffer had been learned by heart: its noise is what all was off by when it came.
        b = prior.b if self.skip else prior.a * (posterior.b / posterior.a)
        return widening(prior, self.memory, self._features(self.memory.contexts), b, self.surprise)

    # The network alone: what is done differently where the context is not among the features

    def _origin(self, features: Array) -> Array:
        """Return what features are measured from: with the context among them 0, else their mean."""
        origin = np.zeros(features.shape[1])
        if not self.skip and len(features):
            origin[:-1] = features[:, :-1].mean(axis=0)
        return origin

    def _gain(self, context: Array, seen: Array, arm: int, reward: float) -> float:
        """Return by how much smaller a squared error the network's output would have had than the beliefs' mean."""
        hidden = self._features_by(self.representation, context[None], self.units)[0]
        by_network = reward - float(np.dot(self._outputs(self.units)[arm], hidden))
        by_beliefs = reward - float(np.dot(self.posterior.mu[arm], seen))
        return by_beliefs * by_beliefs - by_network * by_network

    def _outputs(self, units: Units, origin: Array | None = None) -> Array:
        """Return the weights with which features, measured from an origin, give the network's outputs as rewards."""
        weights, bias = self.representation.head
        out = units.scale * np.column_stack((weights, bias))
        out[:, -1] += units.centre
        if origin is not None:
            out[:, -1] += np.dot(out[:, :-1], origin[:-1])
        return out

    def _sizes(self, features: Array) -> Array:
        """Return for every feature the mean square length of its part: hidden layer, context, constant."""
        squares = np.einsum("ij,ij->j", features, features) / max(len(features), 1)
        sizes = np.ones(len(squares))
        hidden = self.representation.width
        for part in (slice(hidden), slice(hidden, -1)):
            size = float(squares[part].sum())
            if SMALLEST_SIZE <= size <= LARGEST_SIZE:  # otherwise features are dead, have exploded, or there are none
                sizes[part] = size
        return sizes

    def _noise_share(self, units: Units) -> float:
        """Return how much of the rewards' variance is noise; all of it until that is known."""
        return min(self.posterior.noise / units.scale**2, 1.0) if self._started else 1.0

    # An update that fails

    def _before(self, arm: int) -> Any:
        loser = self.memory.loser(arm)
        leaving = None if loser is None else self.prior.note(loser)
        trained = None
        if self._trains or not self.rounds:  # with the first context, networks may settle on a type of contexts
            trained = note(self.representation), self._learn_rng.bit_generator.state
        replaced = {name: getattr(self, name) for name in self._replaced}
        if not self.rounds:
            replaced["settled"] = copy.deepcopy(self.settled)
        # A refit replaces the posterior. Without one, the belief about an arm changes as the last thing, and in one go.
        return self.memory.stored, leaving, trained, {**replaced, "posterior": self.posterior}

    def _undo(self, before: Any) -> None:
        stored, leaving, trained, replaced = before
        for name, value in replaced.items():
            setattr(self, name, value)
        self._undo_storing(stored)
        if leaving is not None:
            self.prior.undo(leaving)
        if trained is not None:
            network, self._learn_rng.bit_generator.state = trained
            undo(self.representation, network)

    # Arms that change

    def _add_arm(self, like: int | None) -> None:
        rng, noise = copy.deepcopy(self._init_rng), self._noise_share(self.units) if self.refits else 1.0
        super()._add_arm(like)
        cast(ChangesArms, self.settled).add_arm(rng, like)  # its outputs are never asked for, but there they are
        self.prior.add_arm(like)
        if like is not None:
            self._copy_tuples(like)
        elif self.refits:  # there are units to start in
            sizes = self._sizes(self._features(self.memory.contexts))
            for beliefs in (self.prior, self.posterior):
                beliefs.start(self.n_arms, self.units.centre, self.units.scale, noise, sizes)

    def _remove_arm(self, arm: int) -> None:
        super()._remove_arm(arm)
        cast(ChangesArms, self.settled).remove_arm(arm)
        self.prior.remove_arm(arm)

    def _leave(self, slot: int, arm: int) -> None:
        self.prior.observe(arm, self._features_like(self.memory.contexts[slot]), float(self.memory.rewards[slot]))

    # Features

    def _features(self, contexts: NDArray[Any]) -> Array:
        return self._features_by(self.settled, contexts, self.units) - self.origin

    def _features_by(self, network: Representation, contexts: NDArray[Any], units: Units) -> Array:
        """Return what a network makes of contexts, the contexts themselves if they are skipped to, and a constant 1."""
        hidden = network.features(self._scaled(contexts, units))
        width = hidden.shape[1]
        features = np.empty((len(hidden), self.posterior.mu.shape[1]))
        features[:, :width] = hidden
        if self.skip:
            np.divide(contexts, units.size, out=features[:, width:-1])
        features[:, -1] = 1.0
        return features

    def _scaled(self, contexts: NDArray[Any], units: Units) -> NDArray[Any]:
        """Return what a network sees of contexts."""
        return contexts / units.size if self._scales_inputs else contexts


def _exploration(exploration: str | Exploration, optimism: float, temperature: float) -> str | Exploration:
    """Return what a name stands for; anything else as it is."""
    named: dict[str, Exploration] = {"thompson": Thompson(temperature, optimism), "ucb": UCB(optimism)}
    return named.get(exploration, exploration) if isinstance(exploration, str) else exploration


def _skips(skip: bool | None, shape: tuple[int, ...], network: Representation) -> bool:
    """Whether contexts are among the features; None for those that are vectors, and not too long."""
    vectors = len(shape) == 1 and not isinstance(network, ContextReader)
    if skip and not vectors:
        raise ValueError(f"skip is for contexts that are vectors, not of shape {shape}")
    return vectors and shape[0] <= LARGEST_SKIP if skip is None else bool(skip)


def _squares(array: Array) -> float:
    flat = array.reshape(-1)
    return float(np.dot(flat, flat))


def _amount(name: str, value: float, or_zero: bool = True) -> float:
    if not (value >= 0.0 if or_zero else value > 0.0) or not value < math.inf:
        raise ValueError(f"{name} must be {'0 or ' if or_zero else ''}positive and finite, got {value!r}")
    return float(value)
