"""A rival for the worlds: LinearTS(scaled=True) as it was in lim2 0.2, frozen, in plain NumPy.

It stays a yardstick when the agent itself changes. It plays on its own:
``lim2 bench --problems clicks --agents tests.oracle.reference_linear:ReferenceLinear``.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

A0 = 15.0  # the noise variance starts at InvGamma(A0, A0 s^2)
TURNS = 24  # at the start, of all arms together
TEMPERATURE, OPTIMISM = 0.1, 0.4  # a score is drawn as mean + scale * (OPTIMISM + TEMPERATURE * t)
EVERY_UP_TO, GROWTH = 16, 1.05  # scales are renewed after each of so many rewards, then when they are 5% more
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


class ReferenceLinear:
    """Bayesian linear regression per arm, in the running scales of columns and rewards.

    Sums over the data are kept about the first context and the first reward. When the scales are renewed, all beliefs
    are solved for from them; in between, a reward is a rank-one update of one arm.
    """

    def __init__(self, n_arms: int, n_features: int, seed: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.n_arms, self.d = n_arms, n_features
        self.turns = n_arms * max(TURNS // n_arms, 2)
        self.decisions = 0
        width = n_features + 1
        self.origin, self.first = np.zeros(n_features), 0.0
        self.gram, self.cross = np.zeros((n_arms, width, width)), np.zeros((n_arms, width))
        self.squares, self.count = np.zeros(n_arms), np.zeros(n_arms)
        self.offset, self.spread = np.zeros(n_features), np.zeros(n_features)  # running moments of contexts
        self.reward_offset, self.reward_spread = 0.0, 0.0  # and of rewards
        self.renewed = 0.0
        self.rescale()

    @property
    def rounds(self) -> float:
        """Number of rewards so far."""
        return float(self.count.sum())

    def act(self, context: ArrayLike, draws: Array | None = None) -> int:
        """Take turns at the start; then draw a score for every arm and play the largest."""
        self.decisions += 1
        if self.decisions <= self.turns:
            return (self.decisions - 1) % self.n_arms
        mean, scale, freedom = self.scores(context)
        t = self.rng.standard_t(freedom) if draws is None else draws
        return int(np.argmax(mean + scale * (OPTIMISM + TEMPERATURE * t)))

    def scores(self, context: ArrayLike) -> tuple[Array, Array, Array]:
        """Return location, scale and degrees of freedom of every arm's score."""
        z = self.features(np.asarray(context, dtype=np.float64))
        variance = np.einsum("i,aij,j->a", z, self.cov, z)
        return self.centre + self.mu @ z, np.sqrt(np.maximum(variance, 0.0) * self.b / self.a), 2.0 * self.a

    def features(self, x: Array) -> Array:
        """Return the scaled columns, 0 where a column has not varied, and a constant 1."""
        return np.append(np.clip((x - self.mean) * self.factor, -self.limit, self.limit), 1.0)

    def update(self, context: ArrayLike, arm: int, reward: float) -> None:
        """Add a tuple; renew the scales if they are out of date."""
        x = np.array(context, dtype=np.float64)
        if not self.rounds:
            self.origin, self.first = x, reward
        row, r = np.append(x - self.origin, 1.0), reward - self.first
        self.gram[arm] += np.outer(row, row)
        self.cross[arm] += r * row
        self.squares[arm] += r * r
        self.count[arm] += 1.0
        n = self.rounds
        step, reward_step = row[:-1] - self.offset, r - self.reward_offset
        self.offset = self.offset + step / n
        self.spread = self.spread + step * (row[:-1] - self.offset)
        self.reward_offset += reward_step / n
        self.reward_spread += reward_step * (r - self.reward_offset)
        distance = x - self.mean
        fits = bool((np.abs(distance) * self.factor <= self.limit).all() and not distance[self.factor == 0.0].any())
        fits = fits and abs(reward - self.centre) <= self.reward_limit
        if n <= EVERY_UP_TO or n >= GROWTH * self.renewed or not fits:
            self.rescale()
            return
        z = self.features(x)
        direction = self.cov[arm] @ z
        growth = 1.0 + z @ direction
        error = reward - self.centre - self.mu[arm] @ z
        self.cov[arm] -= np.outer(direction, direction) / growth
        self.mu[arm] += direction * (error / growth)
        self.a[arm] += 0.5
        self.b[arm] += 0.5 * error**2 / growth

    def rescale(self) -> None:
        """Take the moments into use as scales, and solve for all beliefs in them."""
        n = self.rounds
        self.renewed = n
        self.mean = self.origin + self.offset
        deviation = np.sqrt(np.maximum(self.spread, 0.0) / max(n, 1.0))
        varies = deviation > ROUNDING * np.abs(self.mean)
        self.factor = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
        self.limit = np.sqrt(n)
        self.centre = self.first + self.reward_offset
        spread = float(np.sqrt(max(self.reward_spread, 0.0) / max(n, 1.0)))
        noticed = spread > ROUNDING * abs(self.centre)
        size = spread if noticed else abs(self.centre)
        size = size if size > 1e-30 else 1.0
        self.reward_limit = np.sqrt(n) * spread if noticed else ROUNDING * abs(self.centre)
        self.solve(size, int(varies.sum()))

    def solve(self, size: float, varying: int) -> None:
        """Solve for the beliefs of all arms; their rewards are about the centre."""
        variance = max(self.n_arms / 6.0, 1.0)
        precision = np.append(np.full(self.d, max(varying, 1) / variance), 1.0 / variance)
        # z = T (x - origin, 1), for z in the scales in use
        T = np.diag(np.append(self.factor, 1.0))
        T[:-1, -1] = -self.factor * self.offset
        shift = self.centre - self.first
        gram = T @ self.gram @ T.T
        cross = (self.cross - shift * self.gram[:, :, -1]) @ T.T
        squares = self.squares - shift * (2.0 * self.cross[:, -1] - shift * self.count)
        self.cov = np.linalg.inv(gram + np.diag(precision))
        self.mu = np.einsum("aij,aj->ai", self.cov, cross)
        self.a = A0 + 0.5 * self.count
        self.b = A0 * size**2 + 0.5 * np.maximum(squares - np.einsum("ai,ai->a", self.mu, cross), 0.0)


def play(rival: Any, problem: Any) -> list[int]:
    """Play a problem whose rewards are known at once; return the arms."""
    arms = []
    for context, rewards in zip(problem.contexts, problem.rewards, strict=True):
        arms.append(rival.act(context))
        rival.update(context, arms[-1], float(rewards[arms[-1]]))
    return arms
