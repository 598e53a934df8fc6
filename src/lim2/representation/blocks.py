"""The network of NeuralUCB and NeuralTS: one output, and an input in which every arm has a block of its own.

Arm k in context b is the input (0, ..., 0, b, 0, ..., 0) of n_arms x n_features numbers with b in block k. That vector
is never built: the first layer's weights are kept an arm a block, and an arm's output and gradient involve its own
block only.
"""

import itertools
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lim2._arrays import with_row, without_row
from lim2._state import check_names, fitting, frozen, shallow
from lim2.representation.protocol import Array, State

# Rows of one arm that a batch is worked through at a time.
PIECE = 256


class Descent(NamedTuple):
    """How to train: at most so many steps at this rate, until the mean squared error is at most ``stop_loss``.

    Every step adds ``decay`` times the parameters to the gradient.
    """

    steps: int
    rate: float
    decay: float
    stop_loss: float

    @property
    def keep(self) -> float:
        """What weight decay leaves of a parameter in a step."""
        return 1.0 - self.rate * self.decay


class Trained(NamedTuple):
    """What a training did: the number of steps, and the mean squared error of the last pass over the samples."""

    steps: int
    loss: float


class Factors(NamedTuple):
    """The parts that gradients are made of; the last axis is the hidden layer.

    The gradient of arm k's output in context b is ``outer(b, gates[k])`` for the weights of block k, 0 for all other
    blocks, ``gates[k]`` for the hidden biases, ``hidden[k]`` for the head, and 1 for the head's bias.
    """

    gates: Array
    hidden: Array


class BlockNetwork:
    """One hidden ReLU layer with biases and one linear output, on the block encoding of (context, arm).

    Everything starts uniform in +-1/sqrt(fan-in), where the fan-in of the first layer is the whole encoding,
    n_arms x n_features.

    Parameters
    ----------
    n_arms, n_features
        Number of blocks, and the size of each.
    hidden
        Width of the hidden layer.
    rng
        Draws the initial parameters.

    Examples
    --------
    >>> net = BlockNetwork(n_arms=3, n_features=2, hidden=4, rng=np.random.default_rng(0))
    >>> net.size  # 3 x 2 x 4 weights, 4 biases, 4 + 1 for the output
    33
    >>> outputs, factors = net.forward(np.array([[1.0, 0.0]]))
    >>> outputs.shape, factors.gates.shape
    ((3, 1), (3, 1, 4))
    """

    def __init__(self, n_arms: int, n_features: int, hidden: int, rng: np.random.Generator) -> None:
        self.n_arms, self.n_features, self.hidden = n_arms, n_features, hidden
        inner = n_arms * n_features * hidden
        self._parameters = np.empty(inner + 2 * hidden + 1)
        self._parameters[: inner + hidden] = rng.uniform(-1.0, 1.0, inner + hidden) / np.sqrt(n_arms * n_features)
        self._parameters[inner + hidden :] = rng.uniform(-1.0, 1.0, hidden + 1) / np.sqrt(hidden)
        self._link()

    def _link(self) -> None:
        """Point the layers into the flat vector, and into the spare one that training works on."""
        self._spare = np.empty_like(self._parameters)
        self.weights, self.bias, self.head, self.head_bias = self._views(self._parameters)

    def _views(self, flat: Array) -> tuple[Array, Array, Array, Array]:
        inner = self.n_arms * self.n_features * self.hidden
        weights = flat[:inner].reshape(self.n_arms, self.n_features, self.hidden)
        return weights, flat[inner : inner + self.hidden], flat[inner + self.hidden : -1], flat[-1:]

    def add_arm(self, rng: np.random.Generator, like: int | None = None) -> None:
        """Add a block, with new weights, as small as in a network that had it from the start, or another arm's."""
        bound = 1.0 / np.sqrt((self.n_arms + 1) * self.n_features)
        start = rng.uniform(-bound, bound, self.weights.shape[1:])
        self._replace(with_row(self.weights, start if like is None else self.weights[like]))

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's block; those after it move up."""
        self._replace(without_row(self.weights, arm))

    def _replace(self, weights: Array) -> None:
        shared = self._parameters[self.weights.size :]
        self._parameters, self.n_arms = np.concatenate((weights.ravel(), shared)), len(weights)
        self._link()

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self._parameters.size

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters and of the spare ones."""
        return self._parameters.nbytes + self._spare.nbytes

    def forward(self, contexts: Array, arm: int | None = None) -> tuple[Array, Factors]:
        """Return outputs (arms, n) of (n, n_features) contexts for all arms or one, and their gradients' factors."""
        hidden = np.matmul(contexts, self.weights if arm is None else self.weights[arm : arm + 1])
        hidden += self.bias
        np.maximum(hidden, 0.0, out=hidden)
        outputs: Array = hidden @ self.head
        outputs += self.head_bias
        return outputs, Factors((hidden > 0.0) * self.head, hidden)

    def train_by_samples(
        self, contexts: Array, arms: NDArray[np.intp], rewards: Array, order: NDArray[np.intp], how: Descent
    ) -> Trained:
        """Take one step a sample, in the given order, pass after pass; the error is that of a whole pass.

        Either all of it happens, or, where it diverges, nothing and a FloatingPointError.
        """
        # Here, because importing numba takes longer than importing the rest of the library.
        from lim2.representation.block_kernels import descend_by_samples

        self._spare[:] = self._parameters
        layers, settings = self._views(self._spare), (how.steps, how.rate, how.keep, how.stop_loss)
        trained = descend_by_samples(*layers, contexts, arms, rewards, order, *settings)
        return self._accept(Trained(*trained))

    def train_by_batches(self, contexts: Array, rewards: Array, bounds: list[int], how: Descent) -> Trained:
        """Take steps on the mean squared error of all samples, sorted by arm: arm k has rows bounds[k]:bounds[k + 1].

        Either all of it happens, or, where it diverges, nothing and a FloatingPointError.
        """
        self._spare[:] = self._parameters
        weights, bias, head, head_bias = self._views(self._spare)
        rows = len(rewards)
        # Pieces of one arm each, small enough that what is computed of them stays in the cache.
        pieces = [
            (arm, slice(start, min(start + PIECE, end)))
            for arm, (first, end) in enumerate(itertools.pairwise(bounds))
            for start in range(first, end, PIECE)
        ]
        gradient = np.empty_like(self._spare)
        to_weights, to_bias, to_head, to_head_bias = self._views(gradient)
        taken, loss = 0, np.inf
        with np.errstate(over="ignore", invalid="ignore"):  # what diverges is refused below
            while True:
                loss = 0.0
                gradient[:] = 0.0
                for arm, piece in pieces:
                    inputs = contexts[piece]
                    hidden = inputs @ weights[arm]
                    hidden += bias
                    np.maximum(hidden, 0.0, out=hidden)
                    slopes = hidden @ head
                    slopes += head_bias
                    slopes -= rewards[piece]
                    loss += float(slopes @ slopes) / rows
                    slopes *= 2.0 / rows
                    to_head += slopes @ hidden
                    to_head_bias += slopes.sum()
                    active = (hidden > 0.0).astype(np.float64)
                    to_bias += slopes @ active
                    to_weights[arm] += (inputs * slopes[:, None]).T @ active
                if loss <= how.stop_loss or taken == how.steps:
                    break
                to_bias *= head  # what passes through a hidden unit is multiplied by its head, whatever the sample
                to_weights *= head
                gradient *= how.rate
                self._spare *= how.keep
                self._spare -= gradient
                taken += 1
        return self._accept(Trained(taken, loss))

    def _accept(self, trained: Trained) -> Trained:
        with np.errstate(over="ignore", invalid="ignore"):
            size = float(self._spare @ self._spare)
        if not (np.isfinite(size) and np.isfinite(trained.loss)):
            raise FloatingPointError(
                f"training diverged within {trained.steps} steps, and nothing was changed: the contexts or rewards are "
                "too large for this learning_rate. Scale the contexts, e.g. to norm 1, or lower learning_rate."
            )
        self._parameters[:] = self._spare
        return trained

    def state(self) -> State:
        """Return a copy of the parameters."""
        return {"parameters": self._parameters.copy()}

    def restore(self, state: State) -> None:
        """Take over a state returned by :meth:`state`."""
        check_names(state, ("parameters",))
        if np.shape(state["parameters"]) != self._parameters.shape:
            raise ValueError(f"the state holds {np.size(state['parameters'])} parameters, this network has {self.size}")
        self._parameters[:] = fitting(state["parameters"], self._parameters)

    def frozen(self) -> Self:
        """Return a copy that predicts and nothing else; training this network does not reach it."""
        twin = shallow(self)
        twin._parameters, twin._spare = frozen(self._parameters), np.empty(0)
        twin.weights, twin.bias, twin.head, twin.head_bias = twin._views(twin._parameters)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles carry the flat vector only: views would come back as separate arrays.
        dropped = ("_spare", "weights", "bias", "head", "head_bias")
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._link()

    def __repr__(self) -> str:
        return f"BlockNetwork(n_arms={self.n_arms}, n_features={self.n_features}, hidden={self.hidden})"
