"""Change detection: whether the tuples in the buffer contradict what has left it."""

import math

import numpy as np

from lim2.exploration.roots import RootPosterior
from lim2.exploration.transported import predictive_log_density
from lim2.state import Array, Ints

FACTORS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])  # by which prior covariances may be inflated at a time
FEWEST = 10  # rewards that a test needs


def inflation(
    prior: RootPosterior, arms: Ints, b: Array, data: tuple[Array, Array, list[int]], threshold: float
) -> float:
    """Return by which factor prior covariances should be multiplied; 1 where no change is detected.

    Would the older half of each arm's tuples have predicted the newer half better, had the priors been wider? The log
    densities of all newer rewards are compared with those under the priors as they are.

    Parameters
    ----------
    prior, arms
        What has left the buffer, and the arms of which something has.
    b
        (n_arms,), of the noise.
    data
        Features and rewards of the tuples in the buffer, sorted by arm and age, and their bounds.
    threshold
        By how many standard errors the mean gain must exceed 0.
    """
    z, r, bounds = data
    densities = [np.empty((0, len(FACTORS)))]
    for arm in arms:
        first, last = bounds[arm], bounds[arm + 1]
        if first < last:
            older, newer = slice(first, (first + last) // 2), slice((first + last) // 2, last)
            rows = (z[older], r[older]), (z[newer], r[newer])
            densities.append(predictive_log_density(prior, arm, *rows, FACTORS, b[arm]))
    gains = np.concatenate(densities)
    gains -= gains[:, :1].copy()
    best = int(gains.mean(axis=0).argmax()) if len(gains) >= FEWEST else 0
    gain = gains[:, best]
    detected = best and gain.mean() > threshold * gain.std(ddof=1) / math.sqrt(len(gain))
    return float(FACTORS[best]) if detected else 1.0
