"""Scale contexts by their running mean and standard deviation, for any representation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.moments import Moments, no_moments, observe, scaled, scaling
from lim2.representation.protocol import Representation, Shape, Step
from lim2.state import Array, Ints


class ScaledNetwork(NamedTuple):
    """A network, and the moments of the observed contexts."""

    inner: Any
    moments: Moments


@dataclass(frozen=True)
class Standardized:
    """Representation that scales raw columns and passes them to another representation."""

    inner: Representation

    @property
    def width(self) -> int:
        """Number of features."""
        return self.inner.width

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> ScaledNetwork:
        """Return a network; raise a ValueError if the inner representation does not take columns of numbers."""
        f = self.inner.init(shape, n_arms, rng)
        refusal: Exception | str | None = None
        if getattr(self.inner, "n_tokens", None) is not None:
            refusal = "it takes token ids"
        else:
            try:
                self.inner.features(f, np.zeros((1, *shape)))
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                refusal = error
        if refusal is not None:
            raise ValueError(
                f"standardize=True scales columns of numbers, but this representation does not take them: {refusal}. "
                "Leave out standardize."
            )
        return ScaledNetwork(f, no_moments(shape))

    def _scaled(self, f: ScaledNetwork, contexts: NDArray[Any]) -> Array:
        return scaled(scaling(f.moments), contexts)

    def features(self, f: ScaledNetwork, contexts: NDArray[Any]) -> Array:
        """Return the features of raw contexts."""
        return self.inner.features(f.inner, self._scaled(f, contexts))

    def last_layer(self, f: ScaledNetwork) -> tuple[Array, Array]:
        """Return weights and biases of the last layer."""
        return self.inner.last_layer(f.inner)

    def train(
        self, f: ScaledNetwork, contexts: NDArray[Any], arms: Ints, rewards: Array
    ) -> tuple[Array, ScaledNetwork, Step]:
        """Take one step on a batch of raw contexts."""
        features, inner, step = self.inner.train(f.inner, self._scaled(f, contexts), arms, rewards)
        return features, ScaledNetwork(inner, f.moments), step

    def observe(self, f: ScaledNetwork, context: NDArray[Any]) -> ScaledNetwork:
        """Return the network after observing one more context."""
        return ScaledNetwork(f.inner, observe(f.moments, context))

    def add_arm(self, f: ScaledNetwork, like: int | None, rng: np.random.Generator) -> ScaledNetwork:
        """Return a network with one more output."""
        return ScaledNetwork(self.inner.add_arm(f.inner, like, rng), f.moments)

    def remove_arm(self, f: ScaledNetwork, arm: int) -> ScaledNetwork:
        """Return a network without an arm's output."""
        return ScaledNetwork(self.inner.remove_arm(f.inner, arm), f.moments)

    def skipped(self, f: ScaledNetwork) -> int:
        """Return the number of steps skipped because their gradient was not finite."""
        return self.inner.skipped(f.inner)

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the types of the network and of the one inside."""
        return {path: ScaledNetwork, **self.inner.kinds(f"{path}/inner")}

    def check(self, f: ScaledNetwork) -> None:
        """Raise a ValueError if a loaded network is impossible."""
        if hasattr(self.inner, "check"):
            self.inner.check(f.inner)

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:
        """Return the lengths of the axes of the network inside."""
        return self.inner.sizes(shape, n_arms)
