"""What NeuralUCB and NeuralTS share: everything but how a score is drawn from its mean and deviation.

One network predicts the reward of (context, arm). Its output is an arm's mean; its gradient g with respect to all
parameters is taken as features, so that the mean is known up to a deviation of sqrt(lambda nu g' U^-1 g), where U is
lambda I plus the sum of g g' over all plays, each g taken when its arm was played. After every reward the network is
trained on the whole history.
"""

import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2._blas import one_thread
from lim2._state import put_back, state_of
from lim2.agents.base import Agent, Array, Sized
from lim2.agents.checks import one_of, positive_int
from lim2.agents.window import Window
from lim2.exploration.gradient_precision import Diagonal, Full
from lim2.representation.blocks import BlockNetwork, Descent, Trained
from lim2.standardize import Standardizer

# The two official forms of training: single samples, at most 1,000 steps; the whole history, 100 steps.
STEPS = {"sample": 1000, "batch": 100}

# Contexts are scored in chunks that need about this many numbers at once.
CHUNK = 2**22


class GradientBandit(Agent):
    """A bandit over the gradients of one network; how a score is drawn is left to the algorithms."""

    _kept: ClassVar[tuple[str, ...]] = (
        *Agent._kept,
        "network",
        "precision",
        "memory",
        "_steps",
        "_loss",
        "standardizer",
    )
    _served: ClassVar[tuple[str, ...]] = (*Agent._served, "network", "precision", "standardizer")

    def __init__(
        self,
        n_arms: int | None,
        n_features: int | None,
        *,
        arms: Iterable[Hashable] | None,
        hidden: int | Sequence[int],
        regularization: float,
        nu: float,
        learning_rate: float,
        iterations: int | None,
        stop_loss: float,
        training: str,
        covariance: str,
        normalize: bool,
        history: int | None,
        initial_pulls: int,
        min_propensity: float,
        seed: int | None,
        standardize: bool,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            arms=arms,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            seed=seed,
            settings=settings,
        )
        self.hidden = _width(hidden)
        self.regularization = _number("regularization", regularization, above=0.0)
        self.nu = _number("nu", nu, least=0.0)
        self.learning_rate = _number("learning_rate", learning_rate, above=0.0)
        if self.learning_rate * self.regularization > 0.5:
            raise ValueError(
                f"learning_rate x regularization must be at most 0.5, got {learning_rate!r} x {regularization!r}: "
                "a step would decay the weights by more than half. Lower one of them."
            )
        self.stop_loss = _number("stop_loss", stop_loss, least=0.0)
        self.training = one_of("training", training, ("sample", "batch"))
        self.iterations = positive_int("iterations", STEPS[self.training] if iterations is None else iterations)
        self.covariance = one_of("covariance", covariance, ("diagonal", "full"))
        self.normalize = bool(normalize)
        bound = None if history is None else positive_int("history", history)

        kind = Diagonal if self.covariance == "diagonal" else Full
        self.precision: Diagonal | Full = kind(self.n_arms, self.n_features, self.hidden, self.regularization)
        self.network = BlockNetwork(self.n_arms, self.n_features, self.hidden, self._init_rng)
        self.memory = Window(self.n_features, bound)
        self.standardizer = Standardizer(self.context_shape) if standardize else None
        self._steps, self._loss = 0, float("nan")

    @classmethod
    def _least_numbers(cls, n_arms: int, settings: Mapping[str, Any]) -> int:
        weights = n_arms * positive_int("n_features", settings["n_features"]) * _width(settings["hidden"])
        return weights**2 if settings["covariance"] == "full" else weights

    def _components(self) -> Iterable[Sized]:
        scaling = () if self.standardizer is None else (self.standardizer,)
        return (self.network, self.precision, self.memory, *scaling)

    def _diagnosis(self) -> dict[str, Any]:
        return {"loss": self.trained.loss, "stored": len(self.memory), "evicted": self.memory.evicted}

    @property
    def trained(self) -> Trained:
        """What the latest training did."""
        return Trained(self._steps, self._loss)

    # Deciding

    @abstractmethod
    def _draw(self, seen: tuple[Array, Array]) -> Array:
        """Return scores, from means and deviations, in their shape."""

    def _look(self, contexts: Array) -> tuple[Array, Array]:
        means, variances = self._moments(contexts)
        return means, np.sqrt(variances, out=variances)

    def _beliefs(self, seen: tuple[Array, Array]) -> tuple[Array, Array]:
        return seen

    def means(self, contexts: ArrayLike) -> Array:
        """Return the expected reward of every arm: (n_arms,) for one context, (n, n_arms) for rows of contexts."""
        return self._checked_moments(contexts)[0]

    def variances(self, contexts: ArrayLike) -> Array:
        """Return the variance of every arm's score, lambda nu g' U^-1 g, in the shape of :meth:`means`."""
        return self._checked_moments(contexts)[1]

    def _checked_moments(self, contexts: ArrayLike) -> tuple[Array, Array]:
        xs = self._checked_context(contexts) if np.ndim(contexts) == 1 else self._checked_contexts(contexts)
        with one_thread:
            return self._moments(xs)

    def _moments(self, contexts: Array) -> tuple[Array, Array]:
        rows = self._inputs(np.atleast_2d(contexts))
        means, variances = np.empty((2, len(rows), self.n_arms))
        step = max(CHUNK // self.network.size, 1)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            outputs, factors = self.network.forward(rows[part])
            means[part] = outputs.T
            variances[part] = self.precision.spreads(rows[part], factors.gates, factors.hidden).T
        variances *= self.regularization * self.nu
        return (means[0], variances[0]) if contexts.ndim == 1 else (means, variances)

    def _inputs(self, contexts: Array) -> Array:
        """Return what the network sees of (n, n_features) contexts; a context of zeros stays one."""
        if self.standardizer is not None:
            contexts = self.standardizer(contexts)
        if not self.normalize:
            return contexts
        norms = np.sqrt(np.vecdot(contexts, contexts))
        return contexts / np.where(norms > 0.0, norms, 1.0)[:, None]

    # Learning

    def _before(self, arm: int) -> Any:  # noqa: ARG002
        names = ("network", "_steps", "_loss")
        # The standardizer's arrays are replaced, never changed: a shallow copy keeps them.
        scaling = copy.copy(self.standardizer)
        return self.memory.stored, self._learn_rng.bit_generator.state, names, state_of(self, names), scaling

    def _undo(self, before: Any) -> None:
        stored, self._learn_rng.bit_generator.state, names, state, self.standardizer = before
        if self.memory.stored > stored:
            self.memory.abandon()
        put_back(self, names, state)

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        inputs = self._inputs(context[None])
        _, factors = self.network.forward(inputs, arm)  # the gradient before this reward is trained on
        # What the network sees of a raw context changes with the scaling: then the context itself is kept.
        slots = self.memory.stage(inputs[0] if self.standardizer is None else context, arm, reward)
        self._steps, self._loss = self._train(slots)
        self.memory.commit()
        if self.standardizer is not None:
            self.standardizer.observe(context)
        # Last, because it is not undone: it computes first and then changes everything in one go.
        self.precision.observe(inputs[0], arm, factors.gates[0, 0], factors.hidden[0, 0])

    def _add_arm(self, like: int | None) -> None:
        # A copy brings no tuples: the network goes on from where it is, nothing starts again from the history.
        self.precision.add_arm(like)
        self.network.add_arm(self._init_rng, like)

    def _remove_arm(self, arm: int) -> None:
        self.precision.remove_arm(arm)
        self.network.remove_arm(arm)
        self.memory.remove_arm(arm)

    def _train(self, slots: NDArray[np.intp]) -> Trained:
        """Train the network, from where it is, on the tuples in these slots."""
        memory = self.memory
        how = Descent(self.iterations, self.learning_rate, self.regularization / len(slots), self.stop_loss)
        if self.training == "sample":
            order = slots[self._shuffled(len(slots))]
            if self.standardizer is None:
                return self.network.train_by_samples(memory.contexts, memory.arms, memory.rewards, order, how)
            seen, places = self._inputs(memory.contexts[order]), np.arange(len(order))
            return self.network.train_by_samples(seen, memory.arms[order], memory.rewards[order], places, how)
        slots = slots[memory.arms[slots].argsort(kind="stable")]
        bounds: list[int] = memory.arms[slots].searchsorted(np.arange(self.n_arms + 1)).tolist()
        seen = memory.contexts[slots] if self.standardizer is None else self._inputs(memory.contexts[slots])
        return self.network.train_by_batches(seen, memory.rewards[slots], bounds, how)

    def _shuffled(self, n: int) -> NDArray[np.intp]:
        """Return the order of a pass over n tuples, as far as ``iterations`` steps can get."""
        return self._learn_rng.choice(n, size=min(n, self.iterations), replace=False)


def _width(hidden: int | Sequence[int]) -> int:
    if isinstance(hidden, Sequence):
        if len(hidden) != 1:
            raise ValueError(f"hidden must be the width of one hidden layer, got {len(hidden)} layers: {hidden!r}")
        hidden = hidden[0]
    return positive_int("hidden", hidden)


def _number(name: str, value: float, *, above: float | None = None, least: float | None = None) -> float:
    """Return a setting as a finite float within its bound, or say what is wrong with it."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number, got {value!r}") from error
    if above is not None and not above < number < float("inf"):
        raise ValueError(f"{name} must be finite and above {above:g}, got {value!r}")
    if least is not None and not least <= number < float("inf"):
        raise ValueError(f"{name} must be finite and at least {least:g}, got {value!r}")
    return number
