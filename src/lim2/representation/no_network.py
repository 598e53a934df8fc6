"""A representation without a hidden layer: an agent that has it is linear in the context."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.representation.protocol import Shape, Step
from lim2.state import Array, Ints


class Outputs(NamedTuple):
    """The number of outputs, all 0."""

    n_arms: Annotated[int, "count", "arm"]


@dataclass(frozen=True)
class NoNetwork:
    """No features, nothing to train.

    Examples
    --------
    >>> net = NoNetwork()
    >>> f = net.init((3,), n_arms=2, rng=np.random.default_rng(0))
    >>> net.width, net.features(f, np.eye(3)).shape
    (0, (3, 0))
    """

    width: int = 0

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> Outputs:  # noqa: ARG002
        """Return the outputs of so many arms."""
        return Outputs(n_arms)

    def features(self, f: Outputs, contexts: NDArray[Any]) -> Array:  # noqa: ARG002
        """Return no features of contexts (n, ...): an array (n, 0)."""
        return np.empty((len(contexts), 0))

    def last_layer(self, f: Outputs) -> tuple[Array, Array]:
        """Return no weights, and biases of 0."""
        return np.empty((f.n_arms, 0)), np.zeros(f.n_arms)

    def train(self, f: Outputs, contexts: NDArray[Any], arms: Ints, rewards: Array) -> tuple[Array, Outputs, Step]:  # noqa: ARG002
        """Return the network as it is."""
        return self.features(f, contexts), f, Step(np.nan, np.nan)

    def add_arm(self, f: Outputs, like: int | None, rng: np.random.Generator) -> Outputs:  # noqa: ARG002
        """Return a network with one more output."""
        return Outputs(f.n_arms + 1)

    def remove_arm(self, f: Outputs, arm: int) -> Outputs:  # noqa: ARG002
        """Return a network without an arm's output."""
        return Outputs(f.n_arms - 1)

    def skipped(self, f: Outputs) -> int:  # noqa: ARG002
        """Return 0: no step can fail."""
        return 0

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the type of the network."""
        return {path: Outputs}

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the number of features."""
        return {"g": 0}
