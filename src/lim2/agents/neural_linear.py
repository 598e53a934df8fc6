"""NeuralLinear: full memory, trained in phases; baseline 2."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

from lim2.agents.neural import NeuralLinearFamily, Size
from lim2.agents.priors import Fixed
from lim2.exploration import Exploration
from lim2.memory import History
from lim2.representation import Representation


class NeuralLinear(NeuralLinearFamily):
    """Neural-linear Thompson sampling that remembers everything.

    Between phases the beliefs are updated exactly with the features as they are. Every ``train_every`` rounds the
    network is trained on ``steps`` batches from all history, all features are computed again, and every arm's belief
    starts again from them. Memory grows with the number of rounds, and so does the cost of a phase.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, batch, initial_pulls, min_propensity, prior_precision, a0, b0, learning_rate, \
    intercept, exploration, representation, seed, standardize, forget
        As for :class:`lim2.LiM2`.
    train_every, steps
        Rounds between training phases, and batches in a phase.

    References
    ----------
    Riquelme, Tucker and Snoek, *Deep Bayesian bandits showdown*, ICLR 2018.
    """

    name: ClassVar[str] = "NeuralLinear"

    def __init__(
        self,
        n_arms: int | None = None,
        n_features: Size = None,
        *,
        arms: Iterable[Hashable] | None = None,
        hidden: int | Sequence[int] = (50,),
        batch: int | None = None,
        steps: int = 800,
        train_every: int = 400,
        initial_pulls: int = 2,
        min_propensity: float = 0.0,
        prior_precision: float = 0.25,
        a0: float = 6.0,
        b0: float = 6.0,
        learning_rate: float = 0.1,
        intercept: bool = False,
        exploration: str | Exploration = "thompson",
        representation: Representation | None = None,
        seed: int | None = None,
        standardize: bool = False,
        forget: float = 0.0,
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            arms=arms,
            hidden=hidden,
            batch=batch,
            steps=steps,
            train_every=train_every,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            learning_rate=learning_rate,
            refresh="all",
            intercept=intercept,
            exploration=exploration,
            representation=representation,
            seed=seed,
            mean_prior=False,
            standardize=standardize,
            forget=forget,
            settings=locals(),
        )
        self.memory = History(self.n_arms, self.context_shape, self._context_dtype)
        self.prior = Fixed(self.posterior.mu.shape[1], prior_precision)
