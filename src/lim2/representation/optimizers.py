"""Gradient descent on a flat parameter vector: RMSProp (the paper's), plain SGD and Adam.

All three clip the global norm of the gradient and decay the rate by inverse time,
``learning_rate / (1 + decay * step)``, as the published runs did.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from lim2.representation.protocol import Array, State


class Optimizer(ABC):
    """What the optimizers share: the schedule, the clipping and the step count.

    Parameters
    ----------
    learning_rate
        Rate of the first step.
    decay
        The rate of step k (from 0) is ``learning_rate / (1 + decay * k)``; 0 keeps it constant.
    clip
        Largest global norm of a gradient; longer ones are scaled down to it. None: no clipping.
    """

    slots: ClassVar[dict[str, float]] = {}  # running statistics, one number a parameter, and where they start

    def __init__(self, learning_rate: float, decay: float = 0.0, clip: float | None = None) -> None:
        if not learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {learning_rate!r}")
        if not decay >= 0:
            raise ValueError(f"decay must be 0 or positive, got {decay!r}")
        if clip is not None and not clip > 0:
            raise ValueError(f"clip must be positive, or None for no clipping, got {clip!r}")
        self.learning_rate = float(learning_rate)
        self.decay = float(decay)
        self.clip = clip
        self.steps = 0
        self.statistics: dict[str, Array] = {}

    def bind(self, size: int) -> None:
        """Allocate the running statistics for ``size`` parameters."""
        self.statistics = {name: np.full(size, start) for name, start in self.slots.items()}

    def descend(self, parameters: Array, gradient: Array) -> None:
        """Move ``parameters`` one step against ``gradient``; both are changed in place."""
        if self.clip is not None:
            norm = math.sqrt(gradient @ gradient)
            if norm > self.clip:
                gradient *= self.clip / norm
        rate = self.learning_rate / (1.0 + self.decay * self.steps)
        self.steps += 1
        parameters -= self._direction(gradient, rate)

    @abstractmethod
    def _direction(self, gradient: Array, rate: float) -> Array:
        """Return what is subtracted from the parameters; may overwrite ``gradient``."""

    @property
    def nbytes(self) -> int:
        """Bytes of the running statistics."""
        return sum(s.nbytes for s in self.statistics.values())

    def state(self) -> State:
        """Return a copy of everything that changes from step to step."""
        return {"steps": np.array(self.steps), **{k: v.copy() for k, v in self.statistics.items()}}

    def restore(self, state: State) -> None:
        """Take over a state returned by :meth:`state`."""
        self.steps = int(state["steps"])
        self.statistics = {name: np.array(state[name], dtype=float) for name in self.slots}

    def __repr__(self) -> str:
        rates = f"learning_rate={self.learning_rate:g}, decay={self.decay:g}, clip={self.clip}"
        return f"{type(self).__name__}({rates})"


class RMSProp(Optimizer):
    """RMSProp with the settings of the published runs: mean squares start at 1 and are kept with factor 0.9."""

    slots: ClassVar[dict[str, float]] = {"mean_square": 1.0}

    def __init__(
        self,
        learning_rate: float = 0.1,
        decay: float = 0.05,
        clip: float | None = 5.0,
        keep: float = 0.9,
        epsilon: float = 1e-10,
    ) -> None:
        super().__init__(learning_rate, decay, clip)
        self.keep = keep
        self.epsilon = epsilon

    def _direction(self, gradient: Array, rate: float) -> Array:
        mean_square = self.statistics["mean_square"]
        mean_square *= self.keep
        mean_square += (1.0 - self.keep) * (gradient * gradient)
        gradient *= rate
        gradient /= np.sqrt(mean_square + self.epsilon)
        return gradient


class SGD(Optimizer):
    """Plain stochastic gradient descent."""

    def __init__(self, learning_rate: float = 0.01, decay: float = 0.0, clip: float | None = 5.0) -> None:
        super().__init__(learning_rate, decay, clip)

    def _direction(self, gradient: Array, rate: float) -> Array:
        gradient *= rate
        return gradient


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015) with bias correction."""

    slots: ClassVar[dict[str, float]] = {"mean": 0.0, "mean_square": 0.0}

    def __init__(
        self,
        learning_rate: float = 1e-3,
        decay: float = 0.0,
        clip: float | None = 5.0,
        keep: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, decay, clip)
        self.keep = keep
        self.epsilon = epsilon

    def _direction(self, gradient: Array, rate: float) -> Array:
        mean, mean_square = self.statistics["mean"], self.statistics["mean_square"]
        keep_mean, keep_square = self.keep
        mean *= keep_mean
        mean += (1.0 - keep_mean) * gradient
        mean_square *= keep_square
        mean_square += (1.0 - keep_square) * (gradient * gradient)
        scale = np.sqrt(mean_square / (1.0 - keep_square**self.steps)) + self.epsilon
        direction: Array = mean * (rate / (1.0 - keep_mean**self.steps)) / scale
        return direction
