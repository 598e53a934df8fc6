"""Diagnostics of the latest update of an agent."""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Info:
    """Diagnostics of the latest update. A field is None if the algorithm does not have it or the update did not set it.

    Counts are cumulative since the agent was made. Subtract two records to count what happened in between.

    Parameters
    ----------
    rounds
        Number of updates so far, including this one.
    arm
        The arm that was updated.
    loss
        Mean squared error of the training batch, before the network's step.
    gradient_norm
        Norm of the gradient before clipping.
    skipped
        Number of training steps skipped because their gradient was not finite.
    drift
        Root mean square change of the features of the training batch, relative to their root mean square. For
        ``AdaptiveTS``: of stored contexts, when a refit takes over new features and scales.
    residual
        Matching error: root mean square difference between the variances under the new features and those under the old
        features, over the training batch, relative to the root mean square of the variances.
    projections
        Number of covariances that were projected back onto the positive semi-definite cone.
    stored
        Number of tuples in memory.
    evicted
        Number of tuples evicted so far.
    refits
        Number of rounds in which ``AdaptiveTS`` refitted its posterior to new features.
    changes
        Number of changes that ``AdaptiveTS`` has detected.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LiM2(n_arms=2, n_features=1, seed=0)
    >>> for _ in range(3):
    ...     agent.update([1.0], 0, 1.0)
    >>> agent.info.rounds, agent.info.arm, agent.info.stored, agent.info.evicted
    (3, 0, 3, 0)
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
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        shown = (f"{name}={v:.4g}" if isinstance(v, float) else f"{name}={v!r}" for name, v in values if v is not None)
        return f"Info({', '.join(shown)})"
