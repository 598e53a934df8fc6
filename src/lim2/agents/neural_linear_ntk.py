"""NeuralLinear-NTK: as if the features never changed, the ablation of baseline 8."""

import copy
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from lim2._arrays import with_row, without_row
from lim2.agents.base import Array
from lim2.agents.neural import NeuralBeliever, Size
from lim2.exploration import Exploration, Summed
from lim2.exploration.posterior import rank_one
from lim2.representation import Representation


class NeuralLinearNTK(NeuralBeliever):
    """Limited memory neural-linear Thompson sampling under the NTK assumption.

    Each tuple enters the beliefs once, with its features at the time it was seen, and stays there for ever: no
    matching, no reset. The buffer only serves to train the network, one batch a round once a full batch has been seen;
    the last layer is the prior of the mean.

    Parameters
    ----------
    n_arms, n_features, arms, hidden, buffer, batch, steps, initial_pulls, min_propensity, prior_precision, a0, b0, \
    learning_rate, refresh, intercept, exploration, representation, seed, standardize, forget
        As for :class:`lim2.LiM2`.
    """

    name: ClassVar[str] = "NeuralLinear-NTK"

    _kept: ClassVar[tuple[str, ...]] = (*NeuralBeliever._kept, "_plain_mean", "_plain_squares")

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
        initial_pulls: int = 2,
        min_propensity: float = 0.0,
        prior_precision: float = 1.0,
        a0: float = 6.0,
        b0: float = 6.0,
        learning_rate: float = 0.1,
        refresh: str = "played",
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
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            learning_rate=learning_rate,
            refresh=refresh,
            intercept=intercept,
            exploration=exploration,
            representation=representation,
            seed=seed,
            summed=True,
            standardize=standardize,
            forget=forget,
            settings=locals(),
        )
        self.memory = self._make_buffer(buffer)
        self.prior_precision = float(prior_precision)
        # Beliefs with prior mean 0, from which those with the last layer as prior mean follow.
        self._plain_mean = np.zeros_like(self.posterior.mu)
        self._plain_squares = np.zeros(self.n_arms)

    @property
    def nbytes(self) -> int:
        """Bytes that the agent's state occupies."""
        return super().nbytes + self._plain_mean.nbytes + self._plain_squares.nbytes

    def _add_arm(self, like: int | None) -> None:
        super()._add_arm(like)
        self._plain_mean = with_row(self._plain_mean, 0.0 if like is None else self._plain_mean[like])
        self._plain_squares = with_row(self._plain_squares, 0.0 if like is None else self._plain_squares[like])
        if like is not None:
            self._copy_tuples(like)

    def _remove_arm(self, arm: int) -> None:
        super()._remove_arm(arm)
        self._plain_mean = without_row(self._plain_mean, arm)
        self._plain_squares = without_row(self._plain_squares, arm)

    def _before(self, arm: int) -> Any:
        plain = self._plain_mean.copy(), self._plain_squares.copy(), copy.copy(self.standardizer)
        return self.memory.stored, self._note_training(None if self.forget else arm), plain

    def _undo(self, before: Any) -> None:
        stored, trained, (self._plain_mean, self._plain_squares, self.standardizer) = before
        self._undo_storing(stored)
        self._undo_training(trained)

    def _learn(self, context: Array, arm: int, reward: float) -> None:
        self.memory.stage(context, arm, reward)
        z = self._features_like(context)
        self._train()
        self.memory.commit()
        self._rescale(context)
        refreshed = range(self.n_arms) if self.refresh == "all" else (arm,)
        if isinstance(self.posterior, Summed):
            self._learn_fading(self.posterior, z, arm, reward, refreshed)
            return
        surprise = reward - float(np.dot(self._plain_mean[arm], z))
        direction, scale = rank_one(self.posterior.cov[arm], z)
        self._plain_mean[arm] += (surprise / scale) * direction
        self._plain_squares[arm] += surprise * surprise / scale
        for each in refreshed:
            self._refit(each, plays=self._plays(each) + (each == arm))

    def _learn_fading(self, beliefs: Summed, z: Array, arm: int, reward: float, refreshed: Iterable[int]) -> None:
        """Let all arms forget, and add a tuple to one of them."""
        beliefs.fade(1.0 - self.forget)
        beliefs.fade_noise(1.0 - self.forget)
        beliefs.add(arm, z, reward)
        for each in range(self.n_arms):
            beliefs.solve_cov(each)
        for each in refreshed:
            squares = beliefs.solve_mean(each, self._last_layer(each))
            beliefs.set_noise(each, float(beliefs.weight[each]), squares)

    def _train(self) -> None:
        """Train on batches from the buffer, once a full batch has been seen."""
        if self.rounds + 1 >= self.batch:
            weights = self.memory.fading(1.0 - self.forget) if self.forget else None
            for _ in range(self.steps):
                batch = self.memory.sample(self.batch, self._learn_rng, weights)
                self.representation.train_step(self._inputs(batch.contexts), batch.arms, batch.rewards)

    def _refit(self, arm: int, plays: float) -> None:
        """Set an arm's mean and noise from all its tuples and the current last layer.

        A prior mean mu0 moves the mean by lambda cov mu0, and r'r + mu0'Phi0 mu0 - mu'(Phi0 + Phi)mu by
        lambda mu0'(mu0 - mu - m), m the mean without it.
        """
        prior_mean, plain, mu = self._last_layer(arm), self._plain_mean[arm], self.posterior.mu[arm]
        np.add(plain, self.prior_precision * np.dot(self.posterior.cov[arm], prior_mean), out=mu)
        moved = self.prior_precision * float(np.dot(prior_mean, prior_mean - mu - plain))
        self.posterior.set_noise(arm, plays, max(self._plain_squares[arm] + moved, 0.0))
