"""LinearTS in the scales of its data, in plain NumPy: all tuples are kept, and every belief is computed from all."""

import numpy as np

from oracle.agents import Explorer
from oracle.network import Array
from oracle.regression import posterior

A0 = 15.0


class OracleScaledLinearTS(Explorer):
    """Bayesian regression on all tuples, in the scales in use; draws are handed in."""

    def __init__(
        self,
        n_arms: int,
        n_features: int,
        *,
        initial_pulls: int,
        forget: float = 0.0,
        temperature: float = 0.1,
        optimism: float = 0.4,
    ) -> None:
        super().__init__(
            n_arms,
            n_features + 1,
            initial_pulls=initial_pulls,
            prior_precision=1.0,
            a0=A0,
            b0=A0,
            exploration="thompson",
            ucb_width=0.0,
        )
        self.forget, self.temperature, self.optimism = forget, temperature, optimism
        self.contexts: list[Array] = []
        self.arms: list[int] = []
        self.rewards: list[float] = []
        self.mean, self.deviation, self.limit = np.zeros(n_features), np.full(n_features, np.inf), 0.0
        self.centre, self.scale, self.spread = 0.0, 1.0, 0.0
        self.renewed = 0.0
        self.renewals = 0

    def act(self, context: Array, t_draws: Array | None = None) -> int:
        """Draw with shares of the beliefs' scale."""
        return super().act(context, None if t_draws is None else self.optimism + self.temperature * t_draws)

    def features(self, context: Array) -> Array:
        """Every column of a decision by its mean and deviation in use, 0 where it had not varied; and a constant 1."""
        return np.append(np.clip((context - self.mean) / self.deviation, -self.limit, self.limit), 1.0)

    def weights(self) -> Array:
        """What each tuple still counts."""
        ages = np.arange(len(self.rewards) - 1, -1, -1)
        return np.asarray((1.0 - self.forget) ** ages, dtype=np.float64)

    def update(self, context: Array, arm: int, reward: float) -> None:
        """One round: renew the scales if they are out of date, and regress on everything."""
        context = np.array(context, dtype=np.float64)
        self.contexts.append(context)
        self.arms.append(arm)
        self.rewards.append(reward)
        self.t += 1
        total = float(np.sum(self.weights()))
        outside = np.any(np.abs(context - self.mean) / self.deviation > self.limit)
        new_column = np.any((self.deviation == np.inf) & (context != self.mean))
        far = abs(reward - self.centre) > self.spread
        if self.forget or total <= 16 or total >= 1.05 * self.renewed or outside or new_column or far:
            self.renew()
        for i in range(self.n_arms):
            self.regress(i)

    def renew(self) -> None:
        """Take the weighted mean and deviation of every column and of the rewards into use."""
        w, X, r = self.weights(), np.array(self.contexts), np.array(self.rewards)
        self.renewed, self.renewals = float(w.sum()), self.renewals + 1
        self.mean = np.average(X, axis=0, weights=w)
        self.deviation = np.sqrt(np.average((X - self.mean) ** 2, axis=0, weights=w))
        for j in range(X.shape[1]):
            if np.all(X[:, j] == X[0, j]):
                self.mean[j], self.deviation[j] = X[0, j], np.inf
        self.limit = np.sqrt(self.renewed)
        self.centre = float(np.average(r, weights=w))
        varies = bool(np.any(r != r[0]))
        if not varies:
            self.centre = float(r[0])
        deviation = float(np.sqrt(np.average((r - self.centre) ** 2, weights=w)))
        self.scale = deviation if varies else abs(self.centre) or 1.0
        self.spread = np.sqrt(self.renewed) * deviation if varies else 0.0

    def regress(self, i: int) -> None:
        """Condition the start of an arm on all its tuples."""
        own = np.array(self.arms) == i
        w = self.weights()[own]
        Z = np.array([np.append((x - self.mean) / self.deviation, 1.0) for x in np.array(self.contexts)[own]])
        Z = Z.reshape(-1, self.d)  # what was learned from is not clipped
        r = np.array(self.rewards)[own]
        varying = int(np.sum(self.deviation < np.inf)) or 1
        variance = max(1.0, self.n_arms / 6)
        cov0 = np.diag([variance / varying] * (self.d - 1) + [variance])
        mu0 = np.append(np.zeros(self.d - 1), self.centre)
        self.cov[i], self.mu[i], _ = posterior(cov0, mu0, Z.T @ (w[:, None] * Z), Z.T @ (w * r))
        errors, moved = r - Z @ self.mu[i], self.mu[i] - mu0
        self.a[i] = A0 + np.sum(w) / 2
        self.b[i] = A0 * self.scale**2 + (np.sum(w * errors**2) + moved @ np.linalg.inv(cov0) @ moved) / 2
