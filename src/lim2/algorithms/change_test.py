"""The change test: whether recent rewards contradict what was learned before them."""

import numpy as np
from numpy.typing import NDArray

from lim2.exploration.evidence import Data, faded, log_evidence
from lim2.exploration.roots import RootPosterior
from lim2.exploration.transported import refit

FACTORS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)  # by which what was learned before may count less


def after_change(
    prior: RootPosterior, data: Data, recent: NDArray[np.bool_], start: RootPosterior, threshold: float
) -> RootPosterior | None:
    """Return what should be believed before the recent tuples if the problem has changed; None if it has not.

    Beliefs from the prior and the older tuples predict the recent rewards. If these are likelier by more than
    ``threshold`` in log density, all arms together, when what was learned before counts less, then it does: by the
    factor under which they are likeliest.

    Parameters
    ----------
    prior
        What is believed before all tuples.
    data, recent
        The tuples, and which of them came since the last test.
    start
        What is believed of a new arm.
    threshold
        By how much the log density must be larger.
    """
    n_arms = len(prior.a)
    older, newer = data.of(~recent), data.of(recent)
    before = refit(prior, older.features, older.rewards, older.bounds(n_arms))
    learned = before.a > start.a[0]
    gains = log_evidence(before, np.flatnonzero(learned), newer, FACTORS)
    best = int(gains.argmax())
    if not gains[best] - gains[0] > threshold:
        return None
    forgot = faded(before, start, FACTORS[best])
    parts = (
        np.where(learned.reshape(-1, *(1,) * (new.ndim - 1)), new, old) for new, old in zip(forgot, before, strict=True)
    )
    return RootPosterior(*parts)
