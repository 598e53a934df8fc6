"""NeuralLinear-NTK: as if the features never changed, the ablation of baseline 8."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from lim2.agents.base import Array
from lim2.agents.neural import NeuralBeliever, Size
from lim2.exploration import Exploration
from lim2.exploration.posterior import rank_one
from lim2.representation import Representation


class NeuralLinearNTK(NeuralBeliever):
    """Limited memory neural-linear Thompson sampling under the NTK assumption.

    Each tuple enters the beliefs once, with its features at the time it was seen, and stays there for ever: no
    matching, no reset. The buffer only serves to train the network, one batch a round once a full batch has been seen;
    the last layer is the prior of the mean.

    Parameters
    ----------
    n_arms, n_features, hidden, buffer, batch, steps, initial_pulls, prior_precision, a0, b0, learning_rate, refresh, \
    intercept, exploration, representation, seed
        As for :class:`lim2.LiM2`.
    """

    name: ClassVar[str] = "NeuralLinear-NTK"

    def __init__(
        self,
        n_arms: int,
        n_features: Size = None,
        *,
        hidden: Sequence[int] = (50,),
        buffer: int | None = None,
        batch: int | None = None,
        steps: int = 1,
        initial_pulls: int = 2,
        prior_precision: float = 1.0,
        a0: float = 6.0,
        b0: float = 6.0,
        learning_rate: float = 0.1,
        refresh: str = "played",
        intercept: bool = False,
        exploration: str | Exploration = "thompson",
        representation: Representation | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            hidden=hidden,
            batch=batch,
            steps=steps,
            initial_pulls=initial_pulls,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            learning_rate=learning_rate,
            refresh=refresh,
            intercept=intercept,
            exploration=exploration,
            representation=representation,
            seed=seed,
            settings=locals(),
        )
        self.memory = self._make_buffer(buffer)
        self.prior_precision = float(prior_precision)
        self._reward_features = np.zeros_like(self.posterior.mu)  # psi, the sum of z r
        self._squares = np.zeros(self.n_arms)  # R^2, the sum of r^2

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        self.memory.add(context, arm, reward)
        z = self._features_like(context)
        rank_one(self.posterior.cov[arm], z)
        self._reward_features[arm] += reward * z
        self._squares[arm] += reward * reward
        if len(self.memory) >= min(self.batch, self.memory.capacity or self.batch):
            for _ in range(self.steps):
                batch = self.memory.sample(self.batch, self._learn_rng)
                self.representation.train_step(batch.contexts, batch.arms, batch.rewards)
        for refreshed in range(self.n_arms) if self.refresh == "all" else (arm,):
            self._refit(refreshed, plays=float(self.pulls[refreshed]) + (refreshed == arm))

    def _refit(self, arm: int, plays: float) -> None:
        """Set an arm's mean and noise from all its tuples and the current last layer."""
        prior_mean = self._last_layer(arm)
        target = self.prior_precision * prior_mean + self._reward_features[arm]
        mu = self.posterior.mu[arm]
        np.dot(self.posterior.cov[arm], target, out=mu)
        squares = self._squares[arm] + self.prior_precision * float(prior_mean @ prior_mean) - float(mu @ target)
        self.posterior.set_noise(arm, plays, max(squares, 0.0))
