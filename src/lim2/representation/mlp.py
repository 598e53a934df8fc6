"""The paper's network: a multi-layer perceptron with ReLU activations and one linear output per arm."""

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from lim2.checks import number
from lim2.representation.optimizers import Descent, Optimizer, RMSProp, begin, check_descent, descend
from lim2.representation.protocol import Shape, Step
from lim2.state import Array, Ints, with_row, without_row

_dgemm, _ddot = blas.dgemm, blas.ddot

# Up to so many arms the last layer's gradient is one product; beyond, sums by arm.
FEW_ARMS = 64


class Network(NamedTuple):
    """All parameters in one flat vector, so that an optimizer step is a handful of vector operations."""

    parameters: Annotated[Array, "p", "moderate"]
    descent: Descent
    n_features: Annotated[int, "count", "input"]
    n_arms: Annotated[int, "count", "arm"]


Layers = tuple[list[tuple[Array, Array]], Array, Array]


@dataclass(frozen=True)
class MLP:
    """A fully connected ReLU network trained on the squared error of the played arm's output.

    Parameters
    ----------
    hidden
        Size of the hidden layer, or sizes of several; the last is the number of features. The paper uses one of 50.
    optimizer
        Optimizer. The default is RMSProp as in the published runs.
    init_range
        Initial weights are uniform in (-init_range, init_range), initial biases are 0.

    Examples
    --------
    >>> net = MLP(hidden=(4,))
    >>> f = net.init((3,), n_arms=2, rng=np.random.default_rng(0))
    >>> contexts = np.eye(3)
    >>> before, g, step = net.train(f, contexts, arms=np.array([0, 0, 1]), rewards=np.array([1.0, 1.0, 0.0]))
    >>> before.shape, bool(np.abs(net.features(g, contexts) - before).max() > 0)
    ((3, 4), True)
    """

    hidden: int | Sequence[int] = (50,)
    optimizer: Optimizer = RMSProp()  # noqa: RUF009  # frozen
    init_range: float = 0.3

    def __post_init__(self) -> None:
        _ = self.layer_sizes
        number("init_range", self.init_range, least=0.0)

    @functools.cached_property
    def layer_sizes(self) -> tuple[int, ...]:
        """Sizes of the hidden layers."""
        hidden = self.hidden
        try:
            sizes = (hidden,) if isinstance(hidden, int) else tuple(operator.index(size) for size in hidden)
        except TypeError:
            sizes = ()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"hidden must be the sizes of one or more layers, whole numbers from 1, got {hidden!r}")
        return sizes

    @functools.cached_property
    def is_shallow(self) -> bool:
        """Whether there is only one hidden layer."""
        return len(self.layer_sizes) == 1

    @property
    def width(self) -> int:
        """Number of features, the paper's g."""
        return self.layer_sizes[-1]

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> Network:
        """Return a network with random initial parameters."""
        if len(shape) != 1:
            raise ValueError(
                f"an MLP takes vectors, but n_features is the shape {shape}: flatten the contexts to "
                f"{int(np.prod(shape))} numbers, or use a representation that takes such arrays, such as Torch(module)"
            )
        parameters = np.zeros(self.sizes(shape, n_arms)["p"])
        f = Network(parameters, begin(self.optimizer, len(parameters)), shape[0], n_arms)
        hidden, head, _ = self.layers(f, parameters)
        for weights in (*(weights for weights, _ in hidden), head):
            weights[:] = rng.uniform(-self.init_range, self.init_range, weights.shape)
        return f

    def layers(self, f: Network, flat: Array) -> Layers:
        """Return views of a flat vector: weights and biases of the hidden layers, the last layer, its biases."""
        hidden, start, rows = [], 0, f.n_features
        for columns in self.layer_sizes:
            middle, end = start + rows * columns, start + rows * columns + columns
            hidden.append((flat[start:middle].reshape(rows, columns), flat[middle:end]))
            start, rows = end, columns
        # The last layer is stored one arm per row, so that the rows of the played arms can be taken at once.
        return hidden, flat[start : -f.n_arms].reshape(f.n_arms, rows), flat[-f.n_arms :]

    def features(self, f: Network, contexts: Array) -> Array:
        """Return the last hidden activations (n, width) of contexts (n, n_features)."""
        for weights, bias in self.layers(f, f.parameters)[0]:
            contexts = _rectified(contexts, weights, bias)
        return contexts

    def last_layer(self, f: Network) -> tuple[Array, Array]:
        """Return the weights (n_arms, width) and the biases (n_arms,) of the last layer."""
        return self.layers(f, f.parameters)[1:]

    def train(self, f: Network, contexts: Array, arms: Ints, rewards: Array) -> tuple[Array, Network, Step]:
        """Take one step on the mean squared error of a batch; return old features, new network and diagnostics."""
        hidden, head, bias = self.layers(f, f.parameters)
        activations = [contexts]
        for weights, shift in hidden:
            activations.append(_rectified(activations[-1], weights, shift))
        features, played = activations[-1], head.take(arms, axis=0)
        # d loss / d output of the played arm; the other outputs have no gradient
        slope = np.vecdot(features, played)
        slope += bias.take(arms)
        slope -= rewards
        slope *= 2.0 / len(rewards)
        gradient, (rows, ones) = np.empty_like(f.parameters), _counters(len(rewards))
        inner, head_gradient, bias_gradient = self.layers(f, gradient)
        _last_layer_gradient(features, arms, slope, head_gradient, bias_gradient, rows, ones)
        played *= slope[:, None]
        flow = played  # d loss / d activations, layer by layer downwards
        for depth in reversed(range(len(hidden))):
            flow *= np.sign(activations[depth + 1])  # 1 where the unit is active, 0 where it is not
            np.dot(activations[depth].T, flow, out=inner[depth][0])
            np.dot(ones, flow, out=inner[depth][1])
            if depth:
                flow = flow @ hidden[depth][0].T
        parameters, descent, norm = descend(self.optimizer, f.descent, f.parameters, gradient)
        step = Step(0.25 * len(slope) * _ddot(slope, slope), norm)
        return features, Network(parameters, descent, f.n_features, f.n_arms), step

    def add_arm(self, f: Network, like: int | None, rng: np.random.Generator) -> Network:
        """Return a network with one more output: with new weights, or a copy of another arm's."""
        row = np.append(rng.uniform(-self.init_range, self.init_range, self.width), 0.0)
        starts = [row, *self.optimizer.initial()]
        flats = [
            self._with_outputs(f, flat, lambda rows, start=start: with_row(rows, start if like is None else rows[like]))
            for flat, start in zip((f.parameters, *f.descent.statistics), starts, strict=True)
        ]
        return self._resized(f, flats, f.n_arms + 1)

    def remove_arm(self, f: Network, arm: int) -> Network:
        """Return a network without an arm's output; later outputs move up."""
        flats = [
            self._with_outputs(f, flat, lambda rows: without_row(rows, arm))
            for flat in (f.parameters, *f.descent.statistics)
        ]
        return self._resized(f, flats, f.n_arms - 1)

    def _with_outputs(self, f: Network, flat: Array, change: Any) -> Array:
        """Return a flat vector with its outputs changed, as (n_arms, width + 1) rows of weights and bias."""
        _, head, bias = self.layers(f, flat)
        rows = change(np.column_stack((head, bias)))
        return np.concatenate((flat[: -f.n_arms * (self.width + 1)], rows[:, :-1].ravel(), rows[:, -1]))

    def _resized(self, f: Network, flats: list[Array], n_arms: int) -> Network:
        statistics = np.array(flats[1:]).reshape(len(flats) - 1, len(flats[0]))
        return Network(flats[0], f.descent._replace(statistics=statistics), f.n_features, n_arms)

    def skipped(self, f: Network) -> int:
        """Return the number of steps skipped because their gradient was not finite."""
        return f.descent.skipped

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the type of a network."""
        return {path: Network}

    def check(self, f: Network) -> None:
        """Raise a ValueError if a loaded network cannot result from training."""
        check_descent(self.optimizer, f.descent)

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:
        """Return the number of inputs, parameters, running statistics and features."""
        sizes = (shape[0], *self.layer_sizes, n_arms)
        parameters = sum(rows * columns + columns for rows, columns in itertools.pairwise(sizes))
        return {"input": shape[0], "p": parameters, "statistic": len(self.optimizer.statistics), "g": self.width}


@functools.lru_cache(maxsize=8)
def _counters(size: int) -> tuple[Ints, Array]:
    """Return 0, 1, ..., size - 1 and as many ones, read-only: batches mostly have one size."""
    counters = np.arange(size), np.ones(size)
    for counter in counters:
        counter.flags.writeable = False
    return counters


def _last_layer_gradient(
    features: Array, arms: Ints, slope: Array, weights: Array, bias: Array, rows: Ints, ones: Array
) -> None:
    """Write the gradient of the last layer; the batch is sorted by arm."""
    n_arms = len(bias)
    if n_arms <= FEW_ARMS:
        outputs = np.zeros((len(slope), n_arms))
        outputs[rows, arms] = slope
        np.dot(outputs.T, features, out=weights)
        np.dot(ones, outputs, out=bias)
        return
    starts = np.flatnonzero(np.diff(arms, prepend=-1))
    weights[:], bias[:] = 0.0, 0.0
    weights[arms[starts]] = np.add.reduceat(features * slope[:, None], starts, axis=0)
    bias[arms[starts]] = np.add.reduceat(slope, starts)


def _rectified(inputs: Array, weights: Array, bias: Array) -> Array:
    """Return max(inputs @ weights + bias, 0); the product is added to the bias where it lies, in one BLAS call."""
    out = np.empty((len(inputs), len(bias)))
    if not len(inputs):
        return out
    if len(inputs) == 1:  # one context: a product of NumPy's has less to prepare
        np.dot(inputs, weights, out=out)
        out += bias
        return np.maximum(out, 0.0, out=out)
    out[:] = bias
    _dgemm(1.0, weights.T, inputs.T, 1.0, out.T, overwrite_c=1)
    return np.maximum(out, 0.0, out=out)
