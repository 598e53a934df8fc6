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
    """What changes from step to step: running statistics of the gradient, and counts."""

    statistics: Annotated[Array, "statistic p"]  # as many rows as the optimizer has running statistics
    steps: Count = 0
    skipped: Count = 0  # steps left out because their gradient was not finite
    skipped_in_a_row: Count = 0


class Optimizer(Protocol):
    """What an optimizer must offer: its schedule, and the direction of a step."""

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
        """Return where each running statistic starts."""
        ...

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:
        """Return what is subtracted from the parameters in step number ``steps`` (from 1), and the new statistics.

        May overwrite ``gradient``.
        """
        ...


def begin(optimizer: Optimizer, size: int) -> Descent:
    """Return where a descent over ``size`` parameters starts."""
    return Descent(np.repeat(np.array(optimizer.initial(), dtype=np.float64)[:, None], size, axis=1))


def descend(optimizer: Optimizer, descent: Descent, parameters: Array, gradient: Array) -> tuple[Array, Descent, float]:
    """Return the parameters after one step against ``gradient``, which is overwritten; the descent; the norm.

    With a gradient that is not finite, or without clipping astronomic, the step is left out and counted; after many of
    them in a row it raises FloatingPointError.
    """
    norm = float(_norm(gradient))
    clip = optimizer.clip
    if not norm < (LARGEST_UNCLIPPED if clip is None else math.inf):
        advice = f"Lower learning_rate ({optimizer.learning_rate:g}), set clip, or scale contexts and rewards."
        return parameters, skip(descent, norm, advice), norm
    if clip is not None and norm > clip:
        gradient *= clip / norm
    steps = descent.steps + 1
    rate = optimizer.learning_rate / (1.0 + optimizer.decay * descent.steps)
    direction, statistics = optimizer.direction(gradient, rate, descent.statistics, steps)
    return parameters - direction, Descent(statistics, steps, descent.skipped, 0), norm


def skip(descent: Descent, norm: float, advice: str) -> Descent:
    """Leave a step out and count it; FloatingPointError if there were too many in a row.

    One bad batch must not stop an agent that serves: its step is left out, with a warning, and the rest of the update
    happens. A network that cannot take a step any more is an error.
    """
    in_a_row = descent.skipped_in_a_row
    if in_a_row >= PATIENCE:
        raise FloatingPointError(
            f"training diverged: the gradient's norm is {norm:.3g}, and the {PATIENCE} steps before could not be "
            f"taken either. {advice}"
        )
    if (in_a_row + 1) & in_a_row == 0:  # the 1st, 2nd, 4th, ... in a row
        _logger.warning(
            "a training step was left out, number %d in a row: its gradient's norm is %.3g. %s",
            in_a_row + 1, norm, advice,
        )  # fmt: skip
    return descent._replace(skipped=descent.skipped + 1, skipped_in_a_row=in_a_row + 1)


def check_descent(optimizer: Optimizer, descent: Descent) -> None:
    """Raise a ValueError if no steps of an optimizer lead to a loaded descent."""
    largest = LARGEST_UNCLIPPED if optimizer.clip is None else optimizer.clip
    for name, values in zip(optimizer.statistics, descent.statistics, strict=True):
        least, most = (0.0, max(largest**2, *optimizer.initial())) if name == "mean_square" else (-largest, largest)
        if not (values >= least).all() or not (values <= most * (1.0 + 1e-9)).all():
            raise ValueError(f"the optimizer's {name} must be from {least:g} to {most:g}")
    if descent.skipped_in_a_row > min(descent.skipped, PATIENCE):
        raise ValueError(f"{descent.skipped_in_a_row} steps in a row cannot have been left out")


def _check(name: str, value: float, *, or_zero: bool = True) -> None:
    """Raise unless a setting is a positive, finite number."""
    if not isinstance(value, Real) or not (value >= 0.0 if or_zero else value > 0.0) or not value <= LARGEST_SETTING:
        raise ValueError(f"{name} must be {'0 or ' if or_zero else ''}positive and finite, got {value!r}")


def _check_keep(value: float) -> None:
    if not isinstance(value, Real) or not 0.0 <= value < 1.0:
        raise ValueError(f"keep must be from 0 up to, but not, 1, got {value!r}")


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
        The rate of step k (from 0) is ``learning_rate / (1 + decay * k)``; 0 keeps it constant.
    clip
        Largest global norm of a gradient; longer ones are scaled down to it. None: no clipping.
    keep
        What is kept of the running mean of squared gradients in a step.
    start
        Where that mean starts.
    epsilon
        Added to it under the root.
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
        """Return where the mean of squared gradients starts."""
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
    """Plain stochastic gradient descent; the settings are as for :class:`RMSProp`."""

    learning_rate: float = 0.01
    decay: float = 0.0
    clip: float | None = 5.0

    statistics: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check_schedule(self)

    def initial(self) -> list[float]:
        """Return nothing: it has no running statistics."""
        return []

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:  # noqa: ARG002
        """Return the step."""
        gradient *= rate
        return gradient, statistics


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with bias correction; the schedule is as for :class:`RMSProp`."""

    learning_rate: float = 1e-3
    decay: float = 0.0
    clip: float | None = 5.0
    keep: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    statistics: ClassVar[tuple[str, ...]] = ("mean", "mean_square")

    def __post_init__(self) -> None:
        _check_schedule(self)
        if len(self.keep) != 2:
            raise ValueError(f"keep must be two shares, of the mean and of the mean square, got {self.keep!r}")
        for share in self.keep:
            _check_keep(share)
        _check("epsilon", self.epsilon, or_zero=False)

    def initial(self) -> list[float]:
        """Return where the means of gradients and of their squares start."""
        return [0.0, 0.0]

    def direction(self, gradient: Array, rate: float, statistics: Array, steps: int) -> tuple[Array, Array]:
        """Return the step, and the new means of gradients and of their squares."""
        keep_mean, keep_square = self.keep
        mean = keep_mean * statistics[0] + (1.0 - keep_mean) * gradient
        mean_square = keep_square * statistics[1] + (1.0 - keep_square) * (gradient * gradient)
        scale = np.sqrt(mean_square / (1.0 - keep_square**steps)) + self.epsilon
        step: Array = mean * (rate / (1.0 - keep_mean**steps)) / scale
        return step, np.stack((mean, mean_square))
