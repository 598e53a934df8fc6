"""The round that the neural-linear agents share: the paper's Algorithm 2, with the prior left open.

LiM2, NeuralLinear-MM, NeuralLinear-Naive and the full-memory NeuralLinear are this class with different parts: the
memory (a bounded buffer, or everything), the prior of the mean (the last layer, or 0), the prior of the covariance
(``priors.py``), and how often the network is trained.
"""

import copy
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lim2._state import note, undo
from lim2.agents.base import Array, Sized, one_of, positive_int
from lim2.agents.believer import Believer, with_intercept
from lim2.agents.priors import Carried, Fixed
from lim2.agents.recompute import Recompute
from lim2.exploration import Exploration, Posterior
from lim2.exploration.posterior import condition
from lim2.memory import Buffer, History
from lim2.representation import MLP, ContextReader, Representation, RMSProp

BUFFER_PER_ARM, BATCH_PER_ARM = 100, 16

# The size of a context, its shape, or None where the representation knows it.
Size = int | Sequence[int] | None


def context_shape(n_features: Size, representation: Representation) -> tuple[int, ...]:
    """Return the shape of a context, from what the user says and what the representation knows."""
    known = representation.context_shape if isinstance(representation, ContextReader) else None
    if n_features is None:
        if known is None:
            raise ValueError(
                "n_features is missing: give the size of a context, or its shape, e.g. n_features=(3, 32, 32). It may "
                "be left out only where the representation knows it, as TextCNN does"
            )
        return known
    if isinstance(n_features, list | tuple):
        if not n_features:
            raise ValueError("n_features must be the size of a context or its shape, got an empty shape")
        shape = tuple(positive_int("n_features", size) for size in n_features)
    else:
        shape = (positive_int("n_features", n_features),)  # type: ignore[arg-type]  # refuses what is no number
    if known is not None and shape != known:
        raise ValueError(f"n_features is {n_features!r}, but the representation takes contexts of shape {known}")
    if len(shape) > 1 and isinstance(representation, MLP):
        raise ValueError(
            f"n_features is the shape {shape}, but an MLP takes vectors: flatten the contexts to {math.prod(shape)} "
            "numbers, or give a representation that takes such arrays, e.g. Torch(module)"
        )
    return shape


class NeuralBeliever(Believer):
    """An agent with linear beliefs over the features of a network, and a memory to train the network from."""

    _kept: ClassVar[tuple[str, ...]] = (*Believer._kept, "representation", "memory", "batch")
    _served: ClassVar[tuple[str, ...]] = (*Believer._served, "representation")

    def __init__(
        self,
        n_arms: int,
        n_features: Size,
        *,
        hidden: int | Sequence[int],
        batch: int | None,
        steps: int,
        initial_pulls: int,
        prior_precision: float,
        a0: float,
        b0: float,
        learning_rate: float,
        refresh: str,
        intercept: bool,
        exploration: str | Exploration,
        representation: Representation | None,
        seed: int | None,
        settings: dict[str, Any],
    ) -> None:
        if isinstance(representation, type) or not (representation is None or hasattr(representation, "train_step")):
            raise ValueError(f"representation must be an object such as MLP(hidden=(100, 50)), got {representation!r}")
        network: Representation = MLP(hidden, RMSProp(learning_rate)) if representation is None else representation
        shape = context_shape(n_features, network)
        super().__init__(
            n_arms,
            math.prod(shape),
            exploration=exploration,
            initial_pulls=initial_pulls,
            seed=seed,
            settings=settings,
        )
        self.batch = positive_int("batch", BATCH_PER_ARM * self.n_arms if batch is None else batch)
        self.steps = positive_int("steps", steps)
        self.refresh = one_of("refresh", refresh, ("played", "all"))
        self.intercept = bool(intercept)
        if representation is not None:
            for unused in ("hidden", "learning_rate"):
                self._shown.pop(unused, None)
        self.context_shape = shape
        self._given = representation is not None
        self.representation = network if representation is None else copy.deepcopy(representation)
        self._reader = self.representation if isinstance(self.representation, ContextReader) else None
        self.representation.bind(shape[0] if len(shape) == 1 else shape, self.n_arms, self._init_rng)
        width = self.representation.width + self.intercept
        self.posterior: Posterior = Posterior(self.n_arms, width, prior_precision, a0, b0)
        self.memory: Buffer | History

    @classmethod
    def _least_numbers(cls, n_arms: int, settings: Mapping[str, Any]) -> int:
        given = settings["representation"]
        network = MLP(settings["hidden"]) if given is None else given
        shape = context_shape(settings["n_features"], network)
        sizes = (*shape, *network.hidden) if isinstance(network, MLP) else ()
        return sum(n * m for n, m in itertools.pairwise(sizes)) + n_arms * int(network.width) ** 2

    def _components(self) -> Iterable[Sized]:
        return (self.representation, self.posterior, self.memory)

    def _objects(self) -> dict[str, Any]:
        return {**super()._objects(), "representation": self.representation if self._given else None}

    def _frozen(self) -> Self:
        twin = super()._frozen()
        twin._reader = None if self._reader is None else twin.representation  # type: ignore[assignment]
        return twin

    def _note_training(self, arm: int | None = None) -> Any:
        """Return what :meth:`_undo_training` needs: beliefs, of covariances all or one arm's, network and stream."""
        return self.posterior.note(arm), note(self.representation), self._learn_rng.bit_generator.state

    def _undo_training(self, noted: Any) -> None:
        beliefs, network, self._learn_rng.bit_generator.state = noted
        self.posterior.undo(beliefs)
        undo(self.representation, network)

    def _undo_storing(self, stored: int) -> None:
        """Put the memory back to as many tuples as were stored."""
        if self.memory.stored > stored:
            self.memory.abandon()

    def _read(self, values: ArrayLike, what: str) -> NDArray[Any]:
        return super()._read(values, what) if self._reader is None else self._reader.read(values, what)

    def _features(self, contexts: NDArray[Any]) -> Array:
        return self._with_intercept(self.representation.features(contexts))

    def _with_intercept(self, features: Array) -> Array:
        """Return a network's features as the beliefs take them."""
        return with_intercept(features) if self.intercept else np.asarray(features, dtype=np.float64)

    def _last_layer(self, arm: int) -> Array:
        """Return the network's own weights of an arm: the paper's prior of the mean, mu0."""
        weights, bias = self.representation.head
        return np.append(weights[arm], bias[arm]) if self.intercept else weights[arm]

    def _make_buffer(self, capacity: int | None) -> Buffer:
        size = BUFFER_PER_ARM * self.n_arms if capacity is None else positive_int("buffer", capacity)
        return Buffer(size, self.n_arms, self.context_shape, self._context_dtype)

    @property
    def _context_dtype(self) -> DTypeLike | None:
        """Contexts are stored as float64, or as the representation reads them."""
        return np.float64 if self._reader is None else None


class NeuralLinearFamily(NeuralBeliever):
    """Algorithm 2 with its parts left open."""

    _kept: ClassVar[tuple[str, ...]] = (*NeuralBeliever._kept, "prior", "_recompute", "_evicted_squares")

    def __init__(
        self,
        n_arms: int,
        n_features: Size,
        *,
        noise: str = "history",
        mean_prior: bool,
        train_every: int = 1,
        recompute_every: int = 1,
        recompute_share: float = 1.0,
        **common: Any,
    ) -> None:
        super().__init__(n_arms, n_features, **common)
        self.noise = one_of("noise", noise, ("history", "buffer"))
        self.mean_prior = bool(mean_prior)
        self.train_every = positive_int("train_every", train_every)
        recompute = Recompute(recompute_every, recompute_share)
        self._recompute = None if recompute.every == recompute.share == 1 else recompute
        self.prior: Fixed | Carried
        self._evicted_squares = np.zeros(self.n_arms)  # sum of r^2 over what has left the memory

    def _components(self) -> Iterable[Sized]:
        kept = () if self._recompute is None else (self._recompute,)
        return (*super()._components(), self.prior, *kept)

    @property
    def _trains(self) -> bool:
        """Whether the network is trained in this round."""
        return (self.rounds + 1) % self.train_every == 0

    def _before(self, arm: int) -> Any:  # noqa: ARG002
        kept = self.memory.stored, self._evicted_squares.copy()
        # Without training one arm's belief changes besides, as the last thing and in one go. In the first round the
        # network may also settle on a type of contexts.
        if not self._trains and self.rounds:
            return kept, None, None, None
        recompute = None if self._recompute is None else self._recompute.state()
        return kept, self._note_training(), self.prior.note(), recompute

    def _undo(self, before: Any) -> None:
        (stored, self._evicted_squares), trained, prior, recompute = before
        self._undo_storing(stored)
        if trained is not None:
            self._undo_training(trained)
            self.prior.undo(prior)
        if self._recompute is not None and recompute is not None:
            self._recompute.restore(recompute)

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        evicted = self.memory.stage(context, arm, reward)
        if evicted is not None and self.prior.takes_evicted:
            self.prior.evict(evicted.arm, self._features_like(evicted.context))
        trains = self._trains
        features = self._train() if trains else self._features(context[None])
        self.memory.commit()
        if evicted is not None:
            self._evicted_squares[evicted.arm] += evicted.reward**2
        if trains:
            self._refit(features, arm)
        else:
            self.posterior.observe(arm, features[0], reward)

    def _train(self) -> Array:
        """Train the network, carry the prior along, and return the new features of everything in memory."""
        features = None
        for step in range(self.steps if self.rounds else 0):  # the first round has nothing to learn from yet
            batch = self.memory.sample(self.batch, self._learn_rng)
            old = self._with_intercept(self.representation.train_step(batch.contexts, batch.arms, batch.rewards))
            if self.prior.follows_features:
                if step == self.steps - 1:  # the batch is part of the memory, whose features are needed anyway
                    features = self._memory_features(batch.slots)
                    new = features.take(batch.slots, axis=0)
                else:
                    new = self._features(batch.contexts)
                self.prior.match(batch, old, new, self.rounds)
        return self._memory_features() if features is None else features

    def _memory_features(self, needed: NDArray[np.intp] | None = None) -> Array:
        """Return the features of everything in memory; the slots ``needed`` must be up to date."""
        if self._recompute is None:
            return self._features(self.memory.contexts)
        return self._recompute(self.memory, self._features, needed)

    def _refit(self, features: Array, played: int) -> None:
        """Restart the linear regression of every arm from its prior and the memory."""
        only_played = self.refresh == "played" and self.train_every == 1
        traces = []
        for arm in range(self.n_arms):
            rows = self.memory.rows(arm)
            z = features[rows]
            cov = self.posterior.cov[arm]
            condition(self.prior.cov(arm, cov), z, out=cov)
            flat = z.reshape(-1)  # while it is in the cache
            traces.append(flat.dot(flat))
            if arm == played or not only_played:
                prior_mean = self._last_layer(arm) if self.mean_prior else np.zeros(z.shape[1])
                squares = self.posterior.refit_mean(arm, prior_mean, z, self.memory.rewards[rows])
                if self.noise == "history":  # rewards that have left still count, as noise
                    plays = float(self.pulls[arm]) + (arm == played)
                    self.posterior.set_noise(arm, plays, squares + self._evicted_squares[arm])
                else:
                    self.posterior.set_noise(arm, len(z), squares)
        self.prior.conditioned(np.array(traces))
