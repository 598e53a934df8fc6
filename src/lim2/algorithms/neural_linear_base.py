"""The round of MM, Naive and full-memory NeuralLinear: after training, the regression restarts from a fixed prior.

The posteriors under the old features are dropped. Every arm's posterior restarts from the covariance I /
prior_precision and the tuples in memory. The three algorithms differ in the prior of the mean, in the memory, and in
how often they train; each says so in its own file.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Diagnostics
from lim2.algorithms.neural import Neural, counted, report, sorted_by_arm
from lim2.checks import positive_int
from lim2.exploration.posterior import Posterior, condition_all, observe, refit
from lim2.memory import Memory, sample, store
from lim2.state import Array, Count, Writes


class State(NamedTuple):
    """State of the algorithm."""

    network: Any  # f
    posterior: Posterior
    memory: Memory  # E
    plays: Annotated[Array, "arm", "nonnegative"]
    evicted_squares: Annotated[Array, "arm", "nonnegative"]  # sum of r^2 over what has left the memory
    rounds: Count


class Round(NamedTuple):
    """Differences between the three algorithms."""

    mean_prior: bool  # the last layer as the prior of the mean, or 0
    train_every: int  # rounds from one training to the next
    all_arms: bool  # whether a training refits the mean of every arm, or only that of the one played


@dataclass(frozen=True, kw_only=True, eq=False)
class Restart(Neural):
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
        positive_int("train_every", self.round.train_every)

    def start(self, n_arms: int, f: Any) -> State:
        """Return the state of arms that were never played, with a network."""
        zeros = np.zeros(n_arms)
        return State(f, self.prior(n_arms), self.empty_memory(n_arms), zeros, zeros, 0)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State | Writes, Diagnostics]:
        """Return the state after one more reward."""
        net, (mean_prior, train_every, all_arms), n_arms = self.net, self.round, len(state.plays)
        E, evicted = store(state.memory, context, arm, reward)
        plays, squares = counted(state.plays, state.evicted_squares, arm, evicted)
        new = state._replace(memory=E, plays=plays, evicted_squares=squares, rounds=state.rounds + 1)
        if new.rounds % train_every:
            new = new._replace(network=self.observe(state.network, context))
            z = net.features(new.network, context[None])[0]
            rows = observe(state.posterior, arm, z, reward)  # exact, because the features are fixed
            return Writes(new, rows), lambda: report(net, new.network, E, None)

        f, training, old = state.network, None, None
        for _ in range(self.steps if state.rounds else 0):  # the first round has nothing to learn from yet
            batch = sample(E, self.batch_size(n_arms), rng)
            old, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)
        f, features = self.renewed(f, E, context)
        phi, r, bounds = sorted_by_arm(E, features)
        cov, _ = condition_all(np.eye(net.width) / self.prior_precision, phi, bounds)  # the fixed prior, all of E
        mu0 = net.last_layer(f)[0] if mean_prior else np.zeros((n_arms, net.width))
        arms, noise = range(n_arms) if all_arms else (arm,), (self.a0 + 0.5 * plays, self.b0 + 0.5 * squares)
        new = new._replace(network=f, posterior=refit(state.posterior, cov, mu0, (phi, r, bounds), noise, arms))
        change = None if old is None else (old, features.take(batch.slots, axis=0))
        return new, lambda: report(net, f, E, training, change)
