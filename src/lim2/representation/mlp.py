"""The paper's network: a multi-layer perceptron with ReLU activations and one linear output an arm."""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from lim2._arrays import OwnsArrays, with_row, without_row
from lim2._state import check_names, fitting, frozen, shallow
from lim2.representation.optimizers import Optimizer, RMSProp
from lim2.representation.protocol import Array, State

_dgemm = blas.dgemm


class MLP(OwnsArrays):
    """A fully connected ReLU network trained on the squared error of the played arm's output.

    All parameters live in one flat vector, so that an optimizer step is a handful of vector operations; the layers
    are views of it.

    Parameters
    ----------
    hidden
        Sizes of the hidden layers, or of the only one; the last is the number of features. The paper: one of 50.
    optimizer
        Default: RMSProp as in the published runs.
    init
        Weights start uniform in (-init, init), biases at 0.

    Examples
    --------
    >>> import numpy as np
    >>> net = MLP(hidden=(4,))
    >>> net.bind(n_features=3, n_arms=2, rng=np.random.default_rng(0))
    >>> contexts = np.eye(3)
    >>> before = net.train_step(contexts, arms=np.array([0, 1, 0]), rewards=np.array([1.0, 0.0, 1.0]))
    >>> after = net.features(contexts)
    >>> before.shape, after.shape
    ((3, 4), (3, 4))
    >>> bool(np.abs(after - before).max() > 0)
    True
    """

    def __init__(
        self, hidden: int | Sequence[int] = (50,), optimizer: Optimizer | None = None, init: float = 0.3
    ) -> None:
        self.hidden = _sizes(hidden)
        self.optimizer = RMSProp() if optimizer is None else optimizer
        self.init = float(init)
        self.n_features = 0
        self.n_arms = 0
        self._parameters: Array = np.empty(0)
        self._gradient: Array = np.empty(0)
        self._rows, self._ones = np.arange(0), np.ones(0)
        self._slope: Array = np.empty(0)

    def bind(self, n_features: int, n_arms: int, rng: np.random.Generator) -> None:
        """Set the sizes and draw the initial parameters; once bound, only check that the sizes agree."""
        if self.n_arms:
            if (self.n_features, self.n_arms) != (n_features, n_arms):
                raise ValueError(
                    f"this MLP is bound to {self.n_features} features and {self.n_arms} arms, "
                    f"the agent has {n_features} and {n_arms}: give it a fresh MLP"
                )
            return
        self.n_features, self.n_arms = n_features, n_arms
        self._parameters = np.zeros(sum(rows * columns + columns for rows, columns in self._shapes()))
        self._link()
        for weights, _ in self._layers:
            weights[:] = rng.uniform(-self.init, self.init, weights.shape)
        self._head[:] = rng.uniform(-self.init, self.init, self._head.shape)
        self.optimizer.bind(self._parameters.size)

    def _shapes(self) -> list[tuple[int, int]]:
        sizes = (self.n_features, *self.hidden, self.n_arms)
        return list(itertools.pairwise(sizes))

    def _link(self) -> None:
        """Point the layers, and their gradients, into the flat vectors."""
        self._gradient = np.zeros_like(self._parameters)
        self._layers, self._head, self._bias = self._views(self._parameters)
        self._shown_head = self._head.view(), self._bias.view()
        for part in self._shown_head:
            part.flags.writeable = False
        self._layer_gradients, self._head_gradient, self._bias_gradient = self._views(self._gradient)

    def _views(self, flat: Array) -> tuple[list[tuple[Array, Array]], Array, Array]:
        views, start = [], 0
        for rows, columns in self._shapes():
            middle, stop = start + rows * columns, start + rows * columns + columns
            views.append((flat[start:middle].reshape(rows, columns), flat[middle:stop]))
            start = stop
        head, bias = views.pop()
        # The head is stored an arm a row, so that the rows of the played arms can be taken at once.
        return views, head.reshape(self.n_arms, self.width), bias

    @property
    def width(self) -> int:
        """The number of features, the paper's g."""
        return self.hidden[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of parameters, gradient and optimizer statistics."""
        return self._parameters.nbytes + self._gradient.nbytes + self.optimizer.nbytes

    @property
    def head(self) -> tuple[Array, Array]:
        """The last layer: weights (n_arms, width) and bias (n_arms,)."""
        return self._shown_head

    @property
    def loss(self) -> float:
        """Mean squared error of the batch before the latest step; NaN before the first."""
        return 0.25 * len(self._slope) * float(np.dot(self._slope, self._slope)) if len(self._slope) else math.nan

    @property
    def gradient_norm(self) -> float:
        """Norm of the latest gradient, before clipping; NaN before the first step."""
        return self.optimizer.gradient_norm

    @property
    def skipped(self) -> int:
        """How many steps were left out because their gradient was not finite."""
        return self.optimizer.skips.total

    def features(self, contexts: Array) -> Array:
        """Return the (n, width) last hidden activations of (n, n_features) contexts."""
        activations = contexts
        for weights, bias in self._layers:
            activations = _rectified(activations, weights, bias)
        return activations

    def train_step(self, contexts: Array, arms: NDArray[np.intp], rewards: Array) -> Array:
        """Take one step on the mean squared error of the batch; return its features before the step."""
        activations = [contexts]
        for weights, bias in self._layers:
            activations.append(_rectified(activations[-1], weights, bias))
        features = activations[-1]
        played = self._head.take(arms, axis=0)
        # d loss / d output of the played arm; the other outputs have no gradient
        slope = np.vecdot(features, played)
        slope += self._bias.take(arms)
        slope -= rewards
        slope *= 2.0 / len(rewards)
        self._slope = slope  # the loss follows from it, should anyone ask

        rows, ones = self._counters(len(rewards))
        outputs = np.zeros((len(rewards), self.n_arms))
        outputs[rows, arms] = slope
        np.dot(outputs.T, features, out=self._head_gradient)
        np.dot(ones, outputs, out=self._bias_gradient)
        played *= slope[:, None]
        flow = played  # d loss / d activations, layer by layer downwards
        for depth in reversed(range(len(self._layers))):
            flow *= np.sign(activations[depth + 1])  # 1 where the unit is active, 0 where it is not
            weights_gradient, bias_gradient = self._layer_gradients[depth]
            np.dot(activations[depth].T, flow, out=weights_gradient)
            np.dot(ones, flow, out=bias_gradient)
            if depth:
                flow = flow @ self._layers[depth][0].T
        self.optimizer.descend(self._parameters, self._gradient)
        return features

    def add_arm(self, rng: np.random.Generator, like: int | None = None) -> None:
        """Add an output: one with new weights, or a copy of another arm's, optimizer statistics included."""
        start = np.append(rng.uniform(-self.init, self.init, self.width), 0.0)

        def grown(flat: Array, row: ArrayLike) -> Array:
            return self._with_outputs(flat, lambda rows: with_row(rows, row if like is None else rows[like]))

        parameters = grown(self._parameters, start)
        self.optimizer.resize(grown)
        self._replace(parameters, self.n_arms + 1)

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's output; those after it move up."""

        def shrunk(flat: Array, _start: float = 0.0) -> Array:
            return self._with_outputs(flat, lambda rows: without_row(rows, arm))

        parameters = shrunk(self._parameters)
        self.optimizer.resize(shrunk)
        self._replace(parameters, self.n_arms - 1)

    def _with_outputs(self, flat: Array, change: Callable[[Array], Array]) -> Array:
        """Return a flat vector with its outputs changed, as (n_arms, width + 1) rows of weights and bias."""
        inner, head = flat.size - self.n_arms * (self.width + 1), self.n_arms * self.width
        rows = np.column_stack((flat[inner : inner + head].reshape(self.n_arms, self.width), flat[inner + head :]))
        rows = change(rows)
        return np.concatenate((flat[:inner], rows[:, :-1].ravel(), rows[:, -1]))

    def _replace(self, parameters: Array, n_arms: int) -> None:
        self._parameters, self.n_arms = parameters, n_arms
        self._link()

    def _counters(self, size: int) -> tuple[NDArray[np.intp], Array]:
        """Return 0, 1, ..., size - 1 and as many ones; made again only when the size of a batch changes."""
        if len(self._rows) != size:
            self._rows, self._ones = np.arange(size), np.ones(size)
        return self._rows, self._ones

    def state(self) -> State:
        """Return a copy of the parameters and of the optimizer's statistics."""
        optimizer = {f"optimizer.{name}": value for name, value in self.optimizer.state().items()}
        return {"parameters": self._parameters.copy(), **optimizer}

    def restore(self, state: State) -> None:
        """Take over a state returned by :meth:`state`."""
        prefix = "optimizer."
        optimizer = {name: value for name, value in state.items() if name.startswith(prefix)}
        check_names(state, ("parameters", *optimizer))
        if np.shape(state["parameters"]) != self._parameters.shape:
            raise ValueError(
                f"the state holds {np.size(state['parameters'])} parameters, this MLP has {self._parameters.size}"
            )
        parameters = fitting(state["parameters"], self._parameters)
        self.optimizer.restore({name.removeprefix(prefix): value for name, value in optimizer.items()})
        self._parameters[:] = parameters

    def note(self) -> Any:
        """Return what :meth:`undo` needs to put parameters and optimizer back as they are now."""
        optimizer = self.optimizer
        counts = optimizer.steps, optimizer.skips.total, optimizer.skips.in_a_row
        return self._parameters.copy(), counts, [array.copy() for array in optimizer.statistics.values()]

    def undo(self, noted: Any) -> None:
        """Put back what :meth:`note` returned."""
        optimizer = self.optimizer
        self._parameters[:], counts, statistics = noted
        optimizer.steps, optimizer.skips.total, optimizer.skips.in_a_row = counts
        for array, before in zip(optimizer.statistics.values(), statistics, strict=True):
            array[:] = before

    def frozen(self) -> Self:
        """Return a copy that computes features and nothing else; training this MLP does not reach it."""
        twin = shallow(self)
        for name in ("_gradient", "_layer_gradients", "_head_gradient", "_bias_gradient", "optimizer"):
            twin.__dict__.pop(name, None)
        twin._parameters = frozen(self._parameters)
        twin._layers, twin._head, twin._bias = twin._views(twin._parameters)
        twin._shown_head = twin._head, twin._bias
        return twin

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles carry the flat vector only: views would come back as separate arrays.
        dropped = (
            "_gradient",
            "_slope",
            "_layers",
            "_head",
            "_bias",
            "_layer_gradients",
            "_head_gradient",
            "_bias_gradient",
        )
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._gradient = self._slope = np.empty(0)
        if self.n_arms:
            self._link()

    def __repr__(self) -> str:
        return f"MLP(hidden={self.hidden}, optimizer={self.optimizer!r}, init={self.init:g})"


def _sizes(hidden: int | Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = (operator.index(hidden),) if isinstance(hidden, int) else tuple(operator.index(size) for size in hidden)
    except TypeError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise ValueError(f"hidden must be the sizes of one or more layers, whole numbers from 1, got {hidden!r}")
    return sizes


def _rectified(inputs: Array, weights: Array, bias: Array) -> Array:
    """Return max(inputs @ weights + bias, 0); the product is added to the bias where it lies, in one BLAS call."""
    out = np.empty((len(inputs), len(bias)))
    if not len(inputs):
        return out
    out[:] = bias
    _dgemm(1.0, weights.T, inputs.T, 1.0, out.T, overwrite_c=1)
    return np.maximum(out, 0.0, out=out)
