"""The paper's agents, transcribed. Random draws and batches are handed in by the caller."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .matching import pgd_batch, pgd_sample, transport, transport_map
from .network import Array, Network
from .regression import posterior


@dataclass(frozen=True)
class Tuple:
    """An experience {b(t), a(t), r_t}; `stamp` is the number of updates before it was stored."""

    stamp: int
    context: Array
    arm: int
    reward: float


class Buffer:
    """Component 3 of the paper, the memory E: FIFO within the played arm once full.

    The first tuple of an arm takes the place of the oldest one of the arm that holds most.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.tuples: list[Tuple] = []

    def store(self, new: Tuple) -> Tuple | None:
        """Make room if full, then append; return what was removed."""
        removed = None
        if self.capacity is not None and len(self.tuples) >= self.capacity:
            held = [e.arm for e in self.tuples]
            arm = new.arm if new.arm in held else max(sorted(set(held)), key=held.count)
            removed = self.tuples.pop(held.index(arm))
        self.tuples.append(new)
        return removed

    def find(self, stamp: int) -> Tuple:
        """Return the tuple stored with this stamp; KeyError if it is not there."""
        for e in self.tuples:
            if e.stamp == stamp:
                return e
        raise KeyError(stamp)


class Explorer:
    """What all agents share: the belief about each arm, and the choice of an arm from it."""

    def __init__(
        self,
        n_arms: int,
        d: int,
        *,
        initial_pulls: int,
        prior_precision: float,
        a0: float,
        b0: float,
        exploration: str,
        ucb_width: float,
    ) -> None:
        if exploration not in ("thompson", "ucb"):
            raise ValueError(f"unknown exploration {exploration!r}")
        self.n_arms = n_arms
        self.d = d
        self.initial_pulls = initial_pulls
        self.prior_precision = prior_precision
        self.a0 = a0
        self.b0 = b0
        self.exploration = exploration
        self.ucb_width = ucb_width
        self.mu = np.zeros((n_arms, d))
        self.cov = np.array([np.eye(d) / prior_precision for _ in range(n_arms)])
        self.prior_cov = self.cov.copy()
        self.a = np.full(n_arms, float(a0))
        self.b = np.full(n_arms, float(b0))
        self.R2 = np.zeros(n_arms)  # over all plays
        self.plays = np.zeros(n_arms, dtype=np.int64)
        self.t = 0  # updates finished

    def features(self, context: Array) -> Array:
        """phi: what the linear regression sees."""
        raise NotImplementedError

    def act(self, context: Array, t_draws: Array | None = None) -> int:
        """Play argmax_i phi' mu~_i; `t_draws[i]` is a Student-t draw with 2 a_i degrees of freedom."""
        if self.t < self.initial_pulls * self.n_arms:
            return self.t % self.n_arms
        phi = self.features(context)
        scores = []
        for i in range(self.n_arms):
            deviation = np.sqrt(self.b[i] / self.a[i] * max(phi @ self.cov[i] @ phi, 0.0))
            if self.exploration == "ucb":
                scores.append(phi @ self.mu[i] + self.ucb_width * deviation)
            else:
                assert t_draws is not None, "Thompson sampling needs draws"
                scores.append(phi @ self.mu[i] + deviation * t_draws[i])
        return int(np.argmax(scores))


class NeuralExplorer(Explorer):
    """An explorer over the last hidden layer of a network, with a buffer to train it from."""

    def __init__(
        self,
        network: Network,
        n_arms: int,
        *,
        buffer: int | None,
        intercept: bool,
        refresh: str,
        **common: Any,
    ) -> None:
        if refresh not in ("played", "all"):
            raise ValueError(f"unknown refresh {refresh!r}")
        super().__init__(n_arms, network.weights[-1].shape[0] + int(intercept), **common)
        self.network = network
        self.buffer = Buffer(buffer)
        self.intercept = intercept
        self.refresh = refresh

    def features(self, context: Array) -> Array:
        """Last hidden activations, with a constant 1 appended if `intercept`."""
        phi = self.network.features(context)
        return np.append(phi, 1.0) if self.intercept else phi

    def last_layer(self, i: int) -> Array:
        """Weights of the last layer for arm i: the prior mean of section 4.1."""
        w = self.network.weights[-1][:, i]
        return np.append(w, self.network.biases[-1][i]) if self.intercept else w.copy()

    def store(self, context: Array, arm: int, reward: float) -> Tuple | None:
        """Store the new tuple and count the play; return the evicted tuple."""
        self.R2[arm] += reward**2
        self.plays[arm] += 1
        return self.buffer.store(Tuple(self.t, np.array(context, dtype=np.float64), arm, reward))

    def train(self, batch: list[Tuple]) -> None:
        """One step of the network on the batch."""
        self.network.train(
            np.array([e.context for e in batch]),
            np.array([e.arm for e in batch]),
            np.array([e.reward for e in batch]),
        )

    def refreshed(self, arm: int) -> list[int]:
        """Arms whose mean and noise are refitted this round."""
        return [arm] if self.refresh == "played" else list(range(self.n_arms))


class OracleLiM2(NeuralExplorer):
    """Algorithm 2, NeuralLinear-LiM2, and with `carry` and `mean_prior` off its ablations."""

    def __init__(
        self,
        network: Network,
        n_arms: int,
        *,
        buffer: int | None,
        train_from: int = 1,
        initial_pulls: int = 2,
        prior_precision: float = 1.0,
        a0: float = 6.0,
        b0: float = 6.0,
        matching: str | None = "batch",
        matching_rate: float = 0.01,
        matching_ridge: float = 1e-5,
        matching_clip: float = 5.0,
        refresh: str = "played",
        recount: bool = True,
        noise: str = "history",
        intercept: bool = False,
        mean_prior: bool = True,
        carry: bool = True,
        train_every: int = 1,
        exploration: str = "thompson",
        ucb_width: float = 1.0,
    ) -> None:
        super().__init__(
            network,
            n_arms,
            buffer=buffer,
            intercept=intercept,
            refresh=refresh,
            initial_pulls=initial_pulls,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            exploration=exploration,
            ucb_width=ucb_width,
        )
        if matching not in ("batch", "sample", "solve", None):
            raise ValueError(f"unknown matching {matching!r}")
        if noise not in ("history", "buffer"):
            raise ValueError(f"unknown noise {noise!r}")
        self.train_from = train_from
        self.matching = matching
        self.matching_rate = matching_rate
        self.matching_ridge = matching_ridge
        self.matching_clip = matching_clip
        self.recount = recount
        self.noise = noise
        self.mean_prior = mean_prior
        self.carry = carry
        self.train_every = train_every

    def update(self, context: Array, arm: int, reward: float, batches: list[list[int]]) -> None:
        """One round of Algorithm 2 after the reward; `batches` holds the stamps of each of the P batches."""
        evicted = self.store(context, arm, reward)
        if evicted is not None and self.carry and not self.recount:
            z = self.features(evicted.context)
            i = evicted.arm
            self.prior_cov[i] = posterior(self.prior_cov[i], np.zeros(self.d), np.outer(z, z), z)[0]

        if (self.t + 1) % self.train_every != 0:
            self.conjugate_update(self.features(context), arm, reward)
            self.t += 1
            return

        if self.carry and self.recount:
            self.prior_cov = self.cov.copy()
        if self.train_every > 1 or self.t >= self.train_from:
            for stamps in batches:
                batch = [self.buffer.find(stamp) for stamp in stamps]
                old = np.array([self.features(e.context) for e in batch])
                self.train(batch)
                new = np.array([self.features(e.context) for e in batch])
                if self.carry and self.matching is not None:
                    self.match(np.array([e.arm for e in batch]), old, new)
        if not self.carry:
            self.prior_cov = np.array([np.eye(self.d) / self.prior_precision for _ in range(self.n_arms)])
        self.refit(list(range(self.n_arms)) if self.train_every > 1 else self.refreshed(arm))
        self.t += 1

    def match(self, arms: NDArray[np.int64], old: Array, new: Array) -> None:
        """Likelihood matching of every arm's prior covariance on its part of the batch."""
        if self.matching == "solve":
            M = transport_map(old, new, self.matching_ridge)
            self.prior_cov = np.array([transport(A, M) for A in self.prior_cov])
            return
        alpha = self.matching_rate / (self.t + 1)
        for i in range(self.n_arms):
            A, old_i, new_i = self.prior_cov[i], old[arms == i], new[arms == i]
            if self.matching == "sample":
                self.prior_cov[i] = pgd_sample(A, old_i, new_i, alpha)
            else:
                self.prior_cov[i] = pgd_batch(A, old_i, new_i, alpha, self.matching_clip, self.matching_ridge)

    def refit(self, refreshed: list[int]) -> None:
        """Restart linear TS from the prior and the buffer under the current features."""
        for i in range(self.n_arms):
            Phi = np.zeros((self.d, self.d))
            psi = np.zeros(self.d)
            R2 = 0.0
            n = 0
            for e in self.buffer.tuples:
                if e.arm == i:
                    phi = self.features(e.context)
                    Phi += np.outer(phi, phi)
                    psi += phi * e.reward
                    R2 += e.reward**2
                    n += 1
            if self.noise == "history":
                R2, n = self.R2[i], int(self.plays[i])
            mu0 = self.last_layer(i) if self.mean_prior else np.zeros(self.d)
            self.cov[i], mu, difference = posterior(self.prior_cov[i], mu0, Phi, psi)
            if i in refreshed:
                self.mu[i] = mu
                self.a[i] = self.a0 + n / 2
                self.b[i] = self.b0 + 0.5 * (R2 + difference)

    def conjugate_update(self, z: Array, i: int, reward: float) -> None:
        """Between training phases: one observation more, features unchanged."""
        self.cov[i], self.mu[i], difference = posterior(self.cov[i], self.mu[i], np.outer(z, z), z * reward)
        self.a[i] += 0.5
        self.b[i] += 0.5 * (reward**2 + difference)


def oracle_mm(network: Network, n_arms: int, **options: Any) -> OracleLiM2:
    """NeuralLinear-MM: a prior for the mean only."""
    return OracleLiM2(network, n_arms, **{"carry": False, "mean_prior": True, **options})


def oracle_naive(network: Network, n_arms: int, **options: Any) -> OracleLiM2:
    """NeuralLinear-Naive: no prior calculations."""
    return OracleLiM2(network, n_arms, **{"carry": False, "mean_prior": False, **options})


def oracle_full(network: Network, n_arms: int, **options: Any) -> OracleLiM2:
    """NeuralLinear with unlimited memory, trained every 400 rounds."""
    settings = {
        "buffer": None,
        "carry": False,
        "mean_prior": False,
        "prior_precision": 0.25,
        "train_every": 400,
        **options,
    }
    return OracleLiM2(network, n_arms, **settings)


class OracleNTK(NeuralExplorer):
    """NeuralLinear-NTK: features accumulated as they were when seen; no matching, no reset."""

    def __init__(
        self,
        network: Network,
        n_arms: int,
        *,
        buffer: int | None,
        initial_pulls: int = 2,
        prior_precision: float = 1.0,
        a0: float = 6.0,
        b0: float = 6.0,
        refresh: str = "played",
        intercept: bool = False,
        exploration: str = "thompson",
        ucb_width: float = 1.0,
    ) -> None:
        super().__init__(
            network,
            n_arms,
            buffer=buffer,
            intercept=intercept,
            refresh=refresh,
            initial_pulls=initial_pulls,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            exploration=exploration,
            ucb_width=ucb_width,
        )
        self.Phi = np.zeros((n_arms, self.d, self.d))
        self.psi = np.zeros((n_arms, self.d))

    def update(self, context: Array, arm: int, reward: float, batches: list[list[int]]) -> None:
        """Accumulate the new tuple, train on each batch, refit under the current last layer."""
        self.store(context, arm, reward)
        z = self.features(context)
        self.Phi[arm] += np.outer(z, z)
        self.psi[arm] += z * reward
        for stamps in batches:
            self.train([self.buffer.find(stamp) for stamp in stamps])
        for i in self.refreshed(arm):
            self.cov[i], self.mu[i], difference = posterior(
                self.prior_cov[i], self.last_layer(i), self.Phi[i], self.psi[i]
            )
            self.a[i] = self.a0 + self.plays[i] / 2
            self.b[i] = self.b0 + 0.5 * (self.R2[i] + difference)
        self.t += 1


class OracleLinearTS(Explorer):
    """Algorithm 1 with the unknown noise of the section "Exploration"; the context is the features."""

    def __init__(
        self,
        n_arms: int,
        n_features: int,
        *,
        intercept: bool = True,
        prior_precision: float = 0.25,
        a0: float = 6.0,
        b0: float = 6.0,
        initial_pulls: int = 2,
        exploration: str = "thompson",
        ucb_width: float = 1.0,
    ) -> None:
        super().__init__(
            n_arms,
            n_features + int(intercept),
            initial_pulls=initial_pulls,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            exploration=exploration,
            ucb_width=ucb_width,
        )
        self.intercept = intercept
        self.Phi = np.zeros((n_arms, self.d, self.d))
        self.psi = np.zeros((n_arms, self.d))

    def features(self, context: Array) -> Array:
        """The context, with a constant 1 appended if `intercept`."""
        b = np.array(context, dtype=np.float64)
        return np.append(b, 1.0) if self.intercept else b

    def update(self, context: Array, arm: int, reward: float) -> None:
        """Posterior update of Algorithm 1."""
        phi = self.features(context)
        self.Phi[arm] += np.outer(phi, phi)
        self.psi[arm] += phi * reward
        self.R2[arm] += reward**2
        self.plays[arm] += 1
        self.cov[arm], self.mu[arm], difference = posterior(
            self.prior_cov[arm], np.zeros(self.d), self.Phi[arm], self.psi[arm]
        )
        self.a[arm] = self.a0 + self.plays[arm] / 2
        self.b[arm] = self.b0 + 0.5 * (self.R2[arm] + difference)
        self.t += 1
