"""NeuralUCB and NeuralTS when training has diverged: every score is NaN, and the argmax of NaN is arm 0."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from lim2.agent import Agent
from lim2.algorithms.neural_ts import NeuralTS
from lim2.algorithms.neural_ucb import NeuralUCB

METHODS = {"NeuralUCB": NeuralUCB, "NeuralTS": NeuralTS}


class Diverging:
    """NeuralUCB or NeuralTS on contexts that are not scaled to norm 1, as the published code got them."""

    def __init__(self, n_arms: int, n_features: int, *, method: str = "NeuralUCB", seed: int | None = None) -> None:
        self.agent = Agent(METHODS[method](n_arms, n_features, normalize=False, seed=seed))
        self.rounds = 0
        self.diverged: int | None = None  # the round whose training diverged

    def act(self, context: NDArray[Any]) -> int:
        """Choose an arm; the first one after training has diverged."""
        return 0 if self.diverged is not None else int(self.agent.act(context))

    def update(self, context: NDArray[Any], arm: int, reward: float) -> None:
        """Learn, unless training has diverged."""
        self.rounds += 1
        if self.diverged is None:
            try:
                self.agent.update(context, arm, reward)
            except FloatingPointError:
                self.diverged = self.rounds

    @property
    def traces(self) -> dict[str, list[float]]:
        """The round in which training diverged; empty if it did not."""
        return {"diverged": [] if self.diverged is None else [float(self.diverged)]}


class FirstArm:
    """The policy that always plays arm 0."""

    def __init__(self, n_arms: int, n_features: int) -> None:
        pass

    def act(self, context: NDArray[Any]) -> int:  # noqa: ARG002
        """Play arm 0."""
        return 0

    def update(self, context: NDArray[Any], arm: int, reward: float) -> None:
        """Learn nothing."""
