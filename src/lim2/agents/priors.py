"""Where an arm's prior covariance comes from after the network has changed: the family's one real difference.

``Carried`` is LiM2's: what was believed under the old features, matched to the new ones. ``Fixed`` starts again from
I / precision every time, which is what MM, Naive and the full-memory version do.
"""

from typing import Any, ClassVar

import numpy as np

from lim2._arrays import with_row, without_row
from lim2._state import Stateful
from lim2.agents.info import MatchingStep
from lim2.exploration.posterior import Array, Posterior, rank_one, relax
from lim2.matching import Matching
from lim2.memory import Batch


class Fixed(Stateful):
    """The prior covariance is always I / precision."""

    follows_features = False
    takes_evicted = False
    matching = None
    latest = None

    def __init__(self, width: int, precision: float) -> None:
        self._cov = np.eye(width) / precision

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        return self._cov.nbytes

    def note(self) -> None:
        """Return nothing: it never changes."""

    def undo(self, noted: None) -> None:
        """Put back nothing."""

    def evict(self, arm: int, features: Array) -> None:
        """Forget a tuple that leaves the memory."""

    def fade(self, keep: float) -> None:
        """Forget nothing: the prior holds nothing of the past."""

    def match(self, batch: Batch, old: Array, new: Array, rounds: int) -> None:
        """Ignore a change of features."""

    def cov(self, _arm: int, _posterior_cov: Array) -> Array:
        """Return the prior covariance of an arm."""
        return self._cov

    def conditioned(self, traces: Array) -> None:
        """Ignore that the posteriors are refitted."""

    def add_arm(self, like: int | None = None) -> None:
        """Have the same prior for one more arm."""

    def remove_arm(self, arm: int) -> None:
        """Have the same prior for one arm less."""


class Carried(Stateful):
    """The prior covariance carries what was believed before, matched to the features as they change.

    Parameters
    ----------
    posterior
        The beliefs that the prior is for.
    matching
        The matching step; None leaves it out.
    recount
        True, as in the paper: the posterior of the last round, buffer included, becomes the prior, and the buffer is
        added again. False: the prior takes over only what leaves the buffer, so that every tuple counts once.
    precision
        Where the prior starts.
    """

    _kept: ClassVar[tuple[str, ...]] = ("_own", "matching")  # the posterior is the agent's

    def __init__(self, posterior: Posterior, matching: Matching | None, recount: bool, precision: float) -> None:
        self.matching = matching
        self.recount = recount
        self.follows_features = matching is not None
        self.takes_evicted = not recount  # with recount it has been counted already
        self.precision = float(precision)
        self._posterior = posterior
        self.latest: MatchingStep | None = None  # what the latest matching step started from
        self._unmatched: Array | None = None  # its covariances
        self._own = None if recount else posterior.cov.copy()
        if matching is not None:
            matching.bind(np.full(len(posterior.cov), 1.0 / precision))

    @property
    def covs(self) -> Array:
        """The prior covariances; with recount the posterior's own, which refitting overwrites in place."""
        return self._posterior.cov if self._own is None else self._own

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are not the posterior's."""
        return 0 if self._own is None else self._own.nbytes

    def note(self) -> Any:
        """Return what :meth:`undo` needs to put the prior back as it is now; the posterior is noted by itself."""
        return None if self._own is None else self._own.copy(), None if self.matching is None else self.matching.note()

    def undo(self, noted: Any) -> None:
        """Put back what :meth:`note` returned."""
        self._own, bounds = noted
        if self.matching is not None:
            self.matching.undo(bounds)

    def evict(self, arm: int, features: Array) -> None:
        """Take over a tuple that leaves the memory."""
        rank_one(self.covs[arm], features)
        if self.matching is not None:
            self.matching.conditioned(float(np.dot(features, features)), arm)

    def fade(self, keep: float) -> None:
        """Let what is carried count less: every arm's precision moves towards where it started."""
        for cov in self.covs:
            relax(cov, keep, self.precision, out=cov)
        if self.matching is not None:
            self.matching.floor /= keep
            self.matching.conditioned((1.0 - keep) * self.precision)

    def match(self, batch: Batch, old: Array, new: Array, rounds: int) -> None:
        """Match every arm's prior to the change of the batch's features from old to new."""
        if self.matching is not None:
            rate = self.matching.rate / (rounds + 1)
            # Kept between rounds: as much memory, if asked for anew each time, costs several times the copy.
            if self._unmatched is None or self._unmatched.shape != self.covs.shape:
                self._unmatched = np.empty_like(self.covs)
            np.copyto(self._unmatched, self.covs)
            self.latest = MatchingStep(self._unmatched, batch.groups, rate)
            self.matching.step(self.covs, old, new, batch.groups, rate)

    def cov(self, arm: int, posterior_cov: Array) -> Array:
        """Return the prior covariance of an arm, which may be the posterior's own."""
        return posterior_cov if self._own is None else self._own[arm]

    def conditioned(self, traces: Array) -> None:
        """Note that each posterior was refitted on features Z with this trace of Z'Z."""
        if self.recount and self.matching is not None:
            self.matching.conditioned(traces)

    def add_arm(self, like: int | None = None) -> None:
        """Start a prior for one more arm, or carry that of another for it, too."""
        start = 1.0 / self._posterior.precision
        if self._own is not None:
            self._own = with_row(self._own, np.eye(self._own.shape[1]) * start if like is None else self._own[like])
        if self.matching is not None:
            self.matching.add_arm(start if like is None else float(self.matching.floor[like]))

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's prior; those after it move up."""
        if self._own is not None:
            self._own = without_row(self._own, arm)
        if self.matching is not None:
            self.matching.remove_arm(arm)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "latest": None, "_unmatched": None}
