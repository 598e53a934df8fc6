"""ThompsonSampling in plain NumPy: all rewards are kept, and every posterior is computed from all."""

from itertools import pairwise

import numpy as np
from scipy import integrate, stats

from .network import Array


class OracleThompsonSampling:
    """Beta posteriors while all rewards are 0 or 1; else the posterior of a normal mean with unknown variance."""

    def __init__(self, n_arms: int) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(n_arms)]

    def update(self, arm: int, reward: float) -> None:
        """Keep a reward."""
        self.rewards[arm].append(reward)

    def posteriors(self) -> list[stats.rv_continuous]:
        """Return the posterior of each arm's mean reward."""
        everything = np.concatenate([np.array(own, dtype=float) for own in self.rewards])
        if all(reward in (0.0, 1.0) for reward in everything):
            return [stats.beta(1 + own.count(1.0), 1 + own.count(0.0)) for own in self.rewards]
        m, v = everything.mean(), everything.var()
        if np.all(everything == everything[0]):  # which rounding would hide
            m, v = everything[0], everything[0] ** 2
        return [self.normal(np.array(own, dtype=float), m, v) for own in self.rewards]

    def normal(self, own: Array, m: float, v: float) -> stats.rv_continuous:
        """Return the posterior of a mean under the prior NormalInverseGamma(m, 1, 10 / 2, 10 v / 2)."""
        n = len(own)
        average = own.mean() if n else 0.0
        kappa, a = 1.0 + n, 5.0 + n / 2
        b = 5.0 * v + ((own - average) ** 2).sum() / 2 + n * (average - m) ** 2 / (2 * kappa)
        return stats.t(2 * a, loc=(m + n * average) / kappa, scale=np.sqrt(b / (a * kappa)))

    def propensities(self) -> list[float]:
        """Return the probability that a draw from each posterior is the largest."""
        beliefs = self.posteriors()
        points = sorted(
            {float(q) for belief in beliefs for q in belief.ppf([1e-9, 0.001, 0.2, 0.5, 0.8, 0.999, 1 - 1e-9])}
        )
        chances = []
        for i, belief in enumerate(beliefs):
            others = [other for j, other in enumerate(beliefs) if j != i]

            def of_x(
                x: float, belief: stats.rv_continuous = belief, others: list[stats.rv_continuous] = others
            ) -> float:
                return float(belief.pdf(x) * np.prod([other.cdf(x) for other in others]))

            parts = [integrate.quad(of_x, low, high, epsabs=1e-12)[0] for low, high in pairwise(points)]
            chances.append(float(sum(parts)))
        return chances
