"""The change test: whether recent rewards contradict what was learned before them."""

import numpy as np

from lim2.exploration.evidence import Data, faded, log_evidence, of_arms
from lim2.exploration.refit import refit
from lim2.exploration.roots import RootPosterior

FACTORS = (1.0, 16.0, 256.0)  # by which what was learned before may count less


def before_recent(
    prior: RootPosterior, older: Data, recent: Data, start: RootPosterior, threshold: float
) -> tuple[RootPosterior, bool]:
    """Return what should be believed before the recent tuples, and whether the problem has changed.

    Beliefs from the prior and the older tuples predict the recent rewards. If these are likelier by more than
    ``threshold`` in log density, all arms together, when what was learned before counts less, then it does: by the
    factor under which they are likeliest.

    Parameters
    ----------
    prior
        What is believed before all tuples.
    older, recent
        The tuples before and after the last test.
    start
        What is believed of a new arm.
    threshold
        By how much the log density must be larger.
    """
    before = refit(prior, older.features, older.rewards, older.bounds(len(prior.a)))
    learned = before.a > start.a[0]
    densities = log_evidence(before, np.flatnonzero(learned), recent, FACTORS)
    best = int(densities.argmax())
    if not densities[best] - densities[0] > threshold:
        return before, False
    forgot = faded(before, start, FACTORS[best])
    return RootPosterior(*(of_arms(learned, *pair) for pair in zip(forgot, before, strict=True))), True
