"""The interface of representations: the complete contract between networks and algorithms."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.state import Array, Ints

Shape = tuple[int, ...]


class Step(NamedTuple):
    """Diagnostics of a training step: mean squared error before the step, and gradient norm before clipping."""

    loss: float
    gradient_norm: float


class Representation(Protocol):
    """Interface of a network that maps contexts to features and predicts every arm's reward by a linear last layer.

    The object holds settings only and never changes. Training replaces the network f, a named tuple of arrays and
    numbers, which the methods take and return and never modify. A representation knows nothing of posteriors, memory
    or exploration.
    """

    @property
    def width(self) -> int:
        """Number of features, the paper's g."""
        ...

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> Any:
        """Return a network with random initial parameters, for contexts of this shape."""
        ...

    def features(self, f: Any, contexts: NDArray[Any]) -> Array:
        """Return the features (n, width) of contexts (n, *shape)."""
        ...

    def last_layer(self, f: Any) -> tuple[Array, Array]:
        """Return weights (n_arms, width) and biases (n_arms,) of the last layer; the caller must not modify them."""
        ...

    def train(self, f: Any, contexts: NDArray[Any], arms: Ints, rewards: Array) -> tuple[Array, Any, Step]:
        """Take one step on the mean squared error of a batch, where only the played arm's output counts.

        Return the features of the batch *before* the step, the network after it, and its diagnostics. The batch is
        sorted by arm.
        """
        ...

    def add_arm(self, f: Any, like: int | None, rng: np.random.Generator) -> Any:
        """Return a network with one more output: newly drawn, or a copy of another arm's, with its statistics."""
        ...

    def remove_arm(self, f: Any, arm: int) -> Any:
        """Return a network without an arm's output; later outputs move up."""
        ...

    def skipped(self, f: Any) -> int:
        """Return the number of steps skipped because their gradient was not finite."""
        ...

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the type of the network's named tuple under a path in a state, and of parts whose type is ``Any``."""
        ...

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the network's axes by name, without allocating anything."""
        ...


@runtime_checkable
class ContextReader(Protocol):
    """Additional methods of a representation whose contexts are not vectors of float64, such as images or token ids."""

    @property
    def context_shape(self) -> Shape | None:
        """Shape of a context, if the network knows it; ``n_features`` of the agent may then be left out."""
        ...

    def read(self, f: Any, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return one context or many as the array that is stored and passed to ``features``.

        Raise a ValueError that names ``what`` if the network cannot take the values. The agent itself checks the shape,
        and that all values are finite.
        """
        ...


@runtime_checkable
class Observer(Protocol):
    """Additional method of a representation that learns from each context by itself, such as its scale."""

    def observe(self, f: Any, context: NDArray[Any]) -> Any:
        """Return the network after observing one more context."""
        ...
