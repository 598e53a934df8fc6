"""What the latest update of an agent did, for those who watch it."""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Info:
    """A record of the latest update; None where an algorithm has no such thing, or the update did not do it.

    Counts are since the agent was made, so the difference of two records counts what happened in between.

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
        How far the update moved the features of the training batch, relative to their size: root mean squares.
    residual
        How far the matched covariances are from giving the new features the variances that the old features had, over
        the training batch: root mean square of the differences, relative to that of the variances.
    projections
        Count of covariances that had to be projected back to the positive semi-definite ones.
    stored, evicted
        How many tuples the memory holds, and the count of those that have left it.
    refits
        Count of the rounds in which ``AdaptiveTS`` refitted its beliefs to new features.
    changes
        Count of the changes that ``AdaptiveTS`` has detected.
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
    changes: int | None = None

    def __repr__(self) -> str:
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        shown = (f"{name}={v:.4g}" if isinstance(v, float) else f"{name}={v!r}" for name, v in known if v is not None)
        return f"Info({', '.join(shown)})"
