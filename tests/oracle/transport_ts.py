"""LiM2-Transport in plain NumPy: explicit inverses, one loop a sample; draws and batches are handed in."""

import copy
from typing import Any

import numpy as np
from scipy.stats import t

from oracle.agents import Buffer, Explorer, Tuple
from oracle.matching import transport, transport_map
from oracle.network import Array, Network
from oracle.regression import posterior


class OracleTransport(Explorer):
    """Every tuple counted once: the prior holds what has left the buffer, the posterior that and the buffer."""

    def __init__(
        self,
        network: Network,
        n_arms: int,
        n_features: int,
        *,
        buffer: int,
        skip: bool = True,
        tolerance: float,
        ridge: float,
        surprise: float,
        optimism: float,
        temperature: float,
        train_every: int,
        initial_pulls: int = 2,
        prior_precision: float,
        a0: float,
        b0: float,
        exploration: str = "thompson",
    ) -> None:
        width = network.weights[-1].shape[0] + n_features * skip + 1
        super().__init__(
            n_arms,
            width,
            initial_pulls=initial_pulls,
            prior_precision=1.0,
            a0=a0,
            b0=b0,
            exploration=exploration,
            ucb_width=optimism,
        )
        self.prior_precision = prior_precision
        self.network = network
        self.settled = copy.deepcopy(network)
        self.buffer, self.capacity = Buffer(buffer, share=1 if skip else max(buffer // n_arms, 1)), buffer
        self.skip, self.tolerance, self.ridge, self.train_every = skip, tolerance, ridge, train_every
        self.surprise, self.optimism, self.temperature = surprise, optimism, temperature
        self.prior_mu, self.prior_a, self.prior_b = self.mu.copy(), self.a.copy(), self.b.copy()
        self.left = [0] * n_arms  # tuples of each arm that have left the buffer
        self.contexts: list[Array] = []  # all that was ever seen, for the units
        self.rewards: list[float] = []
        self.size, self.centre, self.scale = 1.0, 0.0, 0.0
        self.refits = 0
        self.widened = 0
        self.weighed = 0
        self.deferred = 0
        self.lead = 0.0
        self.origin = np.zeros(width)  # with the context among the features it stays there

    def act(self, context: Array, t_draws: Array | None = None) -> int:
        """Draw with shares of the beliefs' scale."""
        return super().act(context, None if t_draws is None else self.optimism + self.temperature * t_draws)

    def features(self, context: Array) -> Array:
        """What the beliefs are about."""
        return self.features_by(self.settled, context) - self.origin

    def features_by(self, network: Network, context: Array) -> Array:
        """The last hidden layer, the context, and a constant 1."""
        x = context / self.size
        return np.concatenate([network.features(x), x if self.skip else [], [1.0]])

    def units_now(self) -> tuple[float, float, float]:
        """Root mean square of all contexts; mean and standard deviation of all rewards."""
        size = float(np.sqrt(np.mean(np.array(self.contexts) ** 2)))
        return size, float(np.mean(self.rewards)), float(np.std(self.rewards)) or abs(self.rewards[0])

    def units_have_moved(self) -> bool:
        """Whether the units in use are no longer those of what has been seen."""
        if self.scale == 0.0:
            return True
        size, centre, scale = self.units_now()
        moves = [abs(size / self.size - 1), abs(scale / self.scale - 1), abs(centre - self.centre) / self.scale]
        return max(moves) > self.tolerance

    def update(self, context: Array, arm: int, reward: float, batches: list[list[int]]) -> None:
        """One round; `batches` holds the stamps of the batches of a round that trains."""
        context = np.array(context, dtype=np.float64)
        self.contexts.append(context)
        self.rewards.append(reward)
        z_before = self.features(context)
        if not self.skip and self.t >= 2 * self.n_arms:
            by_beliefs = self.mu[arm] @ z_before
            by_network = self.centre + self.scale * self.network.outputs(context / self.size)[arm]
            gain = (reward - by_beliefs) ** 2 - (reward - by_network) ** 2
            self.lead = (1 - 1 / self.capacity) * self.lead + gain
        evicted = self.buffer.store(Tuple(self.t, context, arm, reward))
        if evicted is not None:
            self.leave(evicted)
        held = self.buffer.tuples
        old = [self.features(e.context) for e in held]
        moved = self.units_have_moved()
        trained_in = self.centre, self.scale  # what the network was trained in so far
        if moved:
            self.size, self.centre, self.scale = self.units_now()
        for stamps in batches:
            distance = self.train([self.buffer.find(stamp) for stamp in stamps])
        if batches and distance >= self.tolerance:
            moved = True
        factor = 1.0
        if self.surprise < np.inf and self.t + 1 >= self.weighed + self.capacity / 2:
            self.weighed = self.t + 1
            factor = self.weigh(old)
            self.widened += factor > 1.0
        if moved or factor > 1.0:
            self.settled = copy.deepcopy(self.network)
            new = np.array([self.features_by(self.network, e.context) for e in held])
            if not self.skip:
                self.origin = np.append(new[:, :-1].mean(axis=0), 0.0)
            noise = self.one_step_ahead(z_before, arm, reward)
            self.follow(np.array(old), new - self.origin, factor, noise, trained_in)
        else:
            self.count(self.features(context), arm, reward)
        self.t += 1

    def leave(self, e: Tuple) -> None:
        """One conjugate update of the prior by a tuple that leaves the buffer."""
        z, i = self.features(e.context), e.arm
        self.prior_cov[i], self.prior_mu[i], difference = posterior(
            self.prior_cov[i], self.prior_mu[i], np.outer(z, z), z * e.reward
        )
        self.prior_a[i] += 0.5
        self.prior_b[i] += 0.5 * (e.reward**2 + difference)
        self.left[i] += 1

    def count(self, z: Array, i: int, reward: float) -> None:
        """One conjugate update of the posterior."""
        self.cov[i], self.mu[i], difference = posterior(self.cov[i], self.mu[i], np.outer(z, z), z * reward)
        self.a[i] += 0.5
        self.b[i] += 0.5 * (reward**2 + difference)

    def one_step_ahead(self, z: Array, i: int, reward: float) -> Array:
        """What is believed of the noise once this tuple is added to it by how far it was off when it came."""
        noise = self.b.copy()
        off = reward - self.mu[i] @ z
        noise[i] += 0.5 * off**2 / (1 + z @ self.cov[i] @ z)
        return noise

    def train(self, batch: list[Tuple]) -> float:
        """One step of the network; return how far its features were from the settled ones before it."""
        inputs = [e.context / self.size for e in batch]
        settled = np.array([self.settled.features(x) for x in inputs])
        differences = np.array([self.network.features(x) for x in inputs]) - settled
        if not self.skip:  # both around their means, unless contexts do not differ
            varying = settled - settled.mean(axis=0)
            if np.sum(varying**2) > 1e-12 * np.sum(settled**2):
                settled, differences = varying, differences - differences.mean(axis=0)
        away, size = np.sum(differences**2), np.sum(settled**2)
        targets = [(e.reward - self.centre) / self.scale for e in batch]
        self.network.train(np.array(inputs), np.array([e.arm for e in batch]), np.array(targets))
        return float(np.sqrt(away / size))

    def start(self, features: Array) -> Array:
        """What hidden layer, context and constant add to a score varies by 1 / prior_precision each at the start."""
        h = self.network.weights[-1].shape[0]
        parts = [features[:, :h], features[:, h:-1], features[:, -1:]]
        variances: list[float] = []
        for part in parts:
            if part.shape[1]:
                length2 = np.mean([np.sum(row**2) for row in part]) or 1.0  # of one tuple alone, nothing varies
                variances += [1 / (self.prior_precision * length2)] * part.shape[1]
        return np.diag(variances)

    def weigh(self, old: list[Array]) -> float:
        """Return by how much wider priors let the older half of the buffer foretell the newer one best."""
        features = {e.stamp: z for e, z in zip(self.buffer.tuples, old, strict=True)}
        factors = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
        told: list[list[float]] = []
        for i in range(self.n_arms):
            held = sorted((e for e in self.buffer.tuples if e.arm == i), key=lambda e: e.stamp)
            if not self.left[i]:
                continue
            older, newer = held[: len(held) // 2], held[len(held) // 2 :]
            beliefs = []
            prior_b = self.prior_b[i] if self.skip else self.prior_a[i] * self.b[i] / self.a[i]
            for factor in factors:
                Phi, psi, R2 = np.zeros((self.d, self.d)), np.zeros(self.d), 0.0
                for e in older:
                    z = features[e.stamp]
                    Phi += np.outer(z, z)
                    psi += z * e.reward
                    R2 += e.reward**2
                cov, mean, difference = posterior(factor * self.prior_cov[i], self.prior_mu[i], Phi, psi)
                a = self.prior_a[i] + len(older) / 2
                beliefs.append((mean, cov, a, prior_b + 0.5 * (R2 + difference)))
            for e in newer:
                z = features[e.stamp]
                densities = [
                    t.logpdf(e.reward, df=2 * a, loc=z @ mean, scale=np.sqrt(b / a * (1 + z @ cov @ z)))
                    for mean, cov, a, b in beliefs
                ]
                told.append([float(density) for density in densities])
        if len(told) < 10:
            return 1.0
        gains = np.array([[other - likelihoods[0] for other in likelihoods] for likelihoods in told])
        best = int(np.argmax(gains.mean(axis=0)))
        standard_error = gains[:, best].std(ddof=1) / np.sqrt(len(gains))
        return factors[best] if gains[:, best].mean() > self.surprise * standard_error else 1.0

    def follow(self, old: Array, new: Array, factor: float, ahead: Array, trained_in: tuple[float, float]) -> None:
        """Transport the priors, widen them if need be, and restart every arm from its prior and the buffer."""
        self.refits += 1
        M = transport_map(old, new, self.ridge)
        noise = 1.0
        if self.t >= 2 * self.n_arms:
            noise = min(float(np.sum(self.b) / np.sum(self.a)) / self.scale**2, 1.0)
        start = self.start(new) / noise
        for i in range(self.n_arms):
            if self.left[i]:
                self.prior_mu[i] = M @ self.prior_mu[i]
                self.prior_cov[i] = transport(self.prior_cov[i], M)
            else:
                self.prior_mu[i] = np.append(np.zeros(self.d - 1), self.centre)
                self.prior_cov[i] = start
                self.prior_b[i] = self.b0 * self.scale**2
        for i in range(self.n_arms):
            if self.left[i]:
                self.prior_cov[i] = factor * self.prior_cov[i]
        if self.lead > 0 and any(self.left):  # the network has lately done better than the beliefs: take its last layer
            self.deferred += 1
            weights, bias = self.network.weights[-1], self.network.biases[-1]
            centre, scale = trained_in
            for i in range(self.n_arms):
                if self.left[i]:
                    constant = centre + scale * (bias[i] + weights[:, i] @ self.origin[:-1])
                    self.prior_mu[i] = np.append(scale * weights[:, i], constant)
        for i in range(self.n_arms):
            Phi, psi, R2, n = np.zeros((self.d, self.d)), np.zeros(self.d), 0.0, 0
            for e, phi in zip(self.buffer.tuples, new, strict=True):
                if e.arm == i:
                    Phi += np.outer(phi, phi)
                    psi += phi * e.reward
                    R2 += e.reward**2
                    n += 1
            self.cov[i], self.mu[i], difference = posterior(self.prior_cov[i], self.prior_mu[i], Phi, psi)
            self.a[i] = self.prior_a[i] + n / 2
            if self.skip or self.t < 2 * self.n_arms or self.a[i] == self.a0:
                self.b[i] = self.prior_b[i] + 0.5 * (R2 + difference)
            else:
                self.b[i] = ahead[i]


def settings_of(agent: Any) -> dict[str, Any]:
    """The settings of an agent that its oracle needs."""
    names = ("tolerance", "ridge", "train_every", "skip", "initial_pulls", "surprise")
    given = ("prior_precision", "a0", "b0", "optimism", "temperature")
    return {**{name: getattr(agent, name) for name in names}, **{name: agent._settings[name] for name in given}}
