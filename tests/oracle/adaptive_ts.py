"""AdaptiveTS in plain NumPy: explicit inverses, one loop per sample; draws and batches are handed in."""

import copy
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import multivariate_normal
from scipy.stats import t as student_t

from .agents import Buffer, Explorer, Tuple
from .network import Array, Network

A0, LINEAR_A0 = 15.0, 60.0
GROWTH = 0.2
LEAD_RANGE, LEAD_DECAY = 10.0, 0.9995
WIDTHS, SLACKS = [4.0**-k for k in range(8)], (6.0, 3.0)
LINEAR_SCALE = 2.0
PAST_WEIGHTS = (1.0, 1 / 16, 1 / 256)
WINDOWS = (1, 2, 4, 8, 16)
LIMIT = 20.0

Row = tuple[Array, float, float]  # features, reward, weight
Part = tuple[list[Row], list[Row]]  # past and recent


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

    precision: Array  # at the start, (g, g)
    linear_precision: Array  # the same for context and constant
    centre: float  # what the constant's weight starts at
    evicted: list[Row] = field(default_factory=list)  # features of then
    errors: float = 0.0  # half the squares of the errors made before learning
    count: float = 0.0  # half of how many


class OracleAdaptive(Explorer):
    """Every belief is computed anew from all its tuples in every round."""

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
        self.network = network
        self.buffer, self.capacity = Buffer(), buffer
        self.optimism, self.temperature = optimism, temperature
        self.threshold, self.reward_range = change_threshold, reward_range
        self.view = View(copy.deepcopy(network), np.zeros(n_features), np.full(n_features, np.inf), 0.0)
        self.k = n_features + 1  # features of the linear regression
        self.arms = [Arm(np.eye(self.d), np.eye(self.k), 0.0) for _ in range(n_arms)]
        self.lead, self.noise, self.width = 0.0, 1.0, (1.0, 1.0)  # of context and constant
        self.shares_taken: set[float] = set()  # of the linear regression in decisions
        self.contexts: list[Array] = []
        self.rewards: list[float] = []  # limited, as they were when they were observed
        self.limits = (-np.inf, np.inf)
        self.values: dict[int, float] = {}  # limited rewards by stamp, as they were learned
        self.centre, self.scale = 0.0, 1.0
        self.newest = self.late = self.late_before = 0
        self.refits = self.changes = self.refitted = self.tested = 0

    def act(self, context: Array, t_draws: Array | None = None) -> int:
        """Draw with shares of the regressions' scale."""
        if self.t < self.initial_pulls * self.n_arms:
            return self.t % self.n_arms
        assert t_draws is not None
        share = float(np.clip(self.lead / LEAD_RANGE, 0, 1))
        self.shares_taken.add(share)
        z = self.view.features(context)
        scores = []
        for i in range(self.n_arms):
            mean, deviation = z @ self.mu[i], np.sqrt(self.b[i] / self.a[i] * (z @ self.cov[i] @ z))
            cov, mu, a, b = self.linear(i, self.of(i))
            x = z[-self.k :]
            mean = (1 - share) * mean + share * (x @ mu)
            deviation = (1 - share) * deviation + share * LINEAR_SCALE * np.sqrt(b / a * (x @ cov @ x))
            scores.append(mean + deviation * (self.optimism + self.temperature * t_draws[i]))
        return int(np.argmax(scores))

    def update(self, context: Array, arm: int, reward: float, decided: int, batches: list[list[int]]) -> None:
        """One round; `batches` holds the stamps of the batch of a round that trains."""
        context = np.array(context, dtype=np.float64)
        self.contexts.append(context)
        self.buffer.store(Tuple(decided, context, arm, reward))
        self.newest = max(self.newest, decided)
        self.late = max(self.late, self.newest - decided)
        for stamps in batches:
            batch = [self.buffer.find(stamp) for stamp in stamps]
            self.network.train(
                np.array([self.view.inputs(e.context) for e in batch]),
                np.array([e.arm for e in batch]),
                np.array([(np.clip(e.reward, *self.limits) - self.centre) / self.scale for e in batch]),
            )
        self.t += 1
        due = self.t - self.refitted >= min(GROWTH * self.t, self.capacity / 8)
        if due:
            self.rescale(decided)
        self.values[decided] = float(np.clip(reward, *self.limits))
        r, z = self.values[decided], self.view.features(context)
        earlier = [e for e in self.of(arm) if e.stamp != decided]
        played = self.arms[arm]
        cov, mu = self.believed(arm, earlier)
        a, b = A0 + played.count, A0 * self.scale**2 + played.errors
        density = student_t.logpdf(r, df=2 * a, loc=z @ mu, scale=np.sqrt(b / a * (1 + z @ cov @ z)))
        x = z[-self.k :]
        linear_cov, linear_mu, linear_a, b = self.linear(arm, earlier)
        scale = np.sqrt(b / linear_a * (1 + x @ linear_cov @ x))
        linear_density = student_t.logpdf(r, df=2 * a, loc=x @ linear_mu, scale=scale)  # with tails as heavy
        self.lead *= LEAD_DECAY
        if 2 * played.count >= self.k:
            self.lead += float(linear_density - density)
        played.errors += 0.5 * float((r - mu @ z) ** 2 / (1 + z @ cov @ z))
        played.count += 0.5
        if due:
            self.refit()
        for i in range(self.n_arms):
            self.cov[i], self.mu[i] = self.believed(i, self.of(i))
            self.a[i], self.b[i] = A0 + self.arms[i].count, A0 * self.scale**2 + self.arms[i].errors

    def of(self, i: int) -> list[Tuple]:
        """The tuples of an arm in the buffer."""
        return [e for e in self.buffer.tuples if e.arm == i]

    def rows(self, i: int, tuples: list[Tuple]) -> list[Row]:
        """What was evicted, and some tuples."""
        return [*self.arms[i].evicted, *(self.row(e) for e in tuples)]

    def row(self, e: Tuple) -> Row:
        """A tuple in the features of the view."""
        return self.view.features(e.context), self.values[e.stamp], 1.0

    def believed(self, i: int, tuples: list[Tuple]) -> tuple[Array, Array]:
        """Covariance and mean of an arm: its start, what was evicted, and some tuples."""
        arm = self.arms[i]
        P, psi = arm.precision.copy(), arm.precision @ np.append(np.zeros(self.d - 1), arm.centre)
        for z, r, weight in self.rows(i, tuples):
            P += weight * np.outer(z, z)
            psi += weight * r * z
        cov: Array = np.asarray(np.linalg.inv(P), dtype=np.float64)
        return cov, np.asarray(cov @ psi, dtype=np.float64)

    def linear(self, i: int, tuples: list[Tuple]) -> tuple[Array, Array, float, float]:
        """Covariance, mean, a and b of an arm by its context and the constant alone: exact."""
        arm = self.arms[i]
        P, psi, squares, count = arm.linear_precision.copy(), np.zeros(self.k), 0.0, 0.0
        for z, r, weight in self.rows(i, tuples):
            x, y = z[-self.k :], r - arm.centre
            P += weight * np.outer(x, x)
            psi += weight * y * x
            squares += weight * y**2
            count += 0.5 * weight
        cov: Array = np.asarray(np.linalg.inv(P), dtype=np.float64)
        mu = cov @ psi
        b = LINEAR_A0 * self.noise + 0.5 * float(squares - mu @ psi)
        return cov, mu + np.append(np.zeros(self.k - 1), arm.centre), LINEAR_A0 + count, b

    def rescale(self, decided: int) -> None:
        """Limits, centre and scale of the rewards, and the noise of all arms together."""
        beliefs = [self.linear(i, [e for e in self.of(i) if e.stamp != decided]) for i in range(self.n_arms)]
        errors = sum(b - LINEAR_A0 * self.noise for _, _, _, b in beliefs)
        count = sum(a - LINEAR_A0 for _, _, a, _ in beliefs)
        self.limits = self.reward_range or limits_of([e.reward for e in self.buffer.tuples])
        new = self.buffer.tuples[len(self.buffer.tuples) - (self.t - self.refitted) :]
        self.rewards += [float(np.clip(e.reward, *self.limits)) for e in new]
        self.centre = float(np.mean(self.rewards))
        self.scale = float(np.std(self.rewards)) or abs(self.centre) or 1.0
        if self.reward_range is not None:
            self.scale = max(self.scale, (self.reward_range[1] - self.reward_range[0]) / 2)
        self.noise = float((A0 * self.scale**2 + errors) / (A0 + count)) if self.refits else self.scale**2
        if not self.refits:
            for arm in self.arms:
                arm.centre = self.centre

    def refit(self) -> None:
        """Take over network and scales, look for a change, choose the width, and let every arm start anew."""
        noises = [[self.noise_of(i, linear) for i in range(self.n_arms)] for linear in (True, False)]
        mean, deviation = np.mean(self.contexts, axis=0), np.std(self.contexts, axis=0)
        deviation[deviation <= 1e-15 * np.abs(mean)] = np.inf
        self.view = View(copy.deepcopy(self.network), mean, deviation, np.sqrt(self.t))
        self.values = {e.stamp: float(np.clip(e.reward, *self.limits)) for e in self.buffer.tuples}
        start = self.started() / self.scale**2  # precisions of the weights
        closed = self.newest + 1 - max(self.late, self.late_before)
        tuples = self.in_shares()
        leaving = {e.stamp for e in self.buffer.tuples} - {e.stamp for e in tuples}
        weights, parts = [1.0] * self.n_arms, self.parts(closed, closed)
        windows = self.windows(closed)
        for since in windows:
            parts = self.parts(since, closed)
            weights = self.weights_of_past(start, parts, noises)
            if min(weights) < 1:
                break
        if windows:
            self.tested = closed
        for i, arm in enumerate(self.arms):
            if weights[i] < 1:
                parts[i] = ([(z, r, w * weights[i]) for z, r, w in parts[i][0]], parts[i][1])
                arm.evicted = parts[i][0]
                tuples = [e for e in tuples if e.arm != i]
                tuples += [e for e in self.of(i) if e.stamp >= since]
            else:
                arm.evicted = arm.evicted + [self.row(e) for e in self.of(i) if e.stamp in leaving]
        self.buffer.tuples = [e for e in self.buffer.tuples if e in tuples]
        self.width = self.best_width(start, parts, noises[0])
        for i, arm in enumerate(self.arms):
            count = 0.5 * (sum(w for _, _, w in arm.evicted) + len(self.of(i)))
            arm.errors *= count / arm.count if arm.count else 0.0
            arm.count = count
            arm.precision = start * (A0 * self.scale**2 + arm.errors) / (A0 + count)
            arm.linear_precision = self.narrowed(start, self.width) * self.noise
            arm.centre = self.centre
        self.refits += 1
        self.changes += min(weights) < 1
        self.refitted, self.late_before, self.late = self.t, self.late, 0

    def windows(self, closed: int) -> list[int]:
        """The stamps from which on decisions count as recent: those since the last test, then more of them."""
        new = [e for e in self.buffer.tuples if self.tested <= e.stamp < closed]
        if self.threshold == np.inf or len(new) < self.capacity / 8:
            return []
        number = max(int(closed / (self.capacity / 8)), 1)
        times = max(times for times in WINDOWS if number % times == 0)
        stamps = sorted(e.stamp for e in self.buffer.tuples if e.stamp < closed)
        longer = stamps[-int(times * self.capacity / 8) :][0]
        return [self.tested, longer] if longer < self.tested else [self.tested]

    def parts(self, since: int, closed: int) -> list[Part]:
        """Past and recent rows of every arm; rewards of later decisions may still be under way."""
        return [
            (
                self.rows(i, [e for e in self.of(i) if e.stamp < since]),
                [self.row(e) for e in self.of(i) if since <= e.stamp < closed],
            )
            for i in range(self.n_arms)
        ]

    def noise_of(self, i: int, linear: bool) -> float:
        """The noise of an arm by one of the regressions, before the refit."""
        if linear:
            _, _, a, b = self.linear(i, self.of(i))
            return b / a
        return (A0 * self.scale**2 + self.arms[i].errors) / (A0 + self.arms[i].count)

    def started(self) -> Array:
        """What hidden layer, context and constant add to a score has the variance of the rewards, or more."""
        h = self.network.weights[-1].shape[0]
        Z = np.array([self.view.features(e.context) for e in self.buffer.tuples])  # all, while there are few
        precisions: list[float] = []
        for part in (Z[:, :h], Z[:, h:-1], Z[:, -1:]):
            length2 = np.mean([np.sum(row**2) for row in part]) or 1.0  # of one tuple alone, nothing varies
            precisions += [float(length2) / max(self.n_arms / 6, 1.0)] * part.shape[1]
        return np.diag(precisions)

    def narrowed(self, start: Array, width: tuple[float, float]) -> Array:
        """Precisions of the linear regression for widths of the prior of context and constant."""
        linear = start[-self.k :, -self.k :].copy()
        linear[:-1] /= width[0]
        linear[-1] /= width[1]
        return linear

    def in_shares(self) -> list[Tuple]:
        """Take the tuple of the oldest decision of the arm that holds most, until the rest has room."""
        tuples = sorted(self.buffer.tuples, key=lambda e: e.stamp)
        while len(tuples) > self.capacity:
            held = [e.arm for e in tuples]
            tuples.pop(held.index(max(reversed(range(self.n_arms)), key=held.count)))
        return tuples

    def weights_of_past(self, start: Array, parts: list[Part], noises: list[list[float]]) -> list[float]:
        """The weights of the arms' past under which recent rewards are likeliest, if the regressions see a change."""
        found, alone = [], self.lead >= LEAD_RANGE
        for linear, noise in zip((True, False), noises, strict=True):
            if alone and not linear:
                continue
            P = self.narrowed(start, self.width) if linear else start
            gains = np.array(
                [[self.density(P, n, *part, w) for w in PAST_WEIGHTS] for n, part in zip(noise, parts, strict=True)]
            )
            gains -= gains[:, :1]
            every, cost = gains.sum(axis=0), np.log(self.n_arms) + 1
            single = sum(max(row.max() - cost, 0.0) for row in gains)
            if not max(every.max(), single) > (2 if alone else 1) * self.threshold:
                return [1.0] * self.n_arms
            if single > every.max():
                found.append([PAST_WEIGHTS[row.argmax()] if row.max() > cost else 1.0 for row in gains])
            else:
                found.append([PAST_WEIGHTS[every.argmax()]] * self.n_arms)
        return [max(weights) for weights in zip(*found, strict=True)]

    def density(self, P: Array, noise: float, past: list[Row], recent: list[Row], weight: float) -> float:
        """Log density of recent rewards given the weighted past, with known noise."""
        if not past or not recent:
            return 0.0
        k = len(P)
        Z, y = np.array([z[-k:] for z, _, _ in recent]), np.array([r for _, r, _ in recent]) - self.centre
        alone = y - Z @ np.linalg.solve(P * noise + Z.T @ Z, Z.T @ y)
        noise = max(noise, float(y @ alone) / len(y))
        info, h = P * noise, np.zeros(k)
        for z, r, w in past:
            info = info + weight * w * np.outer(z[-k:], z[-k:])
            h += weight * w * (r - self.centre) * z[-k:]
        cov = noise * (np.eye(len(y)) + Z @ np.linalg.inv(info) @ Z.T)
        return float(multivariate_normal.logpdf(y, Z @ np.linalg.solve(info, h), cov))

    def best_width(self, start: Array, parts: list[Part], noises: list[float]) -> tuple[float, float]:
        """First of the context, then of the constant: the widest prior within some nats of the best."""
        context, constant = self.width
        context = self.widest([(width, constant) for width in WIDTHS], SLACKS[0], start, parts, noises)[0]
        return self.widest([(context, width) for width in WIDTHS], SLACKS[1], start, parts, noises)

    def widest(
        self, widths: list[tuple[float, float]], slack: float, start: Array, parts: list[Part], noises: list[float]
    ) -> tuple[float, float]:
        """By the log densities of all closed rewards."""
        total = np.zeros(len(widths))
        for noise, (past, recent) in zip(noises, parts, strict=True):
            rows = [*past, *recent]
            if sum(w for _, _, w in rows) < 2:
                continue
            root = np.sqrt([w for _, _, w in rows])
            X = root[:, None] * np.array([z[-self.k :] for z, _, _ in rows])
            y = root * (np.array([r for _, r, _ in rows]) - self.centre)
            for place, width in enumerate(widths):
                cov = noise * np.eye(len(y)) + X @ np.linalg.inv(self.narrowed(start, width)) @ X.T
                total[place] += multivariate_normal.logpdf(y, np.zeros(len(y)), cov)
        return widths[int(np.argmax(total >= total.max() - slack))] if total.any() else self.width


def limits_of(rewards: list[float]) -> tuple[float, float]:
    """The deviation grows from that of the central half until it explains the rewards that are LIMIT times as far."""
    centre = float(np.median(rewards))
    distances = sorted(abs(r - centre) for r in rewards)[:-3]  # three rewards do not recur
    scale = 1.4826 * float(np.median(distances)) if distances else 0.0
    if scale == 0:
        return -np.inf, np.inf
    for _ in range(30):
        before = scale
        scale = max(scale, float(np.sqrt(np.mean([min(d, LIMIT * scale) ** 2 for d in distances]))))
        if scale < 1.01 * before:
            break
    return centre - LIMIT * scale, centre + LIMIT * scale
