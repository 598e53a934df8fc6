"""LinearTS: Thompson sampling on the raw context, the paper's Algorithm 1 with unknown noise."""

from collections.abc import Hashable, Iterable
from typing import ClassVar

from lim2.agents.base import Array, Sized
from lim2.agents.believer import Believer, with_intercept
from lim2.exploration import Exploration, RecursivePosterior


class LinearTS(Believer):
    """Thompson sampling for linear contextual bandits.

    The belief about each arm is exact Bayesian linear regression on the context, kept up to date by rank-one updates:
    O(n_features^2) an update, and no memory of the past besides. The priors expect rewards of the order of 1.

    Parameters
    ----------
    n_arms, n_features
        Number of arms, and size of a context.
    arms
        Instead of ``n_arms``: what the arms are called, any hashable values.
    intercept
        Append a constant 1 to the context, as in the published runs.
    initial_pulls
        How often every arm is played, in turn, at the start.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    prior_precision
        The weights start at N(0, noise / prior_precision).
    a0, b0
        The noise variance starts at InvGamma(a0, b0).
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``.
    seed
        The same seed and inputs give the same decisions.

    References
    ----------
    Agrawal and Goyal, *Thompson sampling for contextual bandits with linear payoffs*, ICML 2013.
    Riquelme, Tucker and Snoek, *Deep Bayesian bandits showdown*, ICLR 2018 (the unknown noise).

    Examples
    --------
    >>> agent = LinearTS(n_arms=2, n_features=1, initial_pulls=0, seed=0)
    >>> agent.update([1.0], 0, 1.0)
    >>> agent.means([1.0]).round(3).tolist()
    [0.889, 0.0]
    """

    name: ClassVar[str] = "LinearTS"

    def __init__(
        self,
        n_arms: int | None = None,
        n_features: int | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        intercept: bool = True,
        initial_pulls: int = 2,
        min_propensity: float = 0.0,
        prior_precision: float = 0.25,
        a0: float = 6.0,
        b0: float = 6.0,
        exploration: str | Exploration = "thompson",
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            arms=arms,
            exploration=exploration,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            seed=seed,
            settings=locals(),
        )
        self.intercept = bool(intercept)
        self.posterior: RecursivePosterior = RecursivePosterior(
            self.n_arms, self.n_features + self.intercept, prior_precision, a0, b0
        )

    def _components(self) -> Iterable[Sized]:
        return (self.posterior,)

    def _features(self, contexts: Array) -> Array:
        return with_intercept(contexts) if self.intercept else contexts

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        self.posterior.observe(arm, self._features_like(context), reward)
