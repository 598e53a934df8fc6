"""Any representation, with a constant 1 among its features."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.representation.protocol import Observer, Representation, Shape, Step
from lim2.state import Array, Ints


def with_one(features: Array) -> Array:
    """Append a constant 1 to a feature vector, or to every row of several.

    Examples
    --------
    >>> with_one(np.array([[2.0], [3.0]])).tolist()
    [[2.0, 1.0], [3.0, 1.0]]
    """
    if features.ndim == 1:  # the common case, without the cost of an ellipsis
        out = np.empty(len(features) + 1)
        out[:-1], out[-1] = features, 1.0
    else:
        out = np.empty((len(features), features.shape[1] + 1))
        out[:, :-1], out[:, -1] = features, 1.0
    return out


@dataclass(frozen=True)
class Intercept:
    """Append a constant 1 to the features of another representation, and its biases to the last layer's weights."""

    inner: Representation

    @property
    def width(self) -> int:
        """The number of features, the constant included."""
        return self.inner.width + 1

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> Any:
        """Return the network of the inner representation."""
        return self.inner.init(shape, n_arms, rng)

    def features(self, f: Any, contexts: NDArray[Any]) -> Array:
        """Return the features with a constant 1 behind them."""
        return with_one(self.inner.features(f, contexts))

    def last_layer(self, f: Any) -> tuple[Array, Array]:
        """Return the weights with the biases as the last column, and the biases."""
        weights, bias = self.inner.last_layer(f)
        return np.column_stack((weights, bias)), bias

    def train(self, f: Any, contexts: NDArray[Any], arms: Ints, rewards: Array) -> tuple[Array, Any, Step]:
        """Take one step; the features before it have the constant, too."""
        features, g, step = self.inner.train(f, contexts, arms, rewards)
        return with_one(features), g, step

    def observe(self, f: Any, context: NDArray[Any]) -> Any:
        """Return the network after one more context was learned from."""
        return self.inner.observe(f, context) if isinstance(self.inner, Observer) else f

    def add_arm(self, f: Any, like: int | None, rng: np.random.Generator) -> Any:
        """Return a network with one more output."""
        return self.inner.add_arm(f, like, rng)

    def remove_arm(self, f: Any, arm: int) -> Any:
        """Return a network without an arm's output."""
        return self.inner.remove_arm(f, arm)

    def skipped(self, f: Any) -> int:
        """Return the number of steps skipped because their gradient was not finite."""
        return self.inner.skipped(f)

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the type of the network."""
        return self.inner.kinds(path)

    def check(self, f: Any) -> None:
        """Raise a ValueError if a loaded network is impossible."""
        if hasattr(self.inner, "check"):
            self.inner.check(f)

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the network's axes, and the number of features with the constant."""
        return {**self.inner.sizes(shape, n_arms), "g": self.width}
