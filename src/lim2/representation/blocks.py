"""The network of NeuralUCB and NeuralTS: one output, and an input with a separate block for every arm.

Arm k in context b is the input (0, ..., 0, b, 0, ..., 0) of n_arms x n_features numbers with b in block k. That vector
is never built: the first layer's weights are held as one block per arm, and an arm's output and gradient involve its
own block only.
"""

import itertools
from typing import Annotated, NamedTuple

import numpy as np

from lim2 import _kernels
from lim2.state import Array, Ints, with_row, without_arm

# Rows of one arm that are computed at a time, so that what is computed of them stays in the cache.
PIECE = 256

# The largest sum of squares of all parameters; what training takes beyond it has diverged.
LARGEST_SQUARE = 1e100


class Network(NamedTuple):
    """One hidden ReLU layer with biases and one linear output, on the block encoding of (context, arm)."""

    weights: Annotated[Array, "arm feature unit"]
    bias: Annotated[Array, "unit"]
    head: Annotated[Array, "unit"]
    head_bias: Annotated[Array, "output"]

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(layer.size for layer in self)

    @property
    def square(self) -> float:
        """The sum of squares of all parameters; not finite where one is not, or where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return sum(float(np.vdot(layer, layer)) for layer in self)


class Factors(NamedTuple):
    """The parts that gradients are made of; the last axis is the hidden layer.

    The gradient of arm k's output in context b is ``outer(b, gates[k])`` for the weights of block k, 0 for all other
    blocks, ``gates[k]`` for the hidden biases, ``hidden[k]`` for the head, and 1 for the head's bias.
    """

    gates: Array
    hidden: Array


class Descent(NamedTuple):
    """Training settings: largest number of steps, rate, and the mean squared error at which to stop.

    Every step adds ``decay`` times the parameters to the gradient.
    """

    steps: int
    rate: float
    decay: float
    stop_loss: float

    @property
    def keep(self) -> float:
        """Factor by which weight decay shrinks a parameter per step."""
        return 1.0 - self.rate * self.decay


class Trained(NamedTuple):
    """Diagnostics of a training: number of steps, and mean squared error of the last pass."""

    steps: int
    loss: float


def init(n_arms: int, n_features: int, hidden: int, rng: np.random.Generator) -> Network:
    """Return a network with all parameters uniform in +-1/sqrt(fan-in); that of a block is n_arms x n_features.

    Examples
    --------
    >>> f = init(n_arms=3, n_features=2, hidden=4, rng=np.random.default_rng(0))
    >>> f.size  # 3 x 2 x 4 weights, 4 biases, 4 + 1 for the output
    33
    >>> outputs, factors = forward(f, np.array([[1.0, 0.0]]))
    >>> outputs.shape, factors.gates.shape
    ((3, 1), (3, 1, 4))
    """
    inner = n_arms * n_features * hidden
    first = rng.uniform(-1.0, 1.0, inner + hidden) / np.sqrt(n_arms * n_features)
    last = rng.uniform(-1.0, 1.0, hidden + 1) / np.sqrt(hidden)
    return Network(first[:inner].reshape(n_arms, n_features, hidden), first[inner:], last[:-1], last[-1:])


def forward(f: Network, contexts: Array, arm: int | None = None) -> tuple[Array, Factors]:
    """Return outputs (arms, n) of (n, n_features) contexts for all arms or one, and the factors of their gradients."""
    hidden = np.matmul(contexts, f.weights if arm is None else f.weights[arm : arm + 1])
    hidden += f.bias
    np.maximum(hidden, 0.0, out=hidden)
    outputs: Array = hidden @ f.head
    outputs += f.head_bias
    return outputs, Factors((hidden > 0.0) * f.head, hidden)


def train_by_samples(
    f: Network, contexts: Array, arms: Ints, rewards: Array, descent: Descent
) -> tuple[Network, Trained]:
    """Take one step per sample, in their order, pass after pass; the error is that of a whole pass.

    Raises a FloatingPointError where training diverges.
    """
    *layers, steps, loss = _kernels.descend(
        *f, contexts, arms, rewards, descent.steps, descent.rate, descent.keep, descent.stop_loss
    )
    return _accepted(Network(*layers), Trained(steps, loss))


def train_by_batches(
    f: Network, contexts: Array, rewards: Array, bounds: list[int], descent: Descent
) -> tuple[Network, Trained]:
    """Take steps on the mean squared error of all samples, sorted by arm: arm k has rows bounds[k]:bounds[k + 1].

    Raises a FloatingPointError where training diverges.
    """
    new, rows = Network(*(layer.copy() for layer in f)), len(rewards)
    pieces = [
        (arm, slice(start, min(start + PIECE, end)))
        for arm, (first, end) in enumerate(itertools.pairwise(bounds))
        for start in range(first, end, PIECE)
    ]
    gradient = Network(*(np.empty_like(layer) for layer in f))
    steps, loss = 0, np.inf
    with np.errstate(over="ignore", invalid="ignore"):  # what diverges is refused below
        while True:
            loss = 0.0
            for layer in gradient:
                layer[:] = 0.0
            for arm, piece in pieces:
                inputs = contexts[piece]
                hidden = inputs @ new.weights[arm]
                hidden += new.bias
                np.maximum(hidden, 0.0, out=hidden)
                slopes = hidden @ new.head
                slopes += new.head_bias
                slopes -= rewards[piece]
                loss += float(slopes @ slopes) / rows
                slopes *= 2.0 / rows
                gradient.head[:] += slopes @ hidden
                gradient.head_bias[:] += slopes.sum()
                active = (hidden > 0.0).astype(np.float64)
                gradient.bias[:] += slopes @ active
                gradient.weights[arm] += (inputs * slopes[:, None]).T @ active
            if loss <= descent.stop_loss or steps == descent.steps:
                break
            for layer in (gradient.weights, gradient.bias):
                layer *= new.head  # what passes through a hidden unit is multiplied by its head, whatever the sample
            for layer, slope in zip(new, gradient, strict=True):
                layer *= descent.keep
                slope *= descent.rate
                layer -= slope
            steps += 1
    return _accepted(new, Trained(steps, loss))


def _accepted(f: Network, trained: Trained) -> tuple[Network, Trained]:
    if not (f.square < LARGEST_SQUARE and np.isfinite(trained.loss)):  # false for NaN, too
        raise FloatingPointError(
            f"training diverged within {trained.steps} steps, and nothing was changed: the contexts or rewards are "
            "too large for this learning_rate. Scale the contexts, e.g. to norm 1, or lower learning_rate."
        )
    return f, trained


def add_arm(f: Network, like: int | None, rng: np.random.Generator) -> Network:
    """Return a network with one more block: new weights, as small as if it was there at the start, or another arm's."""
    n_arms, n_features, hidden = f.weights.shape
    bound = 1.0 / np.sqrt((n_arms + 1) * n_features)
    block = rng.uniform(-bound, bound, (n_features, hidden))
    return f._replace(weights=with_row(f.weights, block if like is None else f.weights[like]))


def remove_arm(f: Network, arm: int) -> Network:
    """Return a network without an arm's block; those after it move up."""
    return without_arm(f, arm)
