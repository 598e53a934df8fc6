"""NeuralLinear-Naive: limited memory without priors, the ablation of baseline 7."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

from lim2.agents.neural import NeuralLinearFamily, Size
from lim2.agents.priors import Fixed
from lim2.exploration import Exploration
from lim2.representation import Representation


class NeuralLinearNaive(NeuralLinearFamily):
    """LiM2 without its priors: every training restarts the beliefs from N(0, I / prior_precision) and the buffer.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, buffer, batch, steps, initial_pulls, min_propensity, prior_precision, a0, b0, \
    learning_rate, refresh, noise, intercept, exploration, representation, seed, recompute_every, recompute_share, \
    standardize, forget
        As for :class:`lim2.LiM2`.
    train_every
        Rounds between training phases. 1: every round, online. With more, as in the forgetting experiment
        (``train_every=400, steps=800``), the beliefs are exact between phases and start again at each.
    """

    name: ClassVar[str] = "NeuralLinear-Naive"

    def __init__(
        self,
        n_arms: int | None = None,
        n_features: Size = None,
        *,
        arms: Iterable[Hashable] | None = None,
        hidden: int | Sequence[int] = (50,),
        buffer: int | None = None,
        batch: int | None = None,
        steps: int = 1,
        train_every: int = 1,
        initial_pulls: int = 2,
        min_propensity: float = 0.0,
        prior_precision: float = 1.0,
        a0: float = 6.0,
        b0: float = 6.0,
        learning_rate: float = 0.1,
        refresh: str = "played",
        noise: str = "history",
        intercept: bool = False,
        exploration: str | Exploration = "thompson",
        representation: Representation | None = None,
        seed: int | None = None,
        recompute_every: int = 1,
        recompute_share: float = 1.0,
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
            refresh=refresh,
            noise=noise,
            intercept=intercept,
            exploration=exploration,
            representation=representation,
            seed=seed,
            recompute_every=recompute_every,
            recompute_share=recompute_share,
            mean_prior=False,
            standardize=standardize,
            forget=forget,
            settings=locals(),
        )
        self.memory = self._make_buffer(buffer)
        self.prior = Fixed(self.posterior.mu.shape[1], prior_precision)
