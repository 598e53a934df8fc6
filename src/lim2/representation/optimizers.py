"""Gradient descent on a flat parameter vector: RMSProp (the paper's), plain SGD and Adam.

All three clip the global norm of the gradient and decay the rate by inverse time,
``learning_rate / (1 + decay * step)``, as the published runs did. An optimizer holds settings only: what changes from
step to step is a :class:`Descent`, a value.
"""

import logging
import math
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.linalg import blas

from lim2.state import Array, Count

# Norm of a gradient that would move the parameters so far that features overflow before training is seen to fail.
LARGEST_UNCLIPPED = 1e30

# After so many skipped steps in a row the network is beyond recovery, and going on would hide it.
PATIENCE = 100

LARGEST_SETTING = 1e30

_norm = blas.dnrm2
_logger = logging.getLogger("lim2")


class Descent(NamedTuple):
    """State of an optimizer: running statistics of the gradient, and counts."""

    statistics: Annotated[Array, "statistic p"]  # as many rows as the optimizer has running statistics
    steps: Count = 0
    skipped: Count = 0  # steps left out because their gradient was not finite
    skipped_in_a_row: Count = 0


class Optimizer(Protocol):
    """Interface of an optimizer: its schedule, and the direction of a step."""

    statistics: ClassVar[tuple[str, ...]]  # the name of each running statistic

    @property
    def learning_rate(self) -> float:
        """Rate of the first step."""
        ...

    @property
    def decay(self) -> float:
        """The rate of step k (from 0) is ``learning_rate / (1 + decay * k)``."""
        ...

    @property
    def clip(self) -> float | None:
        """Largest global norm of a gradient; longer ones are scaled down to it. None: no clipping."""
        ...

    def initial(self) -> list[float]:
        """Return the initial value of each running statistic."""
        ...

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:
        """Return the vector to subtract from the parameters in step ``steps`` (from 1), and the new statistics.

        It may overwrite ``gradient``.
        """
        ...


def begin(optimizer: Optimizer, size: int) -> Descent:
    """Return the initial state for ``size`` parameters."""
    return Descent(np.repeat(np.array(optimizer.initial(), dtype=np.float64)[:, None], size, axis=1))


def descend(optimizer: Optimizer, descent: Descent, parameters: Array, gradient: Array) -> tuple[Array, Descent, float]:
    """Return the parameters after one step, the new state and the gradient norm; ``gradient`` is overwritten.

    If the gradient is not finite, or huge without clipping, the step is skipped and counted. Too many skipped steps in
    a row raise a FloatingPointError.
    """
    norm = float(_norm(gradient))
    skipped, clip = left_out(optimizer, descent, norm), optimizer.clip
    if skipped is not None:
        return parameters, skipped, norm
    if clip is not None and norm > clip:
        gradient *= clip / norm
    steps = descent.steps + 1
    direction, statistics = optimizer.direction(gradient, rate_of(optimizer, descent), descent.statistics, steps)
    return parameters - direction, Descent(statistics, steps, descent.skipped, 0), norm


def rate_of(optimizer: Optimizer, descent: Descent) -> float:
    """Return the rate of the next step."""
    return optimizer.learning_rate / (1.0 + optimizer.decay * descent.steps)


def left_out(optimizer: Optimizer, descent: Descent, norm: float) -> Descent | None:
    """Return the state after a step that is skipped because of the norm of its gradient; None if it is not."""
    if norm < (LARGEST_UNCLIPPED if optimizer.clip is None else math.inf):
        return None
    advice = f"Lower learning_rate ({optimizer.learning_rate:g}), set clip, or scale contexts and rewards."
    return skip(descent, norm, advice)


def skip(descent: Descent, norm: float, advice: str) -> Descent:
    """Skip a step and count it; raise a FloatingPointError if there were too many in a row.

    One bad batch must not stop a deployed agent: its step is skipped with a warning, and the update continues. A
    network that cannot be trained any more is an error.
    """
    in_a_row = descent.skipped_in_a_row
    if in_a_row >= PATIENCE:
        raise FloatingPointError(
            f"training diverged: the gradient's norm is {norm:.3g}, and the {PATIENCE} steps before were skipped, "
            f"too. {advice}"
        )
    if (in_a_row + 1) & in_a_row == 0:  # the 1st, 2nd, 4th, ... in a row
        _logger.warning(
            "a training step was left out, number %d in a row: its gradient's norm is %.3g. %s",
            in_a_row + 1, norm, advice,
        )  # fmt: skip
    return descent._replace(skipped=descent.skipped + 1, skipped_in_a_row=in_a_row + 1)


def check_descent(optimizer: Optimizer, descent: Descent) -> None:
    """Raise a ValueError if a loaded state cannot result from this optimizer."""
    largest = LARGEST_UNCLIPPED if optimizer.clip is None else optimizer.clip
    for name, values in zip(optimizer.statistics, descent.statistics, strict=True):
        low, high = (0.0, max(largest**2, *optimizer.initial())) if name == "mean_square" else (-largest, largest)
        if not (values >= low).all() or not (values <= high * (1.0 + 1e-9)).all():
            raise ValueError(f"the optimizer's {name} must be from {low:g} to {high:g}")
    if descent.skipped_in_a_row > min(descent.skipped, PATIENCE):
        raise ValueError(f"the optimizer cannot have skipped {descent.skipped_in_a_row} steps in a row")


def _check(name: str, value: float, *, or_zero: bool = True) -> None:
    """Raise a ValueError unless a setting is a positive, finite number."""
    if not isinstance(value, Real) or not (value >= 0.0 if or_zero else value > 0.0) or not value <= LARGEST_SETTING:
        raise ValueError(f"{name} must be {'0 or ' if or_zero else ''}positive and finite, got {value!r}")


def _check_keep(value: float) -> None:
    if not isinstance(value, Real) or not 0.0 <= value < 1.0:
        raise ValueError(f"keep must be at least 0 and below 1, got {value!r}")


def _check_schedule(optimizer: Optimizer) -> None:
    _check("learning_rate", optimizer.learning_rate, or_zero=False)
    _check("decay", optimizer.decay)
    if optimizer.clip is not None:
        _check("clip", optimizer.clip, or_zero=False)


@dataclass(frozen=True)
class RMSProp:
    """RMSProp with the settings of the published runs.

    Parameters
    ----------
    learning_rate
        Rate of the first step.
    decay
        Decay of the rate: step k (from 0) has the rate ``learning_rate / (1 + decay * k)``. 0: constant rate.
    clip
        Largest global norm of a gradient; larger gradients are scaled down to it. None: no clipping.
    keep
        Decay factor of the running mean of squared gradients.
    start
        Initial value of the running mean.
    epsilon
        Constant added to the running mean under the square root.
    """

    learning_rate: float = 0.1
    decay: float = 0.05
    clip: float | None = 5.0
    keep: float = 0.9
    start: float = 1.0
    epsilon: float = 1e-10

    statistics: ClassVar[tuple[str, ...]] = ("mean_square",)

    def __post_init__(self) -> None:
        _check_schedule(self)
        _check_keep(self.keep)
        _check("start", self.start)
        _check("epsilon", self.epsilon, or_zero=False)

    def initial(self) -> list[float]:
        """Return the initial mean of squared gradients."""
        return [self.start]

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:  # noqa: ARG002
        """Return the step, and the new mean of squared gradients."""
        new = self.keep * statistics
        new += (1.0 - self.keep) * (gradient * gradient)
        gradient *= rate
        gradient /= np.sqrt(new[0] + self.epsilon)
        return gradient, new


@dataclass(frozen=True)
class SGD:
    """Plain stochastic gradient descent, with the settings of :class:`RMSProp`."""

    learning_rate: float = 0.01
    decay: float = 0.0
    clip: float | None = 5.0

    statistics: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check_schedule(self)

    def initial(self) -> list[float]:
        """Return an empty list: SGD has no running statistics."""
        return []

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:  # noqa: ARG002
        """Return the step."""
        gradient *= rate
        return gradient, statistics


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with bias correction, with the schedule of :class:`RMSProp`."""

    learning_rate: float = 1e-3
    decay: float = 0.0
    clip: float | None = 5.0
    keep: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    statistics: ClassVar[tuple[str, ...]] = ("mean", "mean_square")

    def __post_init__(self) -> None:
        _check_schedule(self)
        if len(self.keep) != 2:
            raise ValueError(f"keep must be two decay factors, of the mean and of the mean square, got {self.keep!r}")
        for share in self.keep:
            _check_keep(share)
        _check("epsilon", self.epsilon, or_zero=False)

    def initial(self) -> list[float]:
        """Return the initial means of gradients and of their squares."""
        return [0.0, 0.0]

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:
        """Return the step, and the new means of gradients and of their squares."""
        keep_mean, keep_square = self.keep
        mean = keep_mean * statistics[0] + (1.0 - keep_mean) * gradient
        mean_square = keep_square * statistics[1] + (1.0 - keep_square) * (gradient * gradient)
        scale = np.sqrt(mean_square / (1.0 - keep_square**steps)) + self.epsilon
        step: Array = mean * (rate / (1.0 - keep_mean**steps)) / scale
        return step, np.stack((mean, mean_square))
