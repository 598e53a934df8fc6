"""NeuralLinear-LiM2: limited memory neural-linear Thompson sampling with likelihood matching, Algorithm 2."""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import matching
from lim2.algorithms.base import Diagnostics
from lim2.algorithms.neural import Buffered, counted, report, sorted_by_arm
from lim2.exploration.posterior import Posterior, condition_all, refit
from lim2.matching import Matcher, Prior
from lim2.memory import Memory, sample, store
from lim2.state import Array, Count


class State(NamedTuple):
    """State of LiM2."""

    network: Any  # f
    posterior: Posterior  # mu_i, (Phi0_i + Phi_i)^-1, A_i, B_i
    memory: Memory  # E
    floor: Annotated[Array, "arm", "nonnegative"]  # lower bounds of the covariances' eigenvalues: few projections
    plays: Annotated[Array, "arm", "nonnegative"]
    evicted_squares: Annotated[Array, "arm", "nonnegative"]  # sum of r^2 over what has left E
    rounds: Count  # t
    projections: Count


@dataclass(frozen=True, kw_only=True, eq=False)
class LiM2(Buffered):
    """The paper's agent: a network trained online, a linear posterior on its features, a bounded buffer.

    Every round stores the tuple, trains the network on one batch from the buffer, carries each arm's covariance over to
    the new features by likelihood matching, takes the last layer as the prior mean, and restarts the linear regression
    of every arm from this prior and the buffer. Time and memory per round are bounded.

    The defaults are the settings of the published runs; ``docs/research/decisions/agents.md`` lists the choices that
    the paper leaves open. They expect contexts and rewards of order 1: use ``standardize=True`` for raw columns, and
    scale and centre rewards.

    Parameters
    ----------
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
        ``"batch"`` or ``"sample"`` (projected gradient steps), ``"solve"`` (transport), None (no matching), or an
        object such as ``lim2.matching.Matching("batch", rate=0.1)``.
    intercept
        Whether to append a constant 1 to the features and include the last layer's bias in the prior mean.
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.
    standardize
        Whether to scale raw columns by their running mean and standard deviation. The buffer holds raw values. See
        ``docs/concepts/learning.md``.

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

    matching: str | Matcher | None = "batch"

    state_type: ClassVar[type[Any]] = State
    why_no_batches: ClassVar[str] = "its network trains for every reward, and a batch loses up to 35% of its reward"

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        _ = self.matcher

    @functools.cached_property
    def matcher(self) -> Matcher:
        """Likelihood matching of all arms, the paper's PGD."""
        return matching.named(self.matching)

    def start(self, n_arms: int, f: Any) -> State:
        """Return the state of arms that were never played, with the DNN f."""
        posterior = self.prior(n_arms)  # Phi0_i = I, mu_i = 0, Phi_i = 0
        E = self.empty_memory(n_arms)  # initialize replay buffer E
        floor = np.full(n_arms, 1.0 / self.prior_precision)
        return State(f, posterior, E, floor, np.zeros(n_arms), np.zeros(n_arms), 0, 0)

    # Inherited are `init`, which begins with a new f, and `score`: evaluate phi(t), then phi(t)' mu~_i of every arm.

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Take one round of Algorithm 2 after the reward."""
        net, t, f, training, moved = self.net, state.rounds, state.network, None, None
        E, evicted = store(state.memory, context, arm, reward)  # store {b, a, r} in E; if E is full, remove the first
        prior = Prior(state.posterior.cov, state.floor, state.projections)  # (Phi0_i)^-1 <- (Phi0_i + Phi_i)^-1
        P = self.steps if t else 0  # the published runs train from the second round on
        E_phi: Any = None  # features of all of E under the f of the last step
        for p in range(P):  # for P steps
            batch = sample(E, self.batch_size(len(state.plays)), rng)  # sample batch {b_j, a_j, r_j} from E
            old, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)  # old features; optimize omega
            if p == P - 1:  # one pass over all of E, which has the batch
                f, E_phi = self.renewed(f, E, context)
            new = net.features(f, batch.contexts) if E_phi is None else E_phi[batch.slots]  # compute new features
            moved = prior, old, new, batch.groups, t
            prior = self.matcher.step(*moved)  # for all i: (Phi0_i)^-1 <- PGD((Phi0_i)^-1, e_old_i, e_i, alpha)
        if not P:
            f, E_phi = self.renewed(f, E, context)
        mu0 = net.last_layer(f)[0]  # use the current weights of the last layer of the DNN as a prior for mu0_i
        phi, r, bounds = sorted_by_arm(E, E_phi)  # phi^i_j and r_j of every i
        cov, traces = condition_all(prior.cov, phi, bounds)  # Phi_i = sum of phi_j phi_j'; (Phi0_i + Phi_i)^-1
        plays, squares = counted(state.plays, state.evicted_squares, arm, evicted)  # R^2_i of what has left E
        noise = self.a0 + 0.5 * plays, self.b0 + 0.5 * squares  # A_i = A0_i + t / 2, B_i = B0_i + R^2_i / 2 + ...
        posterior = refit(state.posterior, cov, mu0, (phi, r, bounds), noise, (arm,))  # posterior update: mu_a, B_a
        floor = prior.floor / (1.0 + prior.floor * traces)  # the largest precision grows by at most the trace of Phi_i
        new_state = State(f, posterior, E, floor, plays, squares, t + 1, prior.projections)
        return new_state, lambda: self.diagnose(new_state, training, moved)

    def diagnose(self, state: State, training: Any, moved: Any) -> dict[str, Any]:
        """Return the diagnostics of an update, with those of its matching step."""
        values = report(self.net, state.network, state.memory, training, moved and moved[1:3])
        if self.matching is not None:
            residual = matching.residual(self.matcher, *moved) if moved else None
            values |= {"projections": state.projections, "residual": residual}
        return values
