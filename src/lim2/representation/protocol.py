"""What a representation must offer: the whole contract between a network and the agents."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
State = Mapping[str, NDArray[Any]]


class Representation(Protocol):
    """A network that maps contexts to features and predicts every arm's reward by a linear head on top.

    An agent copies the representation it is given, binds the copy to its problem, and from then on only calls
    ``features``, ``train_step`` and ``head``. Nothing here knows of posteriors, buffers or exploration.
    """

    @property
    def width(self) -> int:
        """The number of features, the paper's g."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of parameters and optimizer state."""
        ...

    def bind(self, n_features: Any, n_arms: int, rng: np.random.Generator) -> None:
        """Set the sizes and draw the initial parameters; a representation that is bound already keeps its own.

        ``n_features`` is the size of a context, an int, or the shape of one that has several axes, a tuple of ints.
        """
        ...

    def features(self, contexts: Array) -> Array:
        """Return the (n, width) last hidden activations of (n, n_features) contexts."""
        ...

    def train_step(self, contexts: Array, arms: NDArray[np.intp], rewards: Array) -> Array:
        """Take one optimisation step on the batch and return its features as they were *before* the step.

        Only the played arm's output enters the loss. ``features(contexts)`` gives the features after.
        """
        ...

    @property
    def head(self) -> tuple[Array, Array]:
        """The last layer: weights (n_arms, width) and bias (n_arms,). Read-only for the caller."""
        ...

    def state(self) -> State:
        """Return a copy of everything that training changes, as named arrays."""
        ...

    def restore(self, state: State) -> None:
        """Take over a state returned by :meth:`state`."""
        ...


@runtime_checkable
class ChangesArms(Protocol):
    """What a representation adds whose arms may come and go."""

    def add_arm(self, rng: np.random.Generator, like: int | None = None) -> None:
        """Add a row to the head, drawn anew or a copy of another arm's, together with its optimizer statistics."""
        ...

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's row of the head, together with its optimizer statistics; rows after it move up."""
        ...


@runtime_checkable
class ContextReader(Protocol):
    """What a representation adds that takes other contexts than vectors of float64: images, token ids."""

    @property
    def context_shape(self) -> tuple[int, ...] | None:
        """The shape of a context where the network itself knows it: an agent's ``n_features`` may then be left out."""
        ...

    def read(self, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return one context or many as the array that is stored and handed to ``features``; change nothing.

        What the network cannot take is refused with a ValueError that names ``what``. The agent itself checks the
        shape, and that all values are finite.
        """
        ...


@runtime_checkable
class Watched(Protocol):
    """What a representation adds that tells how its latest training step went: for an agent's ``info``."""

    @property
    def loss(self) -> float:
        """Mean squared error of the batch before the latest step; NaN before the first."""
        ...

    @property
    def gradient_norm(self) -> float:
        """Norm of the latest gradient, before clipping; NaN before the first step."""
        ...

    @property
    def skipped(self) -> int:
        """How many steps were left out because their gradient was not finite."""
        ...
