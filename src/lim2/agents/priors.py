"""Where an arm's prior covariance comes from after the network has changed: the family's one real difference.

``Carried`` is LiM2's: what was believed under the old features, matched to the new ones. ``Fixed`` starts again from
I / precision every time, which is what MM, Naive and the full-memory version do.
"""

import numpy as np

from lim2.exploration.posterior import Array, Posterior, rank_one
from lim2.matching import Matching
from lim2.memory import Batch


class Fixed:
    """The prior covariance is always I / precision."""

    follows_features = False
    takes_evicted = False

    def __init__(self, posterior: Posterior, precision: float) -> None:
        cov = np.eye(posterior.mu.shape[1]) / precision
        self.covs: Array = np.broadcast_to(cov, posterior.cov.shape)
        self.nbytes = cov.nbytes

    def evict(self, arm: int, features: Array) -> None:
        """Forget a tuple that leaves the memory."""

    def match(self, batch: Batch, old: Array, new: Array, rounds: int) -> None:
        """Ignore a change of features."""

    def conditioned(self, features: Array) -> None:
        """Ignore that the posteriors have been refitted."""


class Carried:
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

    def __init__(self, posterior: Posterior, matching: Matching | None, recount: bool, precision: float) -> None:
        self.matching = matching
        self.recount = recount
        self.follows_features = matching is not None
        self.takes_evicted = not recount  # with recount it has been counted already
        # With recount the posterior's own covariances are the prior, and refitting overwrites them in place.
        self.covs: Array = posterior.cov if recount else posterior.cov.copy()
        self.nbytes = 0 if recount else self.covs.nbytes
        if matching is not None:
            matching.bind(np.full(len(self.covs), 1.0 / precision))

    def evict(self, arm: int, features: Array) -> None:
        """Take over a tuple that leaves the memory."""
        rank_one(self.covs[arm], features)
        if self.matching is not None:
            self.matching.conditioned(float(np.dot(features, features)), arm)

    def match(self, batch: Batch, old: Array, new: Array, rounds: int) -> None:
        """Match every arm's prior to the change of the batch's features from old to new."""
        if self.matching is not None:
            self.matching.step(self.covs, old, new, batch.groups, self.matching.rate / (rounds + 1))

    def conditioned(self, features: Array) -> None:
        """Note that the posteriors have been refitted, each on its part of these features."""
        if self.recount and self.matching is not None:
            flat = features.reshape(-1)
            self.matching.conditioned(float(np.dot(flat, flat)))
