"""What a representation must offer: the whole contract between a network and the algorithms."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.state import Array, Ints

Shape = tuple[int, ...]


class Step(NamedTuple):
    """What a training step did: mean squared error of the batch before it, and the gradient's norm before clipping."""

    loss: float
    gradient_norm: float


class Representation(Protocol):
    """A network that maps contexts to features and predicts every arm's reward by a linear layer on top.

    The object holds settings only and never changes. What training changes is a network f: a named tuple of arrays and
    numbers, which every function here takes and returns, and none writes to. Nothing here knows of posteriors, memory
    or exploration.
    """

    @property
    def width(self) -> int:
        """The number of features, the paper's g."""
        ...

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> Any:
        """Return a network for contexts of a shape, with the initial parameters drawn."""
        ...

    def features(self, f: Any, contexts: NDArray[Any]) -> Array:
        """Return the (n, width) features of (n, *shape) contexts."""
        ...

    def last_layer(self, f: Any) -> tuple[Array, Array]:
        """Return the weights (n_arms, width) and the biases (n_arms,) of the last layer; read-only for the caller."""
        ...

    def train(self, f: Any, contexts: NDArray[Any], arms: Ints, rewards: Array) -> tuple[Array, Any, Step]:
        """Take one step on the mean squared error of a batch, in which only the played arm's output counts.

        Returns the features of the batch as they were *before* the step, the network after it, and what it did. The
        batch is sorted by arm.
        """
        ...

    def add_arm(self, f: Any, like: int | None, rng: np.random.Generator) -> Any:
        """Return a network with one more output: drawn anew, or a copy of another arm's with its statistics."""
        ...

    def remove_arm(self, f: Any, arm: int) -> Any:
        """Return a network without an arm's output; those after it move up."""
        ...

    def skipped(self, f: Any) -> int:
        """Return how many steps were left out because their gradient was not finite."""
        ...

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the type of the network's named tuple under a path in a state, and of parts whose type is ``Any``."""
        ...

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the network's axes, by name; they are computed, nothing is allocated."""
        ...


@runtime_checkable
class ContextReader(Protocol):
    """What a representation adds that takes other contexts than vectors of float64: images, token ids."""

    @property
    def context_shape(self) -> Shape | None:
        """The shape of a context where the network itself knows it: an agent's ``n_features`` may then be left out."""
        ...

    def read(self, f: Any, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return one context or many as the array that is stored and handed to ``features``.

        What the network cannot take is refused with a ValueError that names ``what``. The agent itself checks the
        shape, and that all values are finite.
        """
        ...


@runtime_checkable
class Observer(Protocol):
    """What a representation adds that also learns from each context by itself, such as its scale."""

    def observe(self, f: Any, context: NDArray[Any]) -> Any:
        """Return the network after one more context was learned from."""
        ...
