"""Doubt: whether the tuples in the buffer bear out what has left it."""

import math

import numpy as np

from lim2.exploration import TransportedPosterior
from lim2.exploration.posterior import Array
from lim2.memory import Buffer

WIDER = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])  # how much wider priors may become at a time
FEWEST = 10  # tuples that can tell


def widening(prior: TransportedPosterior, memory: Buffer, features: Array, b: Array, surprise: float) -> float:
    """Return by how much wider priors should be, going by the buffer; 1 if it bears them out.

    Would what is older in the buffer have told better what is newer, had the priors given way more easily?

    Parameters
    ----------
    prior
        What has left the buffer.
    memory, features
        The buffer, and the features of its contexts.
    b
        (n_arms,), what each prior believes of the noise.
    surprise
        How many standard errors the gain in likelihood must be, tuple by tuple, to be believed.
    """
    by_age = np.argsort(memory.stamps, kind="stable")
    told = [np.empty((0, len(WIDER)))]
    for arm in prior.seen:
        rows = by_age[memory.arms[by_age] == arm]
        older, newer = ((features[part], memory.rewards[part]) for part in np.split(rows, [len(rows) // 2]))
        told.append(prior.foresight(arm, older, newer, WIDER, b[arm]))
    likelihoods = np.concatenate(told)
    gains = likelihoods - likelihoods[:, :1]
    best = int(gains.mean(axis=0).argmax()) if len(gains) >= FEWEST else 0
    gain = gains[:, best]
    sure = gain.mean() > surprise * gain.std(ddof=1) / math.sqrt(len(gain)) if best else False
    return float(WIDER[best]) if sure else 1.0
