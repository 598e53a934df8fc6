"""AdaptiveTS in plain NumPy: explicit inverses, one loop per sample; draws and batches are handed in."""

import copy

import numpy as np
from scipy.stats import multivariate_t

from oracle.agents import Buffer, Explorer, Tuple
from oracle.network import Array, Network
from oracle.regression import posterior

A0 = 15.0


class OracleAdaptive(Explorer):
    """The prior holds the start and what has left the buffer; the posterior that and the buffer."""

    def __init__(
        self,
        network: Network,
        n_arms: int,
        n_features: int,
        *,
        buffer: int,
        initial_pulls: int,
        optimism: float,
        temperature: float,
        change_threshold: float,
        reward_range: tuple[float, float] | None,
    ) -> None:
        super().__init__(
            n_arms,
            network.weights[-1].shape[0] + n_features + 1,
            initial_pulls=initial_pulls,
            prior_precision=1.0,
            a0=A0,
            b0=A0,
            exploration="thompson",
            ucb_width=0.0,
        )
        self.network, self.reference = network, copy.deepcopy(network)
        self.buffer, self.capacity = Buffer(), buffer
        self.optimism, self.temperature = optimism, temperature
        self.threshold, self.reward_range = change_threshold, reward_range
        self.prior_mu, self.prior_a, self.prior_b = self.mu.copy(), self.a.copy(), self.b.copy()
        self.left = [0] * n_arms  # what each arm's prior holds beyond the start
        self.contexts: list[Array] = []
        self.rewards: list[float] = []
        self.mean, self.deviation, self.limit = np.zeros(n_features), np.full(n_features, np.inf), 0.0
        self.centre, self.scale = 0.0, 1.0
        self.refits = self.changes = self.refitted = self.tested = 0
        self.errors, self.counts = np.zeros(n_arms), np.zeros(n_arms)  # squares of errors made, and how many

    def act(self, context: Array, t_draws: Array | None = None) -> int:
        """Draw with shares of the beliefs' scale."""
        return super().act(context, None if t_draws is None else self.optimism + self.temperature * t_draws)

    def inputs(self, context: Array) -> Array:
        """Every column by its mean and deviation; 0 where it has not varied; at most sqrt(t) at the last refit."""
        scaled: Array = np.clip((context - self.mean) / self.deviation, -self.limit, self.limit)
        return scaled

    def features(self, context: Array) -> Array:
        """The reference network's last hidden layer, the context, and a constant 1."""
        x = self.inputs(context)
        return np.concatenate([self.reference.features(x), x, [1.0]])

    def update(self, context: Array, arm: int, reward: float, batches: list[list[int]]) -> None:
        """One round; `batches` holds the stamps of the batch of a round that trains."""
        context = np.array(context, dtype=np.float64)
        self.contexts.append(context)
        self.rewards.append(reward)
        z = self.features(context)
        if self.refits:
            self.errors[arm] += (reward - self.mu[arm] @ z) ** 2 / (1 + z @ self.cov[arm] @ z)
        self.counts[arm] += 1
        self.buffer.store(Tuple(self.t, context, arm, reward))
        for stamps in batches:
            batch = [self.buffer.find(stamp) for stamp in stamps]
            self.network.train(
                np.array([self.inputs(e.context) for e in batch]),
                np.array([e.arm for e in batch]),
                np.array([(e.reward - self.centre) / self.scale for e in batch]),
            )
        self.t += 1
        if self.t - self.refitted >= min(0.1 * self.t, self.capacity / 8):
            self.refit()
        for i in range(self.n_arms):
            own = [e for e in self.buffer.tuples if e.arm == i]
            self.cov[i], self.mu[i], self.a[i], _ = self.conditioned(i, own)
            self.b[i] = A0 * self.scale**2 + 0.5 * self.errors[i]

    def conditioned(self, i: int, tuples: list[Tuple]) -> tuple[Array, Array, float, float]:
        """An arm's prior, conditioned on tuples: covariance, mean, a and b."""
        Z = np.array([self.features(e.context) for e in tuples]).reshape(-1, self.d)
        r = np.array([e.reward for e in tuples])
        cov, mu, difference = posterior(self.prior_cov[i], self.prior_mu[i], Z.T @ Z, Z.T @ r)
        return cov, mu, self.prior_a[i] + len(r) / 2, self.prior_b[i] + 0.5 * (float(r @ r) + difference)

    def refit(self) -> None:
        """Take over network and scales, start fresh arms anew, test for a change."""
        self.refits += 1
        self.refitted = self.t
        self.reference = copy.deepcopy(self.network)
        self.mean, self.deviation = np.mean(self.contexts, axis=0), np.std(self.contexts, axis=0)
        self.deviation[self.deviation <= 1e-15 * np.abs(self.mean)] = np.inf
        self.limit = np.sqrt(self.t)
        self.centre = float(np.mean(self.rewards))
        self.scale = float(np.std(self.rewards)) or abs(self.centre) or 1.0
        if self.reward_range is not None:
            self.scale = max(self.scale, (self.reward_range[1] - self.reward_range[0]) / 2)
        start = self.start()
        fresh = [i for i in range(self.n_arms) if not self.left[i]]
        if fresh:
            factors = [1.0, 2.0, 4.0, 8.0, 16.0]
            for i in fresh:
                self.begin(i, start)
            held = self.buffer.tuples
            start = start * factors[int(np.argmax([self.evidence(fresh, held, c) for c in factors]))]
        for i in fresh:
            self.begin(i, start)
        if self.threshold < np.inf and self.t - self.tested >= self.capacity / 8:
            self.test(start)
            self.tested = self.t
        self.trim()

    def trim(self) -> None:
        """Take the oldest tuple of the arm that holds most into its prior, until the rest has room."""
        while len(self.buffer.tuples) > self.capacity:
            held = [e.arm for e in self.buffer.tuples]
            arm = max(reversed(range(self.n_arms)), key=held.count)
            e = self.buffer.tuples.pop(held.index(arm))
            self.prior_cov[arm], self.prior_mu[arm], self.prior_a[arm], self.prior_b[arm] = self.conditioned(arm, [e])
            self.left[arm] += 1

    def start(self) -> Array:
        """What hidden layer, context and constant add to a score has the variance of the rewards, or more."""
        h = self.network.weights[-1].shape[0]
        Z = np.array([self.features(e.context) for e in self.buffer.tuples])
        variances: list[float] = []
        for part in (Z[:, :h], Z[:, h:-1], Z[:, -1:]):
            length2 = np.mean([np.sum(row**2) for row in part]) or 1.0  # of one tuple alone, nothing varies
            variances += [max(self.n_arms / 6, 1.0) / length2] * part.shape[1]
        return np.diag(variances)

    def begin(self, i: int, start: Array) -> None:
        """An arm of which nothing has left the buffer."""
        self.prior_mu[i] = np.append(np.zeros(self.d - 1), self.centre)
        self.prior_cov[i], self.prior_b[i] = start, A0 * self.scale**2

    def evidence(self, arms: list[int], tuples: list[Tuple], factor: float) -> float:
        """Log density of the rewards of some arms, had their prior covariances been multiplied by a factor."""
        out = 0.0
        for i in arms:
            own = [e for e in tuples if e.arm == i]
            if own:
                Z = np.array([self.features(e.context) for e in own])
                spread = np.eye(len(own)) + factor * Z @ self.prior_cov[i] @ Z.T
                scale = self.prior_b[i] / self.prior_a[i]
                out += multivariate_t.logpdf(
                    [e.reward for e in own], loc=Z @ self.prior_mu[i], shape=scale * spread, df=2 * self.prior_a[i]
                )
        return out

    def test(self, start: Array) -> None:
        """Count what was learned before the recent tuples less, if these are then likelier."""
        older = [e for e in self.buffer.tuples if e.stamp < self.tested]
        recent = [e for e in self.buffer.tuples if e.stamp >= self.tested]
        kept: list[Array] = [part.copy() for part in (self.prior_cov, self.prior_mu, self.prior_a, self.prior_b)]
        for i in range(self.n_arms):
            own = self.conditioned(i, [e for e in older if e.arm == i])
            self.prior_cov[i], self.prior_mu[i], self.prior_a[i], self.prior_b[i] = own
        learned = [i for i in range(self.n_arms) if self.left[i] or any(e.arm == i for e in older)]
        factors = [1.0, 16.0, 256.0]
        densities = [self.evidence(learned, recent, c) for c in factors]
        best = int(np.argmax(densities))
        if densities[best] - densities[0] <= self.threshold:
            self.prior_cov, self.prior_mu, self.prior_a, self.prior_b = kept
            return
        self.changes += 1
        keep = 1 / factors[best]
        mean = np.append(np.zeros(self.d - 1), self.centre)
        for i in learned:
            known, first = np.linalg.inv(self.prior_cov[i]), np.linalg.inv(start)
            cov = np.linalg.inv(keep * known + (1 - keep) * first)
            self.prior_mu[i] = cov @ (keep * known @ self.prior_mu[i] + (1 - keep) * first @ mean)
            self.prior_cov[i] = cov
            self.prior_a[i] = keep * self.prior_a[i] + (1 - keep) * A0
            self.prior_b[i] = keep * self.prior_b[i] + (1 - keep) * A0 * self.scale**2
            self.left[i] += 1
            remaining = 2 * (self.prior_a[i] - A0) + sum(e.arm == i for e in recent)
            self.errors[i] *= remaining / self.counts[i]
            self.counts[i] = remaining
        self.buffer.tuples = recent
