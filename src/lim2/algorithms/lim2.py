"""NeuralLinear-LiM2: limited memory neural-linear Thompson sampling with likelihood matching, Algorithm 2."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from lim2 import memory
from lim2.algorithms import neural
from lim2.algorithms.base import Diagnostics
from lim2.exploration import StudentT
from lim2.exploration.posterior import Posterior, condition_all, fade_noise, score
from lim2.matching import Matching, Prior
from lim2.memory import Memory, sample, store
from lim2.representation.recomputed import Cache, Recompute
from lim2.state import Array, Count


class State(NamedTuple):
    """State of LiM2."""

    network: Any  # f
    posterior: Posterior  # mu, (Phi0 + Phi)^-1, A, B of every arm
    memory: Memory  # E
    prior_cov: Annotated[Array, "arm g g", "psd"] | None  # Phi0^-1; None: the posterior is the next prior
    floor: Annotated[Array, "arm", "nonnegative"]  # lower bounds of the prior covariances' eigenvalues
    plays: Annotated[Array, "arm", "nonnegative"]  # rewards of each arm, faded
    evicted_squares: Annotated[Array, "arm", "nonnegative"]  # sum of r^2 over what has left E
    rounds: Count  # t
    projections: Count
    cache: Cache | None


@dataclass(frozen=True, kw_only=True, eq=False)
class LiM2(neural.Neural):
    """The paper's agent: a network trained online, a linear posterior on its features, a bounded buffer.

    Every round stores the tuple, trains the network on one batch from the buffer, carries each arm's covariance over to
    the new features by likelihood matching, takes the last layer as the prior mean, and restarts the linear regression
    of every arm from this prior and the buffer. Time and memory per round are bounded.

    The defaults are the settings of the published runs; ``docs/decisions.md`` lists the choices that the paper leaves
    open. They expect contexts and rewards of order 1: use ``standardize=True`` for raw columns, and scale and centre
    rewards.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out if the representation knows it.
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    hidden
        Sizes of the network's hidden layers; the last is the number of features.
    buffer
        Number of tuples in the buffer, all arms together. None: 100 per arm.
    batch
        Number of tuples in a training batch. None: 16 per arm.
    steps
        Number of batches per round, the paper's P.
    initial_pulls
        Number of initial pulls of every arm, in turn.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, from 0 to 1.
    prior_precision
        Precision of the initial prior: its covariance is I / prior_precision.
    a0, b0
        Prior InvGamma(a0, b0) of the noise variance.
    learning_rate
        Initial rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    matching
        ``"batch"`` or ``"sample"`` (projected gradient steps), ``"solve"`` (transport), None (no matching); see
        :mod:`lim2.matching`.
    matching_rate
        Gradient rate of the first round; the rate of round t is 1/t of it.
    refresh
        Arms whose mean is refitted in a round: only the ``"played"`` arm, or ``"all"``.
    recount
        True: the last posterior, buffer included, is the prior to which the buffer is added again, as in the paper.
        False: only evicted tuples enter the prior.
    noise
        Data for the estimate of the noise: the whole ``"history"`` (evicted rewards count as noise, as in the published
        runs), or only the ``"buffer"``.
    intercept
        Whether to append a constant 1 to the features and include the last layer's bias in the prior mean.
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.
    recompute_every
        Number of rounds after which the features of the buffer are recomputed. The default, 1, recomputes everything
        in every round, as in the paper. Less is faster for large networks, see ``docs/representations.md``. The newest
        tuple, and the batch if it is matched, are always up to date.
    recompute_share
        Share of the buffer that is recomputed each time, in turn.
    mean_prior
        Whether the last layer is the prior mean, as in the paper. False: the prior mean is 0.
    matching_clip, matching_jitter, matching_ridge
        Further settings of the matching step, see :func:`lim2.matching.match`.
    standardize
        Whether to scale raw columns by their running mean and standard deviation. The buffer holds raw values. See
        ``docs/learning.md``.
    forget
        Share of all information that decays in every round, for problems that change: 0.001 for a memory of about
        1,000 rounds. 0: no forgetting. See ``docs/learning.md``.

    References
    ----------
    Nabati, Zahavy and Mannor, *Online limited memory neural-linear bandits with likelihood matching*, ICML 2021.

    Examples
    --------
    >>> import lim2
    >>> rng = np.random.default_rng(0)
    >>> agent = lim2.LiM2(n_arms=2, n_features=2, seed=0)
    >>> reward = 0.0
    >>> for context in rng.normal(size=(500, 2)):
    ...     arm = agent.act(context)
    ...     r = float(arm == (context[0] * context[1] > 0))
    ...     agent.update(context, arm, r)
    ...     reward += r
    >>> reward > 400  # chance: 250
    True
    >>> agent.state.memory.held, agent.rounds
    (200, 500)
    """

    buffer: int | None = None
    matching: str | None = "batch"
    matching_rate: float = 0.01
    refresh: str = "played"
    recount: bool = True
    noise: str = "history"
    recompute_every: int = 1
    recompute_share: float = 1.0
    mean_prior: bool = True
    matching_clip: float = 5.0
    matching_jitter: float = 1e-5
    matching_ridge: float = 0.01

    state_type: ClassVar[type[Any]] = State
    why_no_batches: ClassVar[str] = "its network trains for every reward, and a batch loses up to 35% of its reward"

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        neural.check_words(self.refresh, self.noise)
        _ = neural.buffer_size(self.buffer, len(self.names)), self._matcher, self._recompute

    @functools.cached_property
    def _matcher(self) -> Matching | None:
        rest = self.matching_rate, self.matching_clip, self.matching_jitter, self.matching_ridge
        matcher = Matching("batch" if self.matching is None else self.matching, *rest)  # checks them in any case
        return None if self.matching is None else matcher

    @functools.cached_property
    def _recompute(self) -> Recompute | None:
        return neural.recomputing(self.recompute_every, self.recompute_share)

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        """Return the initial state: Phi0 = I, mu = 0, E is empty."""
        return self._first(n_arms, self.net.init(self.shape, n_arms, rng))

    def _first(self, n_arms: int, network: Any) -> State:
        posterior, E = self.prior(n_arms), memory.empty(neural.buffer_size(self.buffer, n_arms), n_arms, self.shape)
        floor = np.full(n_arms, 1.0 / self.prior_precision)
        prior_cov = None if self.recount else posterior.cov
        return State(network, posterior, E, prior_cov, floor, np.zeros(n_arms), np.zeros(n_arms), 0, 0, None)

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        """Return the score phi' mu~ of every arm."""
        phi = self.net.features(state.network, contexts.reshape(-1, *self.shape))  # observe b(t), evaluate phi(t)
        return score(state.posterior, phi[0] if contexts.ndim == len(self.shape) else phi)

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Take one round of Algorithm 2 after the reward."""
        net, matcher, keep, n_arms = self.net, self._matcher, 1.0 - self.forget, len(state.plays)
        E, evicted = store(state.memory, context, arm, reward)  # store {b, a, r}; if E is full, remove the first of a
        weights = E.weights(keep) if self.forget else None  # what each tuple still counts; None: all alike
        f, cache, phi, training, moved = state.network, state.cache, None, None, None
        prior_cov: Any = state.posterior.cov if self.recount else state.prior_cov  # the posterior becomes the prior
        prior = Prior(prior_cov, state.floor, state.projections)
        left = state.evicted_squares * keep  # R^2 of what is in E no more
        if evicted is not None:
            weight = keep ** E.age(evicted.stamp) if self.forget else 1.0
            left[evicted.arm] += weight * evicted.reward**2
            if not self.recount:
                z = net.features(f, evicted.context[None]) * math.sqrt(weight / keep)
                prior = neural.absorbed(prior, evicted.arm, z)
        steps = self.steps if state.rounds else 0  # the first round has nothing to learn from yet
        for p in range(steps):  # for P steps
            batch = sample(E, self.batch or neural.BATCH_PER_ARM * n_arms, rng, weights)  # sample a batch from E
            old, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)  # phi_old; optimise omega
            if p == steps - 1:
                f = self.observe(f, context) if self.standardize else f
                phi, cache = neural.features_of(net, f, E, self._recompute, cache, batch if matcher else None)
            new = net.features(f, batch.contexts) if phi is None else phi.take(batch.slots, axis=0)
            moved = (prior, old, new, batch.groups, self.matching_rate / (state.rounds + 1))
            if matcher is not None:  # PGD, for every arm
                prior = matcher.step(*moved)
        if phi is None:
            f = self.observe(f, context)
            phi, cache = neural.features_of(net, f, E, self._recompute, cache, None)
        plays, posterior = state.plays * keep, state.posterior
        plays[arm] += 1.0
        if self.forget:  # everything known before this round counts less
            prior = neural.faded(prior, keep, self.prior_precision)
            posterior = fade_noise(posterior, keep, self.a0, self.b0)
        data = neural.weighted_rows(E, phi, weights)  # all of E under the new features, by arm
        spent = prior.cov if self.recount and prior.cov is not prior_cov else None  # a copy that may be written to
        cov, traces = condition_all(prior.cov, data[0], data[2], out=spent)  # (Phi0 + Phi)^-1, Phi = sum of phi phi'
        mu0 = net.last_layer(f)[0] if self.mean_prior else None  # the last layer's weights as prior means
        arms = (arm,) if self.refresh == "played" else range(n_arms)
        posterior = neural.fit_arms(self, posterior, cov, mu0, data, (plays, left), noise=self.noise, arms=arms)
        own, floor = (None, prior.floor / (1.0 + prior.floor * traces)) if self.recount else (prior.cov, prior.floor)
        new_state = State(f, posterior, E, own, floor, plays, left, state.rounds + 1, prior.projections, cache)
        return new_state, lambda: neural.report(net, f, E, training, matcher, moved, prior.projections)

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        """Return a state with one more arm: from the prior, or a copy of another."""
        new, rows = neural.with_new_arm(self, self.buffer, state, self._first(1, None), like, rng)
        E, prior = new.memory, Prior(new.prior_cov, new.floor, 0)
        for row in rows:  # what there is no room for counts as evicted
            weight = (1.0 - self.forget) ** E.age(int(E.stamps[row]))
            new.evicted_squares[-1] += weight * float(E.rewards[row]) ** 2
            if not self.recount:
                z = self.net.features(state.network, E.contexts[row][None]) * math.sqrt(weight)
                prior = neural.absorbed(prior, len(E.counts) - 1, z)
        return cast(State, new._replace(prior_cov=prior.cov, floor=prior.floor))

    def kinds(self) -> Mapping[str, Any]:
        """Return the type of the network, and whether there are separate priors."""
        return {**super().kinds(), "prior_cov": None if self.recount else Array}

    def remove_arm(self, state: State, arm: int) -> State:
        """Return a state without an arm; later arms move up."""
        return cast(State, neural.without_old_arm(self, self.buffer, state, arm))
