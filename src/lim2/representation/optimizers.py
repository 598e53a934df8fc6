"""Gradient descent on a flat parameter vector: RMSProp (the paper's), plain SGD and Adam.

All three clip the global norm of the gradient and decay the rate by inverse time,
``learning_rate / (1 + decay * step)``, as the published runs did.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import blas

from lim2._arrays import OwnsArrays
from lim2._state import a_count, check_names, fitting
from lim2.representation.protocol import Array, State
from lim2.representation.skips import Skips

# Norm of a gradient that would throw the parameters so far off that features overflow before training is seen to fail.
LARGEST_UNCLIPPED = 1e30

_norm = blas.dnrm2


def _check(*, or_zero: bool = True, **setting: float) -> None:
    """Raise unless the one setting given is a positive, finite number."""
    ((name, value),) = setting.items()
    if not isinstance(value, Real) or not (value >= 0.0 if or_zero else value > 0.0) or not value < math.inf:
        raise ValueError(f"{name} must be {'0 or ' if or_zero else ''}positive and finite, got {value!r}")


def _check_keep(value: float) -> None:
    if not isinstance(value, Real) or not 0.0 <= value < 1.0:
        raise ValueError(f"keep must be from 0 up to, but not, 1, got {value!r}")


class Optimizer(OwnsArrays, ABC):
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

    slots: ClassVar[tuple[str, ...]] = ()  # running statistics, one number a parameter

    def __init__(self, learning_rate: float, decay: float = 0.0, clip: float | None = None) -> None:
        _check(learning_rate=learning_rate, or_zero=False)
        _check(decay=decay)
        if clip is not None:
            _check(clip=clip, or_zero=False)
        self.learning_rate = float(learning_rate)
        self.decay = float(decay)
        self.clip = clip
        self.steps = 0
        self.skips = Skips()
        self.gradient_norm = math.nan  # of the latest step, before clipping
        self.statistics: dict[str, Array] = {}

    def bind(self, size: int) -> None:
        """Allocate the running statistics for ``size`` parameters."""
        self.statistics = {name: np.full(size, self._start()) for name in self.slots}

    def resize(self, change: Callable[[Array, float], Array]) -> None:
        """Let every running statistic follow a change of the parameters; ``change`` is told where new ones start."""
        self.statistics = {name: change(values, self._start()) for name, values in self.statistics.items()}

    def _start(self) -> float:
        """Return where the running statistics start."""
        return 0.0

    def descend(self, parameters: Array, gradient: Array) -> None:
        """Move ``parameters`` one step against ``gradient``; both are changed in place.

        With a gradient that is not finite, or without clipping astronomic, the step is left out and counted; after
        many of them in a row it raises FloatingPointError.
        """
        norm = self.gradient_norm = float(_norm(gradient))
        if not norm < (LARGEST_UNCLIPPED if self.clip is None else math.inf):
            advice = f"Lower learning_rate ({self.learning_rate:g}), set clip, or scale contexts and rewards."
            self.skips.skip(norm, advice)
            return
        self.skips.in_a_row = 0
        if self.clip is not None and norm > self.clip:
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

    def settings(self) -> dict[str, Any]:
        """Return what it was made with, by the names of the arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def state(self) -> State:
        """Return a copy of everything that changes from step to step."""
        skips = np.array([self.skips.total, self.skips.in_a_row])
        return {"steps": np.array(self.steps), "skips": skips, **{k: v.copy() for k, v in self.statistics.items()}}

    def restore(self, state: State) -> None:
        """Take over a state returned by :meth:`state`."""
        check_names(state, ("steps", "skips", *self.slots))
        steps, skips = fitting(state["steps"], np.array(0)), fitting(state["skips"], np.zeros(2, dtype=np.int64))
        statistics = {name: fitting(state[name], self.statistics[name]) for name in self.slots}
        self.steps, self.statistics = a_count(int(steps)), statistics
        self.skips.total, self.skips.in_a_row = (a_count(int(count)) for count in skips)

    def __repr__(self) -> str:
        changing = ("steps", "skips", "gradient_norm", "statistics")
        shown = {k: v for k, v in self.__dict__.items() if k not in changing}
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in shown.items())})"


class RMSProp(Optimizer):
    """RMSProp with the settings of the published runs.

    Parameters
    ----------
    learning_rate, decay, clip
        As for every optimizer; the defaults are the published ones.
    keep
        What is kept of the running mean of squared gradients in a step.
    start
        Where that mean starts.
    epsilon
        Added to it under the root.
    """

    slots: ClassVar[tuple[str, ...]] = ("mean_square",)

    def __init__(
        self,
        learning_rate: float = 0.1,
        decay: float = 0.05,
        clip: float | None = 5.0,
        keep: float = 0.9,
        start: float = 1.0,
        epsilon: float = 1e-10,
    ) -> None:
        super().__init__(learning_rate, decay, clip)
        _check_keep(keep)
        _check(start=start)
        _check(epsilon=epsilon, or_zero=False)
        self.keep, self.start, self.epsilon = float(keep), float(start), float(epsilon)

    def _start(self) -> float:
        return self.start

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

    slots: ClassVar[tuple[str, ...]] = ("mean", "mean_square")

    def __init__(
        self,
        learning_rate: float = 1e-3,
        decay: float = 0.0,
        clip: float | None = 5.0,
        keep: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, decay, clip)
        for share in keep:
            _check_keep(share)
        _check(epsilon=epsilon, or_zero=False)
        self.keep, self.epsilon = (float(keep[0]), float(keep[1])), float(epsilon)

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
