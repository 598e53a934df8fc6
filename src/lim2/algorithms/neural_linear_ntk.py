"""NeuralLinearNTK: treats the features as if they never changed, the paper's baseline 8."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Diagnostics
from lim2.algorithms.neural import Buffered, report
from lim2.exploration.posterior import Posterior, nearest_positive, rank_one
from lim2.memory import Memory, sample, store
from lim2.state import Array, Count, Ints, Writes

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


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralLinearNTK(Buffered):
    """Limited memory neural-linear Thompson sampling under the NTK assumption.

    Each tuple enters the posterior once, with its features at that time, and stays there: no matching, no reset. The
    buffer is only used to train the network, with one batch per round once a full batch is stored. The last layer is
    the prior mean.

    Its settings are those of :class:`lim2.algorithms.LiM2`.
    """

    state_type: ClassVar[type[Any]] = State
    why_no_batches: ClassVar[str] = "its network trains for every reward, and a batch loses up to 35% of its reward"

    def start(self, n_arms: int, f: Any) -> State:
        """Return the state of arms that were never played, with a network."""
        mean, zeros = np.zeros((n_arms, self.net.width)), np.zeros(n_arms)
        return State(f, self.prior(n_arms), self.empty_memory(n_arms), mean, zeros, zeros, 0)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[Writes, Diagnostics]:
        """Add the tuple to the posterior with its current features, then train; the last layer is the prior mean."""
        net, n_arms, f, training = self.net, len(state.plays), state.network, None
        E, _ = store(state.memory, context, arm, reward)
        z = net.features(f, context[None])[0]
        for _ in range(self.steps if state.rounds + 1 >= self.batch_size(n_arms) else 0):
            batch = sample(E, self.batch_size(n_arms), rng)
            _, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)
        plays = state.plays.copy()
        plays[arm] += 1.0
        new = state._replace(network=self.observe(f, context), memory=E, plays=plays, rounds=state.rounds + 1)
        return self._fit(new, z, arm, reward), lambda: report(net, new.network, E, training)

    def _fit(self, state: State, z: Array, arm: int, reward: float) -> Writes:
        """Add a tuple to one arm's sums by a rank-one update, and refit its mean.

        A prior mean mu0 moves the mean by lambda cov mu0, and r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu by
        lambda mu0'(mu0 - mu - m), with m the mean without it.
        """
        posterior, precision, mu0 = state.posterior, self.prior_precision, self.net.last_layer(state.network)[0][arm]
        error = reward - float(np.dot(state.plain_mean[arm], z))
        cov, direction, scale = rank_one(posterior.cov[arm], z)
        if np.dot(z, z) > LARGE * precision:
            cov = nearest_positive(cov)
        plain = state.plain_mean[arm] + (error / scale) * direction
        squares = float(state.plain_squares[arm]) + error * error / scale
        mean = plain + precision * np.dot(cov, mu0)
        moved = precision * float(np.dot(mu0, mu0 - mean - plain))
        a, b = self.a0 + 0.5 * state.plays[arm], self.b0 + 0.5 * max(squares + moved, 0.0)
        rows = [(state.plain_mean, arm, plain), (state.plain_squares, arm, squares)]
        rows += [(posterior.mu, arm, mean), (posterior.cov, arm, cov), (posterior.a, arm, a), (posterior.b, arm, b)]
        return Writes(state, rows)

    def without_room(self, state: State, rows: Ints) -> State:  # noqa: ARG002
        """Return the state as it is: the posterior has every tuple."""
        return state
