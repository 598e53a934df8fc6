"""ThompsonSampling: Thompson sampling that ignores the context; Beta posteriors for 0/1 rewards, else Student-t."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Algorithm, Diagnostics, nothing_to_report
from lim2.exploration import Exploration, StudentT
from lim2.exploration.beta import BetaThompson
from lim2.state import Array, Count, Ints, Writes, put, with_arm, without_arm

MEAN_WEIGHT, VARIANCE_WEIGHT = 1.0, 10.0  # of the prior, in rewards


class State(NamedTuple):
    """Moments of the rewards of every arm, and of all rewards, which stay when arms come and go."""

    counts: Annotated[Array, "arm", "nonnegative"]
    means: Annotated[Array, "arm"]
    squares: Annotated[Array, "arm", "nonnegative"]  # sums of squared deviations from the mean
    total: Annotated[float, "", "nonnegative"]
    centre: float
    spread: Annotated[float, "", "nonnegative"]  # sum of squared deviations from the centre
    others: Count  # rewards that were neither 0 nor 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ThompsonSampling(Algorithm):
    """Thompson sampling without contexts, for the arm that is best on average.

    While all rewards are 0 or 1, the rate of every arm has a uniform prior and a Beta posterior. Otherwise rewards are
    normal with unknown mean and variance. With m and s^2 the mean and the variance of all rewards, the prior of an arm
    counts as one reward of m, and as 10 rewards whose variance is s^2: with few rewards, the variance of an arm is
    about that of the others. The score of an arm is its mean, which then is Student-t.

    Parameters
    ----------
    n_features
        Size of a context, which is ignored.
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    initial_pulls
        Number of initial pulls of every arm, in turn.
    min_propensity
        Smallest probability of choosing each eligible arm; at most 1 / n_arms.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.

    References
    ----------
    Thompson, *On the likelihood that one unknown probability exceeds another in view of the evidence of two samples*,
    Biometrika 1933. Chapelle and Li, *An empirical evaluation of Thompson sampling*, NeurIPS 2011.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.ThompsonSampling(n_arms=2, n_features=1, initial_pulls=0, seed=0)
    >>> for reward in (1.0, 1.0, 0.0):
    ...     agent.update([0.0], 0, reward)
    >>> agent.means([0.0]).tolist(), agent.propensities([0.0]).round(3).tolist()  # Beta(3, 2) and Beta(1, 1)
    ([0.6, 0.5], [0.6, 0.4])
    """

    state_type: ClassVar[type[Any]] = State
    draws: ClassVar[bool] = False
    batches: ClassVar[bool] = True

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        if self.n_item_features is not None:
            raise ValueError(
                "ThompsonSampling has one posterior per arm and cannot share it between items: pass the names of the "
                "arms, or use AdaptiveTS or LinearTS for items with features"
            )

    @property
    def policy(self) -> Exploration:
        """Draws from Beta or Student-t posteriors."""
        return BetaThompson()

    def init(self, n_arms: int, rng: np.random.Generator) -> State:  # noqa: ARG002
        """Return the initial state."""
        return State(np.zeros(n_arms), np.zeros(n_arms), np.zeros(n_arms), 0.0, 0.0, 0.0, 0)

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the posterior of every arm's mean reward, the same for all contexts."""
        mean, scale, freedom = student(state) if state.others else beta(state)
        shape = (*contexts.shape[:-1], len(mean))
        return StudentT(np.broadcast_to(mean, shape), np.broadcast_to(scale, shape), freedom)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator  # noqa: ARG002
    ) -> tuple[Writes, Diagnostics]:  # fmt: skip
        """Add one reward to the moments of its arm, and of all rewards."""
        count, mean, squares = with_reward(state.counts[arm], state.means[arm], state.squares[arm], reward)
        total, centre, spread = with_reward(state.total, state.centre, state.spread, reward)
        others = state.others + (reward not in (0.0, 1.0))
        new = state._replace(total=float(total), centre=float(centre), spread=float(spread), others=others)
        rows = [(state.counts, arm, count), (state.means, arm, mean), (state.squares, arm, squares)]
        return Writes(new, rows), nothing_to_report

    def learn_many(
        self, state: State, contexts: NDArray[Any], arms: Ints, rewards: Array, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Add rewards one after the other."""
        new = state._replace(counts=state.counts.copy(), means=state.means.copy(), squares=state.squares.copy())
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            step, _ = self.learn(new, contexts, arm, reward, rng)
            put(step.rows)  # into the copies
            new = step.state
        return new, nothing_to_report

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        return with_arm(state, like, self.init(1, rng))

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        return without_arm(state, arm)

    def check(self, state: State) -> None:
        """Raise a ValueError if a loaded state is impossible; types and shapes are already checked."""
        if state.others > state.total:
            raise ValueError(f"{state.others} rewards are neither 0 nor 1, but there were {state.total} in all")
        if not state.others and not ((state.means >= 0.0) & (state.means <= 1.0)).all():
            raise ValueError("means must be from 0 to 1 where all rewards are 0 or 1")


def with_reward(count: Any, mean: Any, squares: Any, reward: float) -> tuple[Any, Any, Any]:
    """Return number, mean and sum of squared deviations with one more reward, by Welford's recursion.

    Examples
    --------
    >>> with_reward(1.0, 2.0, 0.0, 4.0)
    (2.0, 3.0, 2.0)
    """
    distance = reward - mean
    after = mean + distance / (count + 1.0)
    return count + 1.0, after, squares + distance * (reward - after)


def beta(state: State) -> tuple[Array, Array, Array]:
    """Return mean and standard deviation of Beta(1 + ones, 1 + zeros); see `BetaThompson`."""
    n = state.counts
    mean = (1.0 + n * state.means) / (n + 2.0)
    return mean, np.sqrt(mean * (1.0 - mean) / (n + 3.0)), np.full(len(n), np.inf)


def student(state: State) -> tuple[Array, Array, Array]:
    """Return location, scale and degrees of freedom of the means under a normal-inverse-gamma prior."""
    n, distance = state.counts, state.means - state.centre
    variance = state.spread / state.total or state.centre**2  # rewards that have not varied: their size
    weight, freedom = MEAN_WEIGHT + n, VARIANCE_WEIGHT + n
    squares = VARIANCE_WEIGHT * variance + state.squares + MEAN_WEIGHT * n / weight * distance**2
    return state.centre + n / weight * distance, np.sqrt(squares / freedom / weight), freedom
