"""The round of MM, Naive and full-memory NeuralLinear: after training, the regression restarts from a fixed prior.

What was believed under the old features is dropped. Every arm's belief restarts from the covariance I / prior_precision
and the tuples in memory. The three algorithms differ in the prior of the mean, in the memory, and in how often they
train; each says so in its own file.
"""

import itertools
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms.base import Diagnostics, rms
from lim2.algorithms.neural import (
    Neural,
    buffer_size,
    features_of,
    fit_arms,
    grown_memory,
    like_rows,
    report,
    shrunk_memory,
    weighted_rows,
)  # fmt: skip
from lim2.checks import one_of, positive_int
from lim2.exploration.posterior import Posterior, condition_all, fade_noise, observe
from lim2.exploration.sums import Sums, added, no_sums, solve
from lim2.memory import Memory, sample, store
from lim2.representation.recomputed import Cache, Recompute
from lim2.state import Array, Count, Writes, with_arm, without_arm


class State(NamedTuple):
    """What is known after some rounds."""

    network: Any  # f
    posterior: Posterior
    memory: Memory  # E
    plays: Annotated[Array, "arm", "nonnegative"]  # rewards of each arm, faded
    evicted_squares: Annotated[Array, "arm", "nonnegative"]  # sum of r^2 over what has left the memory
    rounds: Count
    sums: Sums | None  # what beliefs that fade between two phases of training are solved from
    cache: Cache | None


class Round(NamedTuple):
    """What the three algorithms differ in."""

    mean_prior: bool  # the last layer as the prior of the mean, or 0
    train_every: int  # rounds from one training to the next
    bounded: bool  # whether the memory is a buffer, or keeps everything
    buffer: int | None = None  # the size of the buffer; None: 100 per arm
    refresh: str = "all"  # whose mean a training refits: that of the "played" arm, or "all"
    noise: str = "history"  # what the noise is estimated from: all "history", or the "buffer"
    recompute: Recompute | None = None  # which features of the memory are computed anew; None for all


@dataclass(frozen=True, kw_only=True, eq=False)
class Restart(Neural):
    """The round, to which an algorithm adds its settings and what it does in its own way."""

    state_type: ClassVar[type[Any]] = State

    @property
    @abstractmethod
    def round(self) -> Round:
        """What the algorithm does in its own way."""

    def validate(self) -> None:
        """Raise a ValueError if a setting makes no sense."""
        super().validate()
        one_of("refresh", self.round.refresh, ("played", "all"))
        one_of("noise", self.round.noise, ("history", "buffer"))
        positive_int("train_every", self.round.train_every)
        buffer_size(self.round.buffer, len(self.names))

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the state before the first reward."""
        round_ = self.round
        return State(
            network=self.net.init(self.shape, n_arms, rng),
            posterior=self.prior(n_arms),
            memory=memory.empty(buffer_size(round_.buffer, n_arms) if round_.bounded else None, n_arms, self.shape),
            plays=np.zeros(n_arms),
            evicted_squares=np.zeros(n_arms),
            rounds=0,
            sums=no_sums(n_arms, self.net.width) if self.forget and round_.train_every > 1 else None,
            cache=None,
        )

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Return the state after one more reward."""
        net, round_, keep, n_arms = self.net, self.round, 1.0 - self.forget, len(state.plays)
        E, evicted = store(state.memory, context, arm, reward)
        weights = E.weights(keep)
        plays, left, posterior = state.plays * keep, state.evicted_squares * keep, state.posterior
        plays[arm] += 1.0
        if evicted is not None:
            left[evicted.arm] += keep ** E.age(evicted.stamp) * evicted.reward**2
        if self.forget:
            posterior = fade_noise(posterior, keep, self.a0, self.b0)
        new = state._replace(memory=E, plays=plays, evicted_squares=left, rounds=state.rounds + 1)
        if new.rounds % round_.train_every:
            f = self.observe(state.network, context)
            between = self._between_trainings(new._replace(network=f, posterior=posterior), context, arm, reward)
            return between, lambda: report(net, f, E, None)

        f, training, old = state.network, None, None
        for _ in range(self.steps if state.rounds else 0):  # the first round has nothing to learn from yet
            batch = sample(E, self.batch_size(n_arms), rng, weights)
            old, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)
        f = self.observe(f, context)
        phi, cache = features_of(net, f, E, round_.recompute, state.cache, None)
        Z, r, bounds, held = weighted_rows(E, phi, weights)
        cov, _ = condition_all(np.eye(net.width) / self.prior_precision, Z, bounds)  # the fixed prior, and all of E
        mu0 = net.last_layer(f)[0] if round_.mean_prior else None
        noise = (plays, left) if round_.noise == "history" else (held, np.zeros(n_arms))
        refreshed = (arm,) if round_.refresh == "played" and round_.train_every == 1 else range(n_arms)
        posterior = fit_arms(posterior, cov, refreshed, mu0, (Z, r, bounds), *noise, (self.a0, self.b0))
        sums = None if state.sums is None else _sums(Z, r, bounds, *noise)

        def diagnostics() -> dict[str, Any]:
            told = report(net, f, E, training)
            return told if old is None else told | {"drift": rms(phi.take(batch.rows, axis=0) - old, old)}

        return new._replace(network=f, posterior=posterior, sums=sums, cache=cache), diagnostics

    def _between_trainings(self, state: State, context: NDArray[Any], arm: int, reward: float) -> State | Writes:
        """Add a tuple to the beliefs under features that stay: exactly, or with forgetting from faded sums."""
        z = self.net.features(state.network, context[None])[0]
        if state.sums is None:
            return Writes(state, observe(state.posterior, arm, z, reward))
        sums = added(state.sums, arm, z, reward, keep=1.0 - self.forget)
        return state._replace(posterior=solve(sums, self.prior_precision, self.a0, self.b0), sums=sums)

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or like another."""
        fresh, E, none = self.prior(1), grown_memory(state.memory, self.round.buffer), no_sums(1, self.net.width)
        new = with_arm(state, like, State(None, fresh, E, np.zeros(1), np.zeros(1), 0, none, None))._replace(
            network=self.net.add_arm(state.network, like, rng),
            posterior=with_arm(state.posterior, like, fresh),
            sums=None if state.sums is None else with_arm(state.sums, like, none),
        )
        if like is None:
            return new._replace(memory=E)
        E, rows = like_rows(E, like)
        for row in rows:  # what there is no room for counts as evicted
            weight = (1.0 - self.forget) ** E.age(int(E.stamps[row]))
            new.evicted_squares[-1] += weight * float(E.rewards[row]) ** 2
        return new._replace(memory=E)

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; those after it move up."""
        return without_arm(state, arm)._replace(
            network=self.net.remove_arm(state.network, arm),
            posterior=without_arm(state.posterior, arm),
            memory=shrunk_memory(state.memory, arm, self.round.buffer),
            sums=None if state.sums is None else without_arm(state.sums, arm),
        )


def _sums(Z: Array, r: Array, bounds: list[int], weight: Array, left: Array) -> Sums:
    """Return the sums over all rows; ``left`` are squared rewards of which no features are known."""
    pieces = [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
    gram, cross = np.array([Z[own].T @ Z[own] for own in pieces]), np.array([r[own] @ Z[own] for own in pieces])
    return Sums(gram, cross, np.array([r[own] @ r[own] for own in pieces]) + left, weight)
