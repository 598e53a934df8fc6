"""AdaptiveTS in plain NumPy: explicit inverses, one loop per sample; draws and batches are handed in."""

import copy
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import multivariate_t
from scipy.stats import t as student_t

from oracle.agents import Buffer, Explorer, Tuple
from oracle.network import Array, Network

A0 = 15.0
ARMS_PER_ROUND = 4
GROWTH = 0.2


@dataclass
class View:
    """A copy of the network, and the mean, the deviation and the limit by which columns are scaled."""

    network: Network
    mean: Array
    deviation: Array
    limit: float

    def inputs(self, context: Array) -> Array:
        """Every column by its mean and deviation; 0 where it has not varied; at most sqrt(t) at the last refit."""
        scaled: Array = np.clip((context - self.mean) / self.deviation, -self.limit, self.limit)
        return scaled

    def features(self, context: Array) -> Array:
        """The network's last hidden layer, the context, and a constant 1."""
        x = self.inputs(context)
        return np.concatenate([self.network.features(x), x, [1.0]])


@dataclass
class Arm:
    """What is known of one arm besides the buffer."""

    view: View
    precision: Array  # at the start, (g, g)
    linear_precision: Array  # the same for context and constant
    centre: float  # what the constant's weight starts at
    evicted: list[tuple[Array, float, float]] = field(default_factory=list)  # features of then, reward, weight
    gone: set[int] = field(default_factory=set)  # stamps of those of them that are in the buffer still
    errors: float = 0.0  # half the squares of the errors made before learning
    count: float = 0.0  # half of how many


class OracleAdaptive(Explorer):
    """A queue holds the arms that a refit has not reached yet."""

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
        margin: float,
        span: float,
        tried: int,
        kept: float,
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
        self.network = network
        self.buffer, self.capacity = Buffer(), buffer
        self.optimism, self.temperature = optimism, temperature
        self.threshold, self.reward_range = change_threshold, reward_range
        self.view = View(copy.deepcopy(network), np.zeros(n_features), np.full(n_features, np.inf), 0.0)
        self.own = n_features + 1  # features of the linear beliefs
        self.arms = [Arm(self.view, np.eye(self.d), np.eye(self.own), 0.0) for _ in range(n_arms)]
        self.margin, self.span, self.tried, self.kept = margin, span, tried, kept
        self.lead, self.noise = 0.0, 1.0
        self.taken: set[float] = set()  # how much of a decision the linear beliefs had
        self.contexts: list[Array] = []
        self.rewards: list[float] = []
        self.centre, self.scale, self.start = 0.0, 1.0, np.eye(self.d)
        self.queue: list[int] = []
        self.keep, self.testing = 1.0, False
        self.densities = np.zeros((n_arms, 3))
        self.cuts = [0] * n_arms
        self.refits = self.changes = self.refitted = self.tested = 0

    def act(self, context: Array, t_draws: Array | None = None) -> int:
        """Draw with shares of the beliefs' scale; every arm has the features of its own view."""
        if self.t < self.initial_pulls * self.n_arms:
            return self.t % self.n_arms
        assert t_draws is not None
        scores = []
        share = float(np.clip((self.lead - self.margin) / self.span, 0, 1))
        self.taken.add(share)
        for i, arm in enumerate(self.arms):
            z = arm.view.features(context)
            deviation = np.sqrt(self.b[i] / self.a[i] * (z @ self.cov[i] @ z))
            mean = z @ self.mu[i]
            if share > 0:
                cov, mu, a, b = self.linear(i, self.of(i))
                x = z[-self.own :]
                mean = (1 - share) * mean + share * (x @ mu)
                deviation = (1 - share) * deviation + share * np.sqrt(b / a * (x @ cov @ x))
            scores.append(mean + deviation * (self.optimism + self.temperature * t_draws[i]))
        return int(np.argmax(scores))

    def update(self, context: Array, arm: int, reward: float, batches: list[list[int]]) -> None:
        """One round; `batches` holds the stamps of the batch of a round that trains."""
        context = np.array(context, dtype=np.float64)
        self.contexts.append(context)
        self.rewards.append(reward)
        self.buffer.store(Tuple(self.t, context, arm, reward))
        for stamps in batches:
            batch = [self.buffer.find(stamp) for stamp in stamps]
            self.network.train(
                np.array([self.view.inputs(e.context) for e in batch]),
                np.array([e.arm for e in batch]),
                np.array([(e.reward - self.centre) / self.scale for e in batch]),
            )
        self.t += 1
        due = self.t - self.refitted >= min(GROWTH * self.t, self.capacity / 8)
        if not self.queue and (due or self.keep < 1):
            self.begin()
        own = self.arms[arm]
        z = own.view.features(context)
        earlier = [e for e in self.of(arm) if e.stamp < self.t - 1]
        cov, mu = self.believed(arm, earlier)
        a, b = A0 + own.count, A0 * self.scale**2 + own.errors
        scale = np.sqrt(b / a * (1 + z @ cov @ z))
        density = student_t.logpdf(reward, df=2 * a, loc=z @ mu, scale=scale)
        x = z[-self.own :]
        linear_cov, linear_mu, a, b = self.linear(arm, earlier)
        scale = np.sqrt(b / a * (1 + x @ linear_cov @ x))
        linear_density = student_t.logpdf(reward, df=2 * a, loc=x @ linear_mu, scale=scale)
        self.lead *= self.kept
        if 2 * own.count >= self.tried:
            self.lead += float(linear_density - density)
        own.errors += 0.5 * float((reward - mu @ z) ** 2 / (1 + z @ cov @ z))
        own.count += 0.5
        for i in self.queue[:ARMS_PER_ROUND]:
            self.refit(i)
        if self.queue:
            self.queue = self.queue[ARMS_PER_ROUND:]
            if not self.queue:
                self.end()
        for i in range(self.n_arms):
            self.cov[i], self.mu[i] = self.believed(i, self.of(i))
            self.a[i], self.b[i] = A0 + self.arms[i].count, A0 * self.scale**2 + self.arms[i].errors

    def of(self, i: int) -> list[Tuple]:
        """The tuples of an arm that are in the buffer and nowhere else."""
        return [e for e in self.buffer.tuples if e.arm == i and e.stamp not in self.arms[i].gone]

    def believed(self, i: int, tuples: list[Tuple]) -> tuple[Array, Array]:
        """Covariance and mean of an arm: its start, what was evicted, and some tuples."""
        arm = self.arms[i]
        P, psi = arm.precision.copy(), arm.precision @ np.append(np.zeros(self.d - 1), arm.centre)
        for z, r, weight in [*arm.evicted, *((arm.view.features(e.context), e.reward, 1.0) for e in tuples)]:
            P += weight * np.outer(z, z)
            psi += weight * r * z
        cov: Array = np.asarray(np.linalg.inv(P), dtype=np.float64)
        return cov, np.asarray(cov @ psi, dtype=np.float64)

    def linear(self, i: int, tuples: list[Tuple]) -> tuple[Array, Array, float, float]:
        """Covariance, mean, a and b of an arm by its context and the constant alone: exact."""
        arm = self.arms[i]
        P, psi, squares, count = arm.linear_precision.copy(), np.zeros(self.own), 0.0, 0.0
        for z, r, weight in [*arm.evicted, *((arm.view.features(e.context), e.reward, 1.0) for e in tuples)]:
            x, y = z[-self.own :], r - arm.centre
            P += weight * np.outer(x, x)
            psi += weight * y * x
            squares += weight * y**2
            count += 0.5 * weight
        cov: Array = np.asarray(np.linalg.inv(P), dtype=np.float64)
        mu = cov @ psi
        b = A0 * self.noise + 0.5 * float(squares - mu @ psi)
        return cov, mu + np.append(np.zeros(self.own - 1), arm.centre), A0 + count, b

    def pooled(self) -> float:
        """The noise of all arms together, which starts at the variance of the rewards."""
        beliefs = [self.linear(i, [e for e in self.of(i) if e.stamp < self.t - 1]) for i in range(self.n_arms)]
        errors, count = sum(b - A0 * self.noise for _, _, _, b in beliefs), sum(a - A0 for _, _, a, _ in beliefs)
        return float((A0 * self.scale**2 + errors) / (A0 + count))

    def begin(self) -> None:
        """Take over network and scales; decide what leaves the buffer."""
        self.refits += 1
        mean, deviation = np.mean(self.contexts, axis=0), np.std(self.contexts, axis=0)
        deviation[deviation <= 1e-15 * np.abs(mean)] = np.inf
        self.view = View(copy.deepcopy(self.network), mean, deviation, np.sqrt(self.t))
        self.centre = float(np.mean(self.rewards))
        self.scale = float(np.std(self.rewards)) or abs(self.centre) or 1.0
        if self.reward_range is not None:
            self.scale = max(self.scale, (self.reward_range[1] - self.reward_range[0]) / 2)
        if self.refits == 1:
            for arm in self.arms:
                arm.centre = self.centre
        self.noise = self.pooled()
        self.start = self.started()
        self.testing = self.keep == 1 and self.threshold < np.inf and self.t - self.tested >= self.capacity / 8
        self.cuts = [self.tested] * self.n_arms if self.keep < 1 else self.shares()
        self.refitted = self.t
        self.queue = list(range(self.n_arms))

    def started(self) -> Array:
        """What hidden layer, context and constant add to a score has the variance of the rewards, or more."""
        h = self.network.weights[-1].shape[0]
        Z = np.array([self.view.features(e.context) for e in self.buffer.tuples])  # all, while there are few
        precisions: list[float] = []
        for part in (Z[:, :h], Z[:, h:-1], Z[:, -1:]):
            length2 = np.mean([np.sum(row**2) for row in part]) or 1.0  # of one tuple alone, nothing varies
            precisions += [float(length2) / max(self.n_arms / 6, 1.0)] * part.shape[1]
        return np.diag(precisions)

    def shares(self) -> list[int]:
        """Take the oldest tuple of the arm that holds most, until the rest has room: the oldest stamps that stay."""
        tuples = list(self.buffer.tuples)
        if len(tuples) <= self.capacity:
            return [0] * self.n_arms
        while len(tuples) > self.capacity:
            held = [e.arm for e in tuples]
            tuples.pop(held.index(max(reversed(range(self.n_arms)), key=held.count)))
        return [min([e.stamp for e in tuples if e.arm == i], default=self.t) for i in range(self.n_arms)]

    def refit(self, i: int) -> None:
        """Move an arm to the new view and start; test its recent rewards; move what leaves to the evicted rows."""
        arm, tuples = self.arms[i], self.of(i)
        older, recent = ([self.row(e) for e in tuples if (e.stamp < self.tested) == old] for old in (True, False))
        past = [*arm.evicted, *older]
        self.densities[i] = 0.0
        if self.testing and past:
            for place, factor in enumerate((1.0, 16.0, 256.0)):
                less = [(z, r, weight / factor) for z, r, weight in past]
                self.densities[i, place] = self.density(less, recent)
        leaving = [e for e in tuples if e.stamp < self.cuts[i]]
        if self.keep < 1:
            arm.evicted = [(z, r, weight * self.keep) for z, r, weight in past]
        else:
            arm.evicted += [self.row(e) for e in leaving]
        arm.gone = {e.stamp for e in leaving}
        count = 0.5 * (sum(weight for _, _, weight in arm.evicted) + len(self.of(i)))
        arm.errors *= count / arm.count if arm.count else 0.0
        arm.count = count
        noise = (A0 * self.scale**2 + arm.errors) / (A0 + count)
        arm.view, arm.precision, arm.centre = self.view, self.start * noise / self.scale**2, self.centre
        arm.linear_precision = self.start[-self.own :, -self.own :] * self.noise / self.scale**2

    def row(self, e: Tuple) -> tuple[Array, float, float]:
        """A tuple in the new features."""
        return self.view.features(e.context), e.reward, 1.0

    def density(self, past: list[tuple[Array, float, float]], recent: list[tuple[Array, float, float]]) -> float:
        """Log density of recent rewards given weighted rows: multivariate Student-t."""
        if not recent:
            return 0.0
        P, h, squares = self.start.copy(), np.zeros(self.d), 0.0
        for z, r, weight in past:
            P += weight * np.outer(z, z)
            h += weight * (r - self.centre) * z
            squares += weight * (r - self.centre) ** 2
        a, b = A0 + 0.5 * sum(weight for _, _, weight in past), A0 * self.scale**2
        b += 0.5 * float(squares - h @ np.linalg.solve(P, h))
        Z, y = np.array([z for z, _, _ in recent]), np.array([r for _, r, _ in recent]) - self.centre
        spread = np.eye(len(y)) + Z @ np.linalg.inv(P) @ Z.T
        return float(multivariate_t.logpdf(y, loc=Z @ np.linalg.solve(P, h), shape=b / a * spread, df=2 * a))

    def end(self) -> None:
        """What was evicted leaves the buffer; where recent rewards are likelier if the past counts less, it will."""
        self.buffer.tuples = [e for e in self.buffer.tuples if e.stamp >= self.cuts[e.arm]]
        for arm in self.arms:
            arm.gone = set()
        self.changes += self.keep < 1
        before, self.keep = self.keep, 1.0
        density = self.densities.sum(axis=0)
        if self.testing and density.max() - density[0] > self.threshold:
            self.keep = (1.0, 1 / 16, 1 / 256)[int(density.argmax())]
        elif self.testing or before < 1:
            self.tested = self.refitted
