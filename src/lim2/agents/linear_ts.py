"""LinearTS: Thompson sampling on the raw context, the paper's Algorithm 1 with unknown noise."""

import copy
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar

from lim2.agents.base import Array, Sized
from lim2.agents.believer import Believer, with_intercept
from lim2.agents.checks import positive_int, share
from lim2.exploration import Exploration, RecursivePosterior, Summed
from lim2.standardize import Scaling, Standardizer

# The scaling in use follows the moments while few contexts are known, and then whenever so many more are: far less than
# moments vary by chance.
EVERY_UP_TO, GROWTH = 16, 1.05


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
    standardize
        Scale raw columns by their running mean and deviation. The beliefs stay exact: whenever the scaling in use is
        renewed, they are those of a regression on all contexts in that scaling.
    forget
        By what share all information decays in every round, 0.001 for a memory of about 1,000 rounds; see
        ``docs/learning.md``. An update then costs O(n_arms n_features^3).

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
    _kept: ClassVar[tuple[str, ...]] = (*Believer._kept, "standardizer", "scaling", "_renewed")
    _served: ClassVar[tuple[str, ...]] = (*Believer._served, "scaling")

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
        standardize: bool = False,
        forget: float = 0.0,
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
        self.forget = share("forget", forget)
        self.standardizer: Standardizer | None = None
        self.scaling: Scaling | None = None  # in use; it follows the standardizer's now and then
        self._renewed = 0.0
        if standardize:
            if not intercept:
                raise ValueError(
                    "standardize=True needs intercept=True: when a column's mean moves, an intercept takes it up"
                )
            self.standardizer = Standardizer(self.context_shape, self.forget)
            self.scaling = self.standardizer.scaling
        summed = standardize or self.forget > 0.0
        kind = Summed if summed else RecursivePosterior
        self.posterior: RecursivePosterior | Summed = kind(
            self.n_arms, self.n_features + self.intercept, prior_precision, a0, b0
        )

    @classmethod
    def _least_numbers(cls, n_arms: int, settings: Mapping[str, Any]) -> int:
        return n_arms * positive_int("n_features", settings["n_features"]) ** 2

    def _components(self) -> Iterable[Sized]:
        scaling = () if self.scaling is None or self.standardizer is None else (self.standardizer, self.scaling)
        return (self.posterior, *scaling)

    def _features(self, contexts: Array) -> Array:
        if self.scaling is not None:
            contexts = self.scaling(contexts)
        return with_intercept(contexts) if self.intercept else contexts

    def _before(self, arm: int) -> Any:  # noqa: ARG002
        # Without sums, one arm's belief changes in one go.
        sums = self.posterior.state() if isinstance(self.posterior, Summed) else None
        return sums, copy.copy(self.standardizer), self.scaling, self._renewed

    def _undo(self, before: Any) -> None:
        sums, self.standardizer, self.scaling, self._renewed = before
        if sums is not None:
            self.posterior.restore(sums)

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        renewed = self.standardizer is not None and self._renew_scaling(self.standardizer, context)
        z = self._features_like(context)
        if self.forget:
            self._summed.fade(1.0 - self.forget)
        if self.forget or renewed:
            self._summed.add(arm, z, reward)
            self._summed.solve()
        else:
            self.posterior.observe(arm, z, reward)

    @property
    def _summed(self) -> Summed:
        assert isinstance(self.posterior, Summed)
        return self.posterior

    def _renew_scaling(self, standardizer: Standardizer, context: Array) -> bool:
        """Take a context into the moments; where that makes the scaling in use out of date, renew it and say so."""
        standardizer.observe(context)
        count = standardizer.count
        used = self.scaling or standardizer.scaling
        due = self.forget or count <= EVERY_UP_TO or count >= GROWTH * self._renewed or not used.covers(context)
        if due:
            self._summed.move(standardizer.scaling.map_from(used))
            self.scaling, self._renewed = standardizer.scaling, count
        return bool(due)
