"""Common part of NeuralUCB and NeuralTS: everything except the choice of an arm from the scores.

One network predicts the reward of (context, arm). Its output is an arm's mean. Its gradient g with respect to all
parameters is taken as features, so that the mean is known up to a deviation of sqrt(lambda nu g' U^-1 g), where U is
lambda I plus the sum of g g' over all plays, each g taken when its arm was played. After every reward the network is
trained on the whole history.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms.base import Algorithm, Diagnostics
from lim2.checks import number, one_of, positive_int
from lim2.exploration import StudentT
from lim2.exploration.gradient_precision import Diagonal, Full
from lim2.memory import Memory, store_latest
from lim2.moments import Moments, no_moments, observe, scaled, scaling
from lim2.representation import blocks
from lim2.representation.blocks import Descent, Network, Trained, forward, train_by_batches, train_by_samples
from lim2.state import Array, Writes

# The two official forms of training: single samples, at most 1,000 steps; the whole history, 100 steps.
STEPS = {"sample": 1000, "batch": 100}
MOST_STEPS = 100  # times as many

# U^-1 starts at I / lambda, which must stay finite when it is multiplied with gradients.
SMALLEST_REGULARIZATION = 1e-60

# Contexts are scored in chunks that need about this many numbers at once.
CHUNK = 2**22

PRECISIONS: Mapping[str, type[Diagonal] | type[Full]] = {"diagonal": Diagonal, "full": Full}


class State(NamedTuple):
    """State of the algorithm."""

    network: Network  # theta
    precision: Any  # U, as Diagonal or Full
    memory: Memory  # the history
    moments: Moments | None  # of the contexts, with `standardize`


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientBandit(Algorithm):
    """Settings and functions of a bandit over the gradients of one network; an algorithm adds its policy."""

    hidden: int | Sequence[int] = 100
    regularization: float = 0.001
    nu: float = 1.0
    learning_rate: float = 0.01
    iterations: int | None = None
    stop_loss: float = 0.001
    training: str = "sample"
    covariance: str = "diagonal"
    normalize: bool = True
    history: int | None = None
    initial_pulls: int | None = 0
    standardize: bool = False

    state_type: ClassVar[type[Any]] = State
    why_no_batches: ClassVar[str] = "its network is trained anew for every reward"

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        number("nu", self.nu, least=0.0)
        one_of("covariance", self.covariance, tuple(PRECISIONS))
        _ = self.layout, self.descent, self.capacity

    @functools.cached_property
    def layout(self) -> tuple[int, int]:
        """The number of features and the width of the hidden layer."""
        hidden = self.hidden
        if isinstance(hidden, Sequence):
            if len(hidden) != 1:
                raise ValueError(f"hidden must be the width of one hidden layer, got {len(hidden)} layers: {hidden!r}")
            hidden = hidden[0]
        return self.shape[0], positive_int("hidden", hidden)

    @functools.cached_property
    def descent(self) -> Descent:
        """Training settings for a history of one tuple."""
        rate = number("learning_rate", self.learning_rate, above=0.0)
        decay = number("regularization", self.regularization, above=0.0)
        if decay < SMALLEST_REGULARIZATION:
            raise ValueError(f"regularization must be at least {SMALLEST_REGULARIZATION:g}, got {decay!r}")
        if rate * decay > 0.5:
            raise ValueError(
                f"learning_rate x regularization must be at most 0.5, got {self.learning_rate!r} x "
                f"{self.regularization!r}: a step would decay the weights by more than half. Lower one of them."
            )
        training = one_of("training", self.training, tuple(STEPS))
        steps = STEPS[training] if self.iterations is None else self.iterations
        steps = positive_int("iterations", steps, most=MOST_STEPS * STEPS[training])
        return Descent(steps, rate, decay, number("stop_loss", self.stop_loss, least=0.0))

    @functools.cached_property
    def capacity(self) -> int | None:
        """Number of tuples in memory; None: all."""
        return None if self.history is None else positive_int("history", self.history)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the initial state: U = lambda I, the history is empty."""
        precision = PRECISIONS[self.covariance].prior(n_arms, *self.layout, self.descent.decay)
        moments = no_moments(self.shape) if self.standardize else None
        E = memory.empty(self.capacity, n_arms, self.shape)
        return State(blocks.init(n_arms, *self.layout, rng), precision, E, moments)

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return scores with the outputs as means and sqrt(lambda nu g' U^-1 g) as deviations."""
        f, n_arms = state.network, len(state.network.weights)
        rows = self.inputs(state.moments, np.atleast_2d(contexts))
        means, spreads = np.empty((2, len(rows), n_arms))
        step = max(CHUNK // f.size, 1)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            outputs, g = forward(f, rows[part])
            means[part] = outputs.T
            spreads[part] = state.precision.spreads(rows[part], g.gates, g.hidden).T
        scales = np.sqrt(spreads * (self.descent.decay * float(self.nu)))
        freedom = np.full(n_arms, np.inf)
        return StudentT(means[0], scales[0], freedom) if contexts.ndim == 1 else StudentT(means, scales, freedom)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[Writes, Diagnostics]:
        """Add one reward to the history and its gradient to U, and train the network."""
        x = self.inputs(state.moments, context[None])
        _, g = forward(state.network, x, arm)  # the gradient before this reward is trained on
        U, rows = state.precision.observe(x[0], arm, g.gates[0, 0], g.hidden[0, 0])  # U + g g'
        E = store_latest(state.memory, context, arm, reward)
        f, trained = self.train(state.network, E, state.moments, rng)
        moments = None if state.moments is None else observe(state.moments, context)
        report = {"loss": trained.loss, "stored": E.held}
        return Writes(State(f, U, E, moments), rows), lambda: report | {"evicted": E.evicted}

    def inputs(self, moments: Moments | None, contexts: NDArray[Any]) -> Array:
        """Return the inputs of the network for contexts (n, n_features); a context of zeros stays zero."""
        if moments is not None:
            contexts = scaled(scaling(moments), contexts)
        if not self.normalize:
            return contexts
        norms = np.sqrt(np.vecdot(contexts, contexts))
        return contexts / np.where(norms > 0.0, norms, 1.0)[:, None]

    def train(
        self, f: Network, E: Memory, moments: Moments | None, rng: np.random.Generator
    ) -> tuple[Network, Trained]:
        """Train the network, from where it is, on the history."""
        descent = self.descent._replace(decay=self.descent.decay / E.held)
        if self.training == "sample":  # a pass in random order, as far as the steps can get
            rows = E.rows()[rng.choice(E.held, size=min(E.held, descent.steps), replace=False)]
            return train_by_samples(f, self.inputs(moments, E.contexts[rows]), E.arms[rows], E.rewards[rows], descent)
        rows, bounds = E.by_arm()
        return train_by_batches(f, self.inputs(moments, E.contexts[rows]), E.rewards[rows], bounds, descent)

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm; no tuples are copied, because the network keeps its parameters."""
        precision = state.precision.add_arm(like, *self.layout, self.descent.decay)
        E = memory.add_arm(state.memory, self.capacity)
        return State(blocks.add_arm(state.network, like, rng), precision, E, state.moments)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        precision = state.precision.remove_arm(arm, *self.layout)
        E = memory.remove_arm(state.memory, arm, self.capacity)
        return State(blocks.remove_arm(state.network, arm), precision, E, state.moments)

    def kinds(self) -> Mapping[str, Any]:
        """Return the type of U."""
        return {"precision": PRECISIONS[self.covariance], "moments": Moments if self.standardize else None}

    def sizes(self, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the axes of the network and of U."""
        n_features, hidden = self.layout
        shared = 2 * hidden + 1
        parameters = shared + n_arms * n_features * hidden
        lengths = {"feature": n_features, "unit": hidden, "output": 1, "shared": shared, "parameter": parameters}
        return {**super().sizes(n_arms), **lengths}

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""
        E = state.memory
        memory.check(E)
        if E.capacity != self.capacity or E.heads is not None or (np.diff(E.stamps) <= 0).any():
            raise ValueError(f"the memory does not hold the latest {self.capacity or ''} tuples in order of age")
        if E.contexts.dtype != np.float64:
            raise ValueError(f"the memory holds contexts of {E.contexts.dtype}, expected float64")
        if not state.network.square < blocks.LARGEST_SQUARE:
            raise ValueError("the network's parameters are too large: training never leads to them")
