"""Published confidence sequences, as the package confseq has them; it is no dependency, since it must be compiled.

`gamma_exponential_log_mixture`: Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic
confidence sequences", 2021, proposition 9 (there in terms of s, v, c and rho).
`predictable_mixture`: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", theorem 2,
with the tuning of section 3.2.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]


def gamma_exponential_log_mixture(s: float, v: float, c: float, rho: float) -> float:
    """Logarithm of the mixture of exp(b s - psi(b) v) over bets b in [0, 1 / c)."""
    shape, later = rho / c**2, (v + rho) / c**2
    leading = shape * math.log(shape) - special.gammaln(shape) - math.log(special.gammainc(shape, shape))
    place = (c * s + v + rho) / c**2
    return float(
        leading
        + special.gammaln(later)
        + math.log(special.gammainc(later, place))
        - later * math.log(place)
        + (c * s + v) / c**2
    )


def gamma_exponential_density(b: Array, c: float, rho: float) -> Array:
    """Density of the bets, up to a constant, of that mixture: a gamma density in 1 / c - b, truncated."""
    shape = rho / c**2
    density: Array = (1 - c * b) ** (shape - 1) * np.exp(-shape * (1 - c * b))
    return density


def predictable_mixture(x: Array, alpha: float) -> tuple[Array, Array]:
    """Confidence sequence of the mean of terms in [0, 1], at every number of terms."""
    return _lower(x, alpha / 2), 1 - _lower(1 - x, alpha / 2)


def _lower(x: Array, alpha: float) -> Array:
    t = np.arange(1, len(x) + 1)
    regularised = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - regularised) ** 2)) / (t + 1)
    before = np.append(0.25, variance[:-1])
    bets = np.minimum(np.sqrt(2 * math.log(1 / alpha) / (before * t * np.log(1 + t))), 0.5)
    mean = np.append(0.0, (np.cumsum(x) / t)[:-1])
    cost = (x - mean) ** 2 * (-np.log(1 - bets) - bets)
    lower: Array = (np.cumsum(bets * x) - math.log(1 / alpha) - np.cumsum(cost)) / np.cumsum(bets)
    return lower
