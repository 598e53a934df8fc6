"""LiM2Variant: LiM2 with its pieces taken out or exchanged, for the ablation.

Importing this module registers it, so that :func:`lim2.load` knows its files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from lim2.agent import Agent
from lim2.agents import register
from lim2.algorithms import LiM2
from lim2.algorithms.base import Diagnostics
from lim2.algorithms.neural import counted, sorted_by_arm
from lim2.checks import one_of
from lim2.exploration.posterior import Posterior, condition, condition_all, refit
from lim2.matching import Matching, Prior
from lim2.memory import Memory, sample, store
from lim2.state import Array, Count, Ints

RATE = 0.01  # of the matching step


class State(NamedTuple):
    """State of a variant."""

    network: Any
    posterior: Posterior
    memory: Memory
    prior_cov: Annotated[Array, "arm g g", "psd"] | None  # Phi0^-1; None: the posterior is the next prior
    floor: Annotated[Array, "arm", "nonnegative"]
    plays: Annotated[Array, "arm", "nonnegative"]
    evicted_squares: Annotated[Array, "arm", "nonnegative"]
    rounds: Count
    projections: Count


@dataclass(frozen=True, kw_only=True, eq=False)
class LiM2Variant(LiM2):
    """LiM2 with settings that only its ablation has; by default the same as :class:`lim2.algorithms.LiM2`.

    ``refresh``: the mean of only the ``"played"`` arm is refitted, or of ``"all"``. ``recount``: the last posterior,
    buffer included, is the prior to which the buffer is added again, as in the paper; otherwise only evicted tuples
    enter the prior. ``noise`` is estimated from the whole ``"history"`` (evicted rewards count as noise, as in the
    published runs), or only from the ``"buffer"``. ``mean_prior``: the last layer is the prior mean, as in the paper,
    or 0.
    """

    refresh: str = "played"
    recount: bool = True
    noise: str = "history"
    mean_prior: bool = True

    state_type: ClassVar[type[Any]] = State

    def validate(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        super().validate()
        one_of("refresh", self.refresh, ("played", "all"))
        one_of("noise", self.noise, ("history", "buffer"))

    def start(self, n_arms: int, f: Any) -> State:  # type: ignore[override]  # with a prior of its own
        """Return the state before the first round."""
        begun = super().start(n_arms, f)._asdict()
        return State(**begun, prior_cov=None if self.recount else self.prior(n_arms).cov)

    def learn(  # type: ignore[override]
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Take one round, with some lines of Algorithm 2 exchanged."""
        net, t, f, training, moved = self.net, state.rounds, state.network, None, None
        E, evicted = store(state.memory, context, arm, reward)
        cov0 = state.posterior.cov if state.prior_cov is None else state.prior_cov
        prior = Prior(cov0, state.floor, state.projections)
        if evicted is not None and not self.recount:
            prior = absorbed(prior, evicted.arm, net.features(f, evicted.context[None]))
        P = self.steps if t else 0
        E_phi: Any = None
        for p in range(P):
            batch = sample(E, self.batch_size(len(state.plays)), rng)
            old, f, training = net.train(f, batch.contexts, batch.arms, batch.rewards)
            if p == P - 1:
                f, E_phi = self.renewed(f, E, context)
            new = net.features(f, batch.contexts) if E_phi is None else E_phi[batch.slots]
            moved = prior, old, new, batch.groups, t
            prior = self.matcher.step(*moved)
        if not P:
            f, E_phi = self.renewed(f, E, context)
        mu0 = net.last_layer(f)[0] if self.mean_prior else np.zeros_like(state.posterior.mu)
        phi, r, bounds = sorted_by_arm(E, E_phi)
        cov, traces = condition_all(prior.cov, phi, bounds)
        plays, squares = counted(state.plays, state.evicted_squares, arm, evicted)
        rewards = (plays, squares) if self.noise == "history" else (E.counts.astype(np.float64), np.zeros_like(squares))
        noise = self.a0 + 0.5 * rewards[0], self.b0 + 0.5 * rewards[1]
        arms = (arm,) if self.refresh == "played" else range(len(plays))
        posterior = refit(state.posterior, cov, mu0, (phi, r, bounds), noise, arms)
        prior_cov, floor = (None, prior.floor / (1.0 + prior.floor * traces)) if self.recount else prior[:2]
        new_state = State(f, posterior, E, prior_cov, floor, plays, squares, t + 1, prior.projections)
        return new_state, lambda: self.diagnose(new_state, training, moved)  # type: ignore[arg-type]

    def without_room(self, state: State, rows: Ints) -> State:
        """Return the state after rows of memory were evicted that there was no room to copy for the newest arm."""
        state, E = cast(State, super().without_room(state, rows)), state.memory
        if state.prior_cov is None:
            return state
        prior = Prior(state.prior_cov, state.floor, 0)
        for row in rows:
            prior = absorbed(prior, len(E.counts) - 1, self.net.features(state.network, E.contexts[row][None]))
        return state._replace(prior_cov=prior.cov, floor=prior.floor)

    def kinds(self) -> Mapping[str, Any]:
        """Return the type of the network, and whether there are separate priors."""
        return {**super().kinds(), "prior_cov": None if self.recount else Array}


def absorbed(prior: Prior, arm: int, z: Array) -> Prior:
    """Add the features (1, g) of an evicted tuple to its arm's prior."""
    cov, floor = prior.cov.copy(), prior.floor.copy()
    cov[arm] = condition(cov[arm], z)
    floor[arm] /= 1.0 + floor[arm] * float(np.sum(z * z))
    return Prior(cov, floor, prior.projections)


def variant(*sizes: int, matching: str | None = "batch", matching_rate: float = RATE, **settings: Any) -> Agent:
    """Return an agent with one of the variants."""
    matcher = matching if matching_rate == RATE else Matching(matching or "batch", rate=matching_rate)
    return Agent(LiM2Variant(*sizes, matching=matcher, **settings))


register(LiM2Variant)
