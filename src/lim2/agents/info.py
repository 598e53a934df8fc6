"""What the latest update of an agent did, for those who watch it."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from lim2.exploration.posterior import Array
from lim2.matching import Groups, Matching


@dataclass(frozen=True)
class Info:
    """A record of the latest update; None where an agent has no such thing, or the update did not do it.

    Counts are since the agent was made, so that two records tell what happened in between.

    Parameters
    ----------
    rounds
        Updates so far, this one included.
    arm
        The arm that was updated.
    loss
        Mean squared error of the training batch, before the network's step.
    gradient_norm
        Norm of the gradient, before it was clipped.
    skipped
        Count of training steps left out because their gradient was not finite.
    drift
        How far the update moved the features of the training batch, relative to their size: root mean squares. Of
        ``TransportTS``: how far the network in training was from the settled one, over the batch, before its last step.
    residual
        How far the matched covariances are from giving the new features the variances that the old features had, over
        the training batch: root mean square of the differences, relative to that of the variances.
    projections
        Count of covariances that had to be projected back to the positive semi-definite ones.
    stored, evicted
        How many tuples the memory holds, and the count of those that have left it.
    refits
        Count of the rounds in which ``TransportTS`` carried its beliefs to new features and refitted them.
    widened
        Count of the rounds in which ``TransportTS`` made its priors wider, because its buffer did not bear them out.
    deferred
        Count of the refits in which ``TransportTS`` took its network's last layer for the means of its priors.
    """

    rounds: int
    arm: Any
    loss: float | None = None
    gradient_norm: float | None = None
    skipped: int | None = None
    drift: float | None = None
    residual: float | None = None
    projections: int | None = None
    stored: int | None = None
    evicted: int | None = None
    refits: int | None = None
    widened: int | None = None
    deferred: int | None = None

    def __repr__(self) -> str:
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        shown = (f"{name}={v:.4g}" if isinstance(v, float) else f"{name}={v!r}" for name, v in known if v is not None)
        return f"Info({', '.join(shown)})"


class Movement(NamedTuple):
    """The features of the latest training batch before and after; ``slots`` picks the batch's rows of ``new``."""

    old: Array
    new: Array
    slots: Any

    @property
    def after(self) -> Array:
        """The new features of the batch."""
        return self.new if self.slots is None else self.new.take(self.slots, axis=0)


class MatchingStep(NamedTuple):
    """What a matching step started from: kept so that it can be taken again when someone asks how well it did."""

    covs: Array
    groups: Groups
    rate: float


def drift(movement: Movement) -> float:
    """Return how far features moved, relative to their size.

    Examples
    --------
    >>> drift(Movement(np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]]), None))
    0.1
    """
    return _relative(movement.after - movement.old, movement.old)


def residual(movement: Movement, step: MatchingStep, matching: Matching) -> float:
    """Take a matching step again, on copies; return how far new variances are from the old ones, relative to these."""
    old, new = movement.old, movement.after
    again = Matching(
        matching.method, rate=matching.rate, clip=matching.clip, jitter=matching.jitter, ridge=matching.ridge
    )
    again.bind(np.zeros(len(step.covs)))
    matched = step.covs.copy()
    again.step(matched, old, new, step.groups, step.rate)
    wanted, got = np.empty((2, len(old)))
    for arm, rows in step.groups:
        wanted[rows] = np.vecdot(old[rows] @ step.covs[arm], old[rows])
        got[rows] = np.vecdot(new[rows] @ matched[arm], new[rows])
    return _relative(got - wanted, wanted)


def _relative(part: Array, whole: Array) -> float:
    size = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / size if size else float("nan")
