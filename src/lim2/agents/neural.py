"""The round that the neural-linear agents share: the paper's Algorithm 2, with the prior left open.

LiM2, NeuralLinear-MM, NeuralLinear-Naive and the full-memory NeuralLinear are this class with different parts: the
memory (a bounded buffer, or everything), the prior of the mean (the last layer, or 0), the prior of the covariance
(``priors.py``), and how often the network is trained.
"""

import copy
import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lim2._arrays import with_row, without_row
from lim2._state import note, undo
from lim2.agents.base import Array, Sized
from lim2.agents.believer import Believer, with_intercept
from lim2.agents.checks import one_of, positive_int, share
from lim2.agents.info import Movement, drift, residual
from lim2.agents.priors import Carried, Fixed
from lim2.agents.recompute import Recompute
from lim2.exploration import Exploration, Posterior, Summed
from lim2.exploration.posterior import condition
from lim2.memory import Buffer, Evicted, History
from lim2.representation import MLP, ChangesArms, ContextReader, Representation, RMSProp, Watched
from lim2.standardize import Standardizer

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


def check_takes_floats(representation: Representation, shape: tuple[int, ...]) -> None:
    """Refuse to standardise what a representation must have as it is: token ids."""
    refusal: Exception | str | None = None
    if getattr(representation, "n_tokens", None) is not None:
        refusal = "it takes token ids"
    else:
        try:
            representation.features(np.zeros((1, *shape)))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            refusal = error
    if refusal is not None:
        raise ValueError(
            f"standardize=True scales columns of numbers, which this representation does not take: {refusal}. "
            "Leave standardize out."
        )


class NeuralBeliever(Believer):
    """An agent with linear beliefs over the features of a network, and a memory to train the network from."""

    _kept: ClassVar[tuple[str, ...]] = (
        *Believer._kept,
        "representation",
        "memory",
        "batch",
        "_borrowed",
        "standardizer",
    )
    _served: ClassVar[tuple[str, ...]] = (*Believer._served, "representation", "standardizer")

    def __init__(
        self,
        n_arms: int | None,
        n_features: Size,
        *,
        arms: Iterable[Hashable] | None,
        hidden: int | Sequence[int],
        batch: int | None,
        steps: int,
        initial_pulls: int,
        min_propensity: float,
        prior_precision: float,
        a0: float,
        b0: float,
        learning_rate: float,
        refresh: str,
        intercept: bool,
        exploration: str | Exploration,
        representation: Representation | None,
        seed: int | None,
        standardize: bool,
        forget: float,
        settings: dict[str, Any],
        summed: bool = False,
    ) -> None:
        if isinstance(representation, type) or not (representation is None or hasattr(representation, "train_step")):
            raise ValueError(f"representation must be an object such as MLP(hidden=(100, 50)), got {representation!r}")
        network: Representation = MLP(hidden, RMSProp(learning_rate)) if representation is None else representation
        shape = context_shape(n_features, network)
        super().__init__(
            n_arms,
            math.prod(shape),
            arms=arms,
            exploration=exploration,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            seed=seed,
            settings=settings,
        )
        self.batch = positive_int("batch", BATCH_PER_ARM * self.n_arms if batch is None else batch)
        self._batch_follows_arms, self._buffer_follows_arms = batch is None, False
        self.steps = positive_int("steps", steps)
        self.refresh = one_of("refresh", refresh, ("played", "all"))
        self.intercept = bool(intercept)
        if representation is not None:
            for unused in ("hidden", "learning_rate"):
                self._shown.pop(unused, None)
        self.context_shape = shape
        self._given = representation is not None
        self.representation = network if representation is None else copy.deepcopy(representation)
        # Raw columns are read and kept as float64, whatever the representation would have them in.
        reader = self.representation if isinstance(self.representation, ContextReader) else None
        self._reader = None if standardize else reader
        self.representation.bind(shape[0] if len(shape) == 1 else shape, self.n_arms, self._init_rng)
        self.forget = share("forget", forget)
        self.standardizer = Standardizer(shape, self.forget) if standardize else None
        if standardize:
            check_takes_floats(self.representation, shape)
        width = self.representation.width + self.intercept
        kind = Summed if summed and self.forget else Posterior
        self.posterior: Posterior = kind(self.n_arms, width, prior_precision, a0, b0)
        self.memory: Buffer | History
        self._borrowed = np.zeros(self.n_arms)  # plays of another arm, for an arm that was added like it

    @classmethod
    def _least_numbers(cls, n_arms: int, settings: Mapping[str, Any]) -> int:
        given = settings["representation"]
        network = MLP(settings["hidden"]) if given is None else given
        shape = context_shape(settings["n_features"], network)
        sizes = (*shape, *network.hidden) if isinstance(network, MLP) else ()
        return sum(n * m for n, m in itertools.pairwise(sizes)) + n_arms * int(network.width) ** 2

    def _components(self) -> Iterable[Sized]:
        scaling = () if self.standardizer is None else (self.standardizer,)
        return (self.representation, self.posterior, self.memory, *scaling)

    def _diagnosis(self) -> dict[str, Any]:
        told: dict[str, Any] = {"stored": len(self.memory), "evicted": self.memory.evicted}
        network = self.representation
        if isinstance(network, Watched) and not math.isnan(network.gradient_norm):
            told.update(loss=network.loss, gradient_norm=network.gradient_norm)
        return told | ({"skipped": network.skipped} if isinstance(network, Watched) else {})

    def _objects(self) -> dict[str, Any]:
        return {**super()._objects(), "representation": self.representation if self._given else None}

    def _frozen(self) -> Self:
        twin = super()._frozen()
        twin._reader = None if self._reader is None else twin._deciding_network  # type: ignore[assignment]
        return twin

    @property
    def _deciding_network(self) -> Representation:
        """The network by whose features is decided, which a snapshot has."""
        return self.representation

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
        return self._with_intercept(self.representation.features(self._inputs(contexts)))

    def _inputs(self, contexts: NDArray[Any]) -> NDArray[Any]:
        """Return what the network sees of raw contexts."""
        return contexts if self.standardizer is None else self.standardizer(contexts)

    def _rescale(self, context: NDArray[Any]) -> None:
        """Take a context into the scaling."""
        if self.standardizer is not None:
            self.standardizer.observe(context)

    def _rescaled(self, context: NDArray[Any]) -> Array:
        """Take a context into the scaling, and return its features as a row."""
        self._rescale(context)
        return self._features(context[None])

    def _with_intercept(self, features: Array) -> Array:
        """Return a network's features as the beliefs take them."""
        return with_intercept(features) if self.intercept else np.asarray(features, dtype=np.float64)

    def _last_layer(self, arm: int) -> Array:
        """Return the network's own weights of an arm: the paper's prior of the mean, mu0."""
        weights, bias = self.representation.head
        return np.append(weights[arm], bias[arm]) if self.intercept else weights[arm]

    def _make_buffer(self, capacity: int | None, fair: bool = False) -> Buffer:
        self._buffer_follows_arms = capacity is None
        size = BUFFER_PER_ARM * self.n_arms if capacity is None else positive_int("buffer", capacity)
        return Buffer(size, self.n_arms, self.context_shape, self._context_dtype, fair)

    def _plays(self, arm: int) -> float:
        """Return how many rewards the noise of an arm is estimated from, those that have left memory included."""
        return float(self.pulls[arm] + self._borrowed[arm])

    def _add_arm(self, like: int | None) -> None:
        self._changing_network().add_arm(self._init_rng, like)
        super()._add_arm(like)
        self._borrowed = with_row(self._borrowed, 0.0 if like is None else self._plays(like))
        if isinstance(self.memory, Buffer):
            self.memory.add_arm(BUFFER_PER_ARM * (self.n_arms + 1) if self._buffer_follows_arms else None)
        else:
            self.memory.add_arm()
        if self._batch_follows_arms:
            self.batch = BATCH_PER_ARM * (self.n_arms + 1)

    def _remove_arm(self, arm: int) -> None:
        self._changing_network().remove_arm(arm)
        super()._remove_arm(arm)
        self._borrowed = without_row(self._borrowed, arm)
        if isinstance(self.memory, Buffer):
            self.memory.remove_arm(arm, BUFFER_PER_ARM * (self.n_arms - 1) if self._buffer_follows_arms else None)
        else:
            self.memory.remove_arm(arm)
        if self._batch_follows_arms:
            self.batch = BATCH_PER_ARM * (self.n_arms - 1)

    def _changing_network(self) -> ChangesArms:
        if not isinstance(self.representation, ChangesArms):
            raise NotImplementedError(
                f"the arms of this agent cannot change: {self.representation!r} has no methods `add_arm` and "
                "`remove_arm`, see lim2.representation.ChangesArms"
            )
        return self.representation

    def _copy_tuples(self, like: int) -> None:
        """Give the newest arm the tuples of another, the newest first; what there is no room for counts as evicted."""
        memory, new = self.memory, self.memory.n_arms - 1
        slots = np.flatnonzero(memory.arms == like)
        slots = slots[memory.stamps[slots].argsort()]
        room = len(slots) if memory.capacity is None else min(memory.capacity - len(memory), len(slots))
        left, copied = slots[: len(slots) - room], slots[len(slots) - room :]
        for slot in left:
            self._leave(slot, new)
        for slot in copied:
            memory.copy(slot, new)

    def _leave(self, slot: int, arm: int) -> None:
        """Account for a stored tuple as if an arm had had it, and it had left."""

    @property
    def _context_dtype(self) -> DTypeLike | None:
        """Contexts are stored as float64, or as the representation reads them."""
        return np.float64 if self._reader is None else None


class NeuralLinearFamily(NeuralBeliever):
    """Algorithm 2 with its parts left open."""

    _passing: ClassVar[frozenset[str]] = NeuralBeliever._passing | {"_movement"}
    _kept: ClassVar[tuple[str, ...]] = (*NeuralBeliever._kept, "prior", "_recompute", "_evicted_squares", "_counted")

    def __init__(
        self,
        n_arms: int | None,
        n_features: Size,
        *,
        noise: str = "history",
        mean_prior: bool,
        train_every: int = 1,
        recompute_every: int = 1,
        recompute_share: float = 1.0,
        **common: Any,
    ) -> None:
        super().__init__(n_arms, n_features, summed=train_every != 1, **common)
        self.noise = one_of("noise", noise, ("history", "buffer"))
        self.mean_prior = bool(mean_prior)
        self.train_every = positive_int("train_every", train_every)
        recompute = Recompute(recompute_every, recompute_share)
        self._recompute = None if recompute.every == recompute.share == 1 else recompute
        self.prior: Fixed | Carried
        self._evicted_squares = np.zeros(self.n_arms)  # sum of r^2 over what has left the memory
        self._movement: Movement | None = None  # of the latest update
        self._counted = np.zeros(self.n_arms)  # with forget: what the updates of each arm still count

    def _components(self) -> Iterable[Sized]:
        kept = () if self._recompute is None else (self._recompute,)
        return (*super()._components(), self.prior, *kept)

    def _add_arm(self, like: int | None) -> None:
        super()._add_arm(like)
        self._evicted_squares = with_row(self._evicted_squares, 0.0 if like is None else self._evicted_squares[like])
        self._counted = with_row(self._counted, 0.0 if like is None else self._counted[like])
        self.prior.add_arm(like)
        if like is not None:
            self._copy_tuples(like)

    def _remove_arm(self, arm: int) -> None:
        super()._remove_arm(arm)
        self._evicted_squares = without_row(self._evicted_squares, arm)
        self._counted = without_row(self._counted, arm)
        self.prior.remove_arm(arm)

    def _leave(self, slot: int, arm: int) -> None:
        memory = self.memory
        faded = (1.0 - self.forget) ** memory.age(int(memory.stamps[slot])) if self.forget else 1.0
        if self.prior.takes_evicted:
            self.prior.evict(arm, self._features_like(memory.contexts[slot]) * math.sqrt(faded))
        self._evicted_squares[arm] += faded * float(memory.rewards[slot]) ** 2

    def _diagnosis(self) -> dict[str, Any]:
        told = super()._diagnosis()
        if self.prior.matching is not None:
            told["projections"] = self.prior.matching.projections
        if self._movement is not None:
            told["drift"] = drift(self._movement)
            if self.prior.matching is not None and self.prior.latest is not None:
                told["residual"] = residual(self._movement, self.prior.latest, self.prior.matching)
        return told

    @property
    def _trains(self) -> bool:
        """Whether the network is trained in this round."""
        return (self.rounds + 1) % self.train_every == 0

    def _before(self, arm: int) -> Any:  # noqa: ARG002
        # The standardizer's arrays are replaced, never changed: a shallow copy keeps them.
        kept = self.memory.stored, self._evicted_squares.copy(), self._counted.copy(), copy.copy(self.standardizer)
        # Without training one arm's belief changes besides, as the last thing and in one go. In the first round the
        # network may also settle on a type of contexts; and forgetting changes all beliefs.
        if not self._trains and self.rounds and not self.forget:
            return kept, None, None, None
        recompute = None if self._recompute is None else self._recompute.state()
        return kept, self._note_training(), self.prior.note(), recompute

    def _undo(self, before: Any) -> None:
        (stored, self._evicted_squares, self._counted, self.standardizer), trained, prior, recompute = before
        self._undo_storing(stored)
        if trained is not None:
            self._undo_training(trained)
            self.prior.undo(prior)
        if self._recompute is not None and recompute is not None:
            self._recompute.restore(recompute)

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        evicted = self.memory.stage(context, arm, reward)
        if evicted is not None and self.prior.takes_evicted:
            self.prior.evict(evicted.arm, self._leaving_features(evicted))
        trains = self._trains
        features = self._train(context) if trains else self._rescaled(context)
        self.memory.commit()
        if not trains:
            self._movement = None
        if self.forget:
            self._fade(arm)
        if evicted is not None:
            faded = (1.0 - self.forget) ** self.memory.age(evicted.stamp) if self.forget else 1.0
            self._evicted_squares[evicted.arm] += faded * evicted.reward**2
        if trains:
            self._refit(features, arm)
        elif isinstance(self.posterior, Summed):
            self.posterior.add(arm, features[0], reward)
            self.posterior.solve()
        else:
            self.posterior.observe(arm, features[0], reward)

    def _leaving_features(self, evicted: Evicted) -> Array:
        """Return the features of a tuple that leaves, with the weight that it had after the last round."""
        features = self._features_like(evicted.context)
        if not self.forget:
            return features
        rounds = self.memory.age(evicted.stamp) - 1
        return features * math.sqrt((1.0 - self.forget) ** rounds)

    def _fade(self, played: int) -> None:
        """Let everything that was known before this round count less."""
        keep = 1.0 - self.forget
        self.prior.fade(keep)
        self.posterior.fade_noise(keep)
        if isinstance(self.posterior, Summed):
            self.posterior.fade(keep)
        self._evicted_squares *= keep
        self._counted *= keep
        self._counted[played] += 1.0

    def _train(self, context: Array) -> Array:
        """Train the network, carry the prior along, and return the new features of everything in memory."""
        features = movement = None
        weights = self.memory.fading(1.0 - self.forget) if self.forget else None
        steps = self.steps if self.rounds else 0  # the first round has nothing to learn from yet
        for step in range(1, steps + 1):
            batch = self.memory.sample(self.batch, self._learn_rng, weights)
            inputs = self._inputs(batch.contexts)
            old = self._with_intercept(self.representation.train_step(inputs, batch.arms, batch.rewards))
            if step == steps:  # matching sees what the new scaling changes as it sees what training does
                self._rescale(context)
            if self.prior.follows_features:
                if step == steps:  # the batch is part of the memory, whose features are needed anyway
                    features = self._memory_features(batch.slots)
                    new = features.take(batch.slots, axis=0)
                else:
                    new = self._features(batch.contexts)
                self.prior.match(batch, old, new, self.rounds)
                movement = Movement(old, new, None)
        if not steps:
            self._rescale(context)
        if features is None:
            features = self._memory_features()
            if steps:
                movement = Movement(old, *self._settled(features, batch.slots))
        self._movement = movement
        return features

    def _settled(self, features: Array, slots: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp] | None]:
        """Return features that nobody will change, and which rows of them are the batch's."""
        return (features, slots) if self._recompute is None else (features.take(slots, axis=0), None)

    def _memory_features(self, needed: NDArray[np.intp] | None = None) -> Array:
        """Return the features of everything in memory; the slots ``needed`` must be up to date."""
        if self._recompute is None:
            return self._features(self.memory.contexts)
        return self._recompute(self.memory, self._features, needed)

    def _refit(self, features: Array, played: int) -> None:
        """Restart the linear regression of every arm from its prior and the memory."""
        only_played = self.refresh == "played" and self.train_every == 1
        weights = self.memory.fading(1.0 - self.forget) if self.forget else None
        traces = []
        for arm in range(self.n_arms):
            rows = self.memory.rows(arm)
            z, rewards = features[rows], self.memory.rewards[rows]
            held = float(len(z))
            if weights is not None:  # a weighted regression is a plain one on rows times the roots of their weights
                roots = np.sqrt(weights[rows])
                z, rewards, held = z * roots[:, None], rewards * roots, float(weights[rows].sum())
            cov = self.posterior.cov[arm]
            condition(self.prior.cov(arm, cov), z, out=cov)
            flat = z.reshape(-1)  # while it is in the cache
            traces.append(flat.dot(flat))
            if arm == played or not only_played:
                prior_mean = self._last_layer(arm) if self.mean_prior else np.zeros(z.shape[1])
                squares, left = self.posterior.refit_mean(arm, prior_mean, z, rewards), 0.0
                if self.noise == "history":  # rewards that have left still count, as noise
                    held = self._counted[arm] if self.forget else self._plays(arm) + (arm == played)
                    left = self._evicted_squares[arm]
                self.posterior.set_noise(arm, held, squares + left)
                if isinstance(self.posterior, Summed):
                    self.posterior.reset(arm, z, rewards, held, left)
        self.prior.conditioned(np.array(traces))
