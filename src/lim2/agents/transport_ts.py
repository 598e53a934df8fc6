"""LiM2-Transport: every tuple counted once for ever, beliefs transported when the features have moved."""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lim2.agents.base import Array, Sized, positive_int
from lim2.agents.neural import NeuralBeliever, Size
from lim2.agents.units import Units
from lim2.exploration import Exploration, TransportedPosterior
from lim2.matching import transport_map
from lim2.representation import Representation

LARGEST_SKIP = 512


class TransportTS(NeuralBeliever):
    """Neural-linear Thompson sampling in bounded memory, beyond the paper: one agent to pick without looking.

    Beliefs are about the features of the *settled* network, a copy of the one that is being trained. While the
    training network's features stay within ``tolerance`` of the settled ones, a round is exact Bayesian linear
    regression: the new tuple enters the played arm's belief, the one that leaves the buffer enters that arm's prior, in
    O(width^2). When they have moved further, the settled network takes over the trained one: priors, which hold exactly
    what has left the buffer, are transported to the new features, and every arm is refitted from its prior and the
    buffer. So every tuple counts once, for ever, and time follows drift. See ``docs/transport.md``.

    The features are the network's last hidden layer, the context itself (``skip``) and a constant 1. Contexts are
    divided by their running root mean square, rewards enter in units of their running mean and standard deviation:
    decisions do not depend on the scale or the origin of rewards.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out where the representation knows it.
    hidden
        Sizes of the network's hidden layers.
    buffer
        How many tuples are remembered, all arms together. None: 100 an arm.
    batch
        Tuples in a training batch. None: 16 an arm.
    steps
        Batches of a round that trains.
    train_every
        Rounds from one that trains to the next.
    initial_pulls
        How often every arm is played, in turn, at the start.
    prior_precision
        Weights of the context and of the constant start with the variance s^2 / prior_precision, with s the standard
        deviation of the rewards.
    hidden_precision
        The same for the weights of the hidden layer.
    a0, b0
        The noise variance starts at InvGamma(a0, b0 s^2).
    learning_rate
        First rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    tolerance
        How far the features of the network in training may move from the settled ones, root mean square over a batch
        relative to their size, before the beliefs follow. 0 transports and refits in every round that trains.
    ridge
        How strongly the transport is drawn to the identity, relative to the mean square of a feature.
    temperature
        The share of a score's scale with which it is drawn: below 1 explores less than the beliefs' own spread, and
        leaves ``means`` and ``variances`` as they are.
    skip
        Whether the context itself is among the features, next to what the network makes of it. None: if it is a vector
        of at most 512 numbers.
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``.
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
    settled
        The network whose features the beliefs are about.
    prior
        What has left the buffer: the beliefs without it.

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
    >>> reward > 400  # chance: 250
    True
    >>> agent.memory.counts.sum(), agent.rounds, agent.refits < 100
    (np.int64(200), 500, True)
    """

    name: ClassVar[str] = "LiM2-Transport"

    def __init__(
        self,
        n_arms: int,
        n_features: Size = None,
        *,
        hidden: int | Sequence[int] = (50,),
        buffer: int | None = None,
        batch: int | None = None,
        steps: int = 1,
        train_every: int = 2,
        initial_pulls: int = 2,
        prior_precision: float = 10.0,
        hidden_precision: float = 100.0,
        a0: float = 1.0,
        b0: float = 0.1,
        learning_rate: float = 0.02,
        tolerance: float = 0.2,
        ridge: float = 0.01,
        temperature: float = 0.5,
        skip: bool | None = None,
        exploration: str | Exploration = "thompson",
        representation: Representation | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            hidden=hidden,
            batch=batch,
            steps=steps,
            initial_pulls=initial_pulls,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            learning_rate=learning_rate,
            refresh="all",
            intercept=True,
            exploration=exploration,
            representation=representation,
            seed=seed,
            settings=locals(),
        )
        self.memory = self._make_buffer(buffer)
        self.train_every = positive_int("train_every", train_every)
        self.tolerance = _amount("tolerance", tolerance)
        self.ridge = _amount("ridge", ridge, or_zero=False)
        vectors = len(self.context_shape) == 1 and self._reader is None
        if skip and not vectors:
            raise ValueError(f"skip is for contexts that are vectors, not of shape {self.context_shape}")
        self.skip = vectors and self.n_features <= LARGEST_SKIP if skip is None else bool(skip)
        self._scales_inputs = representation is None
        width = self.representation.width + self.n_features * self.skip + 1
        precision = np.full(width, float(prior_precision))
        precision[: self.representation.width] = _amount("hidden_precision", hidden_precision, or_zero=False)
        believe = (self.n_arms, width, precision, a0, b0, temperature)
        self.prior: TransportedPosterior = TransportedPosterior(*believe)
        self.posterior: TransportedPosterior = TransportedPosterior(*believe)  # type: ignore[assignment]  # other beliefs
        self.settled: Representation = copy.deepcopy(self.representation)
        self.units = Units()
        self.refits = 0

    def _components(self) -> Iterable[Sized]:
        return (*super()._components(), self.prior, self.settled, self.units)

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        units = self.units.including(context, reward)
        moved = units.drift > self.tolerance
        if moved:
            units.adopt()
        evicted = self.memory.stage(context, arm, reward)
        try:
            leaving = None if evicted is None else self._features_like(evicted.context)
            if self.rounds and (self.rounds + 1) % self.train_every == 0:
                moved = self._train(units) >= self.tolerance or moved
            if moved:
                old = self._features(self.memory.contexts)
                new = self._features_by(self.representation, self.memory.contexts, units)
            else:
                entering = self._features_like(context)
        except BaseException:  # an update happens whole or not at all
            self.memory.abandon()
            raise
        self.memory.commit()
        self.units = units
        if evicted is not None and leaving is not None:
            self.prior.observe(evicted.arm, leaving, evicted.reward)
        if moved:
            self._settle(old, new)
        else:
            self.posterior.observe(arm, entering, reward)

    def _train(self, units: Units) -> float:
        """Train the network; return how far its features were, before the last step, from the settled ones."""
        for _ in range(self.steps):
            batch = self.memory.sample(self.batch, self._learn_rng)
            inputs = self._inputs(batch.contexts, units)
            features = self.representation.train_step(inputs, batch.arms, (batch.rewards - units.centre) / units.scale)
        settled = np.asarray(self.settled.features(inputs), dtype=np.float64)
        away = (features - settled).reshape(-1)
        size = float(np.dot(settled.reshape(-1), settled.reshape(-1)))
        return math.sqrt(float(np.dot(away, away)) / size) if size > 0.0 else math.inf

    def _settle(self, old: Array, new: Array) -> None:
        """Let the beliefs follow the network: transport what has left the buffer, refit from the buffer."""
        self.refits += 1
        self.settled.restore(self.representation.state())
        self.prior.transport(transport_map(old, new, self.ridge))
        self.prior.start(self.units.centre, self.units.scale, self._noise_share())
        for arm in range(self.n_arms):
            rows = self.memory.rows(arm)
            self.posterior.refit(arm, self.prior, new[rows], self.memory.rewards[rows])

    def _noise_share(self) -> float:
        """Return how much of the rewards' variance is noise; all of it until arms can have been seen twice."""
        known = self.rounds >= 2 * self.n_arms
        return min(self.posterior.noise / self.units.scale**2, 1.0) if known else 1.0

    def _features(self, contexts: NDArray[Any]) -> Array:
        return self._features_by(self.settled, contexts, self.units)

    def _features_by(self, network: Representation, contexts: NDArray[Any], units: Units) -> Array:
        """Return what a network makes of contexts, the contexts themselves if they are skipped to, and a constant 1."""
        hidden = network.features(self._inputs(contexts, units))
        width = hidden.shape[1]
        features = np.empty((len(hidden), self.posterior.mu.shape[1]))
        features[:, :width] = hidden
        if self.skip:
            np.divide(contexts, units.size, out=features[:, width:-1])
        features[:, -1] = 1.0
        return features

    def _inputs(self, contexts: NDArray[Any], units: Units) -> NDArray[Any]:
        return contexts / units.size if self._scales_inputs else contexts


def _amount(name: str, value: float, or_zero: bool = True) -> float:
    if not (value >= 0.0 if or_zero else value > 0.0) or not value < math.inf:
        raise ValueError(f"{name} must be {'0 or ' if or_zero else ''}positive and finite, got {value!r}")
    return float(value)
