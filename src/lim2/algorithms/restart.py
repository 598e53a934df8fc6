"""The round of MM, Naive and full-memory NeuralLinear: after training, the regression restarts from a fixed prior.

The posteriors under the old features are dropped. Every arm's posterior restarts from the covariance I /
prior_precision and the tuples in memory. The three algorithms differ in the prior of the mean, in the memory, and in
how often they train; each says so in its own file.
"""

import itertools
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms import neural
from lim2.algorithms.base import Diagnostics
from lim2.checks import positive_int
from lim2.exploration.posterior import Posterior, condition_all, fade_noise, observe
from lim2.exploration.sums import Sums, added, no_sums, solve
from lim2.memory import Memory, sample, store
from lim2.representation.recomputed import Cache, Recompute
from lim2.state import Array, Count, Writes


class State(NamedTuple):
    """State of the algorithm."""

    network: Any  # f
    posterior: Posterior
    memory: Memory  # E
    plays: Annotated[Array, "arm", "nonnegative"]  # rewards of each arm, faded
    evicted_squares: Annotated[Array, "arm", "nonnegative"]  # sum of r^2 over what has left the memory
    rounds: Count
    sums: Sums | None  # what beliefs that fade between two phases of training are solved from
    cache: Cache | None


class Round(NamedTuple):
    """Differences between the three algorithms."""

    mean_prior: bool  # the last layer as the prior of the mean, or 0
    train_every: int  # rounds from one training to the next
    bounded: bool  # whether the memory is a buffer, or keeps everything
    buffer: int | None = None  # the size of the buffer; None: 100 per arm
    refresh: str = "all"  # whose mean a training refits: that of the "played" arm, or "all"
    noise: str = "history"  # what the noise is estimated from: all "history", or the "buffer"
    recompute: Recompute | None = None  # which features of the memory are computed anew; None for all


@dataclass(frozen=True, kw_only=True, eq=False)
class Restart(neural.Neural):
    """The round, to which an algorithm adds its settings and what it does in its own way."""

    state_type: ClassVar[type[Any]] = State
    why_no_batches: ClassVar[str] = "its network trains for every reward, and a batch loses up to 35% of its reward"

    @property
    @abstractmethod
    def round(self) -> Round:
        """The algorithm's own choices in the round."""

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        neural.check_words(self.round.refresh, self.round.noise)
        positive_int("train_every", self.round.train_every)
        neural.buffer_size(self.round.buffer, len(self.names))

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the initial state."""
        return self._first(n_arms, self.net.init(self.shape, n_arms, rng))

    def _first(self, n_arms: int, network: Any) -> State:
        capacity = neural.buffer_size(self.round.buffer, n_arms) if self.round.bounded else None
        sums = no_sums(n_arms, self.net.width) if self.forget and self.round.train_every > 1 else None
        E, zeros = memory.empty(capacity, n_arms, self.shape), np.zeros(n_arms)
        return State(network, self.prior(n_arms), E, zeros, zeros, 0, sums, None)

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
            return between, lambda: neural.report(net, f, E, None)

        f, training, old = state.network, None, None
        for _ in range(self.steps if state.rounds else 0):  # the first round has nothing to learn from yet
            batch = sample(E, self.batch_size(n_arms), rng, weights)
            old, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)
        f = self.observe(f, context)
        phi, cache = neural.features_of(net, f, E, round_.recompute, state.cache, None)
        data = neural.weighted_rows(E, phi, weights)
        cov, _ = condition_all(np.eye(net.width) / self.prior_precision, data[0], data[2])  # the fixed prior, all of E
        mu0 = net.last_layer(f)[0] if round_.mean_prior else None
        arms = (arm,) if round_.refresh == "played" and round_.train_every == 1 else range(n_arms)
        posterior = neural.fit_arms(self, posterior, cov, mu0, data, (plays, left), noise=round_.noise, arms=arms)
        sums = None if state.sums is None else _sums(*data, *((plays, left) if round_.noise == "history" else ()))

        moved = None if old is None else (None, old, phi.take(batch.slots, axis=0))
        new = new._replace(network=f, posterior=posterior, sums=sums, cache=cache)
        return new, lambda: neural.report(net, f, E, training, moved=moved)

    def _between_trainings(self, state: State, context: NDArray[Any], arm: int, reward: float) -> State | Writes:
        """Add a tuple to the posterior under fixed features: exactly, or from faded sums with forgetting."""
        z = self.net.features(state.network, context[None])[0]
        if state.sums is None:
            return Writes(state, observe(state.posterior, arm, z, reward))
        sums = added(state.sums, arm, z, reward, keep=1.0 - self.forget)
        return state._replace(posterior=solve(sums, self.prior_precision, self.a0, self.b0), sums=sums)

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        new, rows = neural.with_new_arm(self, self.round.buffer, state, self._first(1, None), like, rng)
        for row in rows:  # what there is no room for counts as evicted
            weight = (1.0 - self.forget) ** new.memory.age(int(new.memory.stamps[row]))
            new.evicted_squares[-1] += weight * float(new.memory.rewards[row]) ** 2
        return cast(State, new)

    def kinds(self) -> Mapping[str, Any]:
        """Return the type of the network, and whether there are sums."""
        return {**super().kinds(), "sums": Sums if self.forget and self.round.train_every > 1 else None}

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        return cast(State, neural.without_old_arm(self, self.round.buffer, state, arm))


def _sums(
    Z: Array, r: Array, bounds: list[int], held: Array, plays: Array | None = None, left: Array | None = None
) -> Sums:
    """Return the sums over all rows; with all history, its plays and the squares of which no features are held."""
    pieces = [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
    gram, cross = np.array([Z[own].T @ Z[own] for own in pieces]), np.array([r[own] @ Z[own] for own in pieces])
    squares = np.array([r[own] @ r[own] for own in pieces])
    return Sums(gram, cross, squares if left is None else squares + left, held if plays is None else plays)
