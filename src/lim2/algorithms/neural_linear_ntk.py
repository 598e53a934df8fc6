"""NeuralLinearNTK: treats the features as if they never changed, the paper's baseline 8."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms.base import Diagnostics
from lim2.algorithms.neural import Neural, buffer_size, report, with_new_arm, without_old_arm
from lim2.checks import one_of
from lim2.exploration.posterior import Posterior, fade_noise, nearest_positive, rank_one
from lim2.exploration.sums import Sums, added, no_sums, solve_cov, solve_mean
from lim2.memory import Memory, sample, store
from lim2.state import Array, Count, Writes

# Squared features, in units of the prior, from which on a rank-one update can lose what is left of a variance.
LARGE = 1e6


class State(NamedTuple):
    """State of the algorithm."""

    network: Any  # f
    posterior: Posterior  # with the last layer as the prior of the mean
    memory: Memory  # E, to train from
    plain_mean: Annotated[Array, "arm g"]  # of the beliefs with prior mean 0, from which the posterior follows
    plain_squares: Annotated[Array, "arm", "nonnegative"]  # twice what the data add to their b
    plays: Annotated[Array, "arm", "nonnegative"]
    rounds: Count
    sums: Sums | None  # with forgetting: what the beliefs are solved from


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearNTK(Neural):
    """Limited memory neural-linear Thompson sampling under the NTK assumption.

    Each tuple enters the posterior once, with its features at that time, and stays there: no matching, no reset. The
    buffer is only used to train the network, with one batch per round once a full batch is stored. The last layer is
    the prior mean.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, buffer, batch, steps, initial_pulls, epsilon, prior_precision, a0, b0, \
    learning_rate, refresh, intercept, exploration, representation, seed, standardize, forget
        The same as for :class:`lim2.algorithms.LiM2`.
    """

    buffer: int | None = None
    refresh: str = "played"

    state_type: ClassVar[type[Any]] = State
    why_no_batches: ClassVar[str] = "its network trains for every reward, and a batch loses up to 35% of its reward"

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        one_of("refresh", self.refresh, ("played", "all"))
        buffer_size(self.buffer, len(self.names))

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the initial state."""
        return self._first(n_arms, self.net.init(self.shape, n_arms, rng))

    def _first(self, n_arms: int, network: Any) -> State:
        width, zeros = self.net.width, np.zeros(n_arms)
        E = memory.empty(buffer_size(self.buffer, n_arms), n_arms, self.shape)
        sums = no_sums(n_arms, width) if self.forget else None
        return State(network, self.prior(n_arms), E, np.zeros((n_arms, width)), zeros, zeros, 0, sums)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Add the tuple to the posterior with its current features, then train; the last layer is the prior mean."""
        net, n_arms, f, training = self.net, len(state.plays), state.network, None
        E, _ = store(state.memory, context, arm, reward)
        z = net.features(f, context[None])[0]
        weights = E.weights(1.0 - self.forget)
        for _ in range(self.steps if state.rounds + 1 >= self.batch_size(n_arms) else 0):
            batch = sample(E, self.batch_size(n_arms), rng, weights)
            _, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)
        f = self.observe(f, context)
        plays = state.plays.copy()
        plays[arm] += 1.0
        new = state._replace(network=f, memory=E, plays=plays, rounds=state.rounds + 1)
        mu0 = net.last_layer(f)[0]
        refreshed = range(n_arms) if self.refresh == "all" else (arm,)
        fit = self._fit if state.sums is None else self._fit_faded
        return fit(new, z, arm, reward, mu0, refreshed), lambda: report(net, f, E, training)

    def _fit(self, state: State, z: Array, arm: int, reward: float, mu0: Array, refreshed: Any) -> Writes:
        """Add a tuple to one arm's sums by a rank-one update, and refit some means.

        A prior mean mu0 moves the mean by lambda cov mu0, and r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu by
        lambda mu0'(mu0 - mu - m), with m the mean without it.
        """
        posterior, precision = state.posterior, self.prior_precision
        error = reward - float(np.dot(state.plain_mean[arm], z))
        cov, direction, scale = rank_one(posterior.cov[arm], z)
        if np.dot(z, z) > LARGE * precision:
            cov = nearest_positive(cov)
        plain = state.plain_mean[arm] + (error / scale) * direction
        squares = float(state.plain_squares[arm]) + error * error / scale
        mu, a, b = posterior.mu.copy(), posterior.a.copy(), posterior.b.copy()
        for i in refreshed:
            own = (cov, plain, squares) if i == arm else (posterior.cov[i], state.plain_mean[i], state.plain_squares[i])
            mu[i] = own[1] + precision * np.dot(own[0], mu0[i])
            moved = precision * float(np.dot(mu0[i], mu0[i] - mu[i] - own[1]))
            a[i], b[i] = self.a0 + 0.5 * state.plays[i], self.b0 + 0.5 * max(own[2] + moved, 0.0)
        rows = [(posterior.cov, arm, cov), (state.plain_mean, arm, plain), (state.plain_squares, arm, squares)]
        return Writes(state._replace(posterior=Posterior(mu, posterior.cov, a, b)), rows)

    def _fit_faded(self, state: State, z: Array, arm: int, reward: float, mu0: Array, refreshed: Any) -> State:
        """Let all arms fade, add a tuple to one of them, and refit some means."""
        keep = 1.0 - self.forget
        sums = added(state.sums, arm, z, reward, keep=keep)  # type: ignore[arg-type]
        cov = solve_cov(sums, self.prior_precision)
        posterior = fade_noise(state.posterior, keep, self.a0, self.b0)
        mu, a, b = posterior.mu.copy(), posterior.a, posterior.b
        for i in refreshed:
            mu[i], squares = solve_mean(sums, i, cov[i], self.prior_precision, mu0[i])
            a[i], b[i] = self.a0 + 0.5 * sums.weight[i], self.b0 + 0.5 * squares
        return state._replace(posterior=Posterior(mu, cov, a, b), sums=sums)

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        return cast(State, with_new_arm(self, self.buffer, state, self._first(1, None), like, rng)[0])

    def kinds(self) -> Mapping[str, Any]:
        """Return the type of the network, and whether there are sums."""
        return {**super().kinds(), "sums": Sums if self.forget else None}

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        return cast(State, without_old_arm(self, self.buffer, state, arm))
