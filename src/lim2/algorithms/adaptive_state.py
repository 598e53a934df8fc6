"""State of AdaptiveTS: the initial one, and the one after adding or removing an arm."""

import copy
import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from lim2 import memory
from lim2.algorithms import refit, reward_scale
from lim2.algorithms.reward_scale import RewardScale
from lim2.algorithms.start import A0
from lim2.exploration import roots
from lim2.exploration.roots import LinearPosterior, RootPosterior, TriangularPosterior
from lim2.exploration.sums import Sums, no_sums
from lim2.memory import Memory
from lim2.representation.scaling import Moments, no_moments
from lim2.representation.view import View
from lim2.state import Array, Count, Ints, Write, Writes, with_arm, without_arm, written

if TYPE_CHECKING:
    from lim2.algorithms.adaptive_ts import AdaptiveTS


class State(NamedTuple):
    """State of AdaptiveTS. An arm has the new view once the current refit has reached it."""

    network: Any  # f, in training
    view: View
    before: View | None  # the view that arms from `moved` on still have; None: no refit is under way
    moved: Count
    posterior: RootPosterior
    linear: LinearPosterior  # the same without the hidden layer
    noise: Annotated[float, "", "positive"]  # at which that of the linear beliefs starts: of all arms together
    lead: float  # of the linear beliefs: how much larger the log density is that they gave rewards beforehand
    evicted: Sums  # over what has left the buffer, in the features of then; of rewards minus their origin
    memory: Memory  # E, the buffer
    moments: Moments | None  # of the columns
    rewards: RewardScale
    lengths: Annotated[Array, "g", "positive"]  # mean squared length of the group that a feature belongs to
    older: Annotated[Array, "arm older"]  # of its recent rewards, had what was learned before counted less
    oldest: Annotated[Ints, "arm", "count"]  # tuples with smaller stamps leave the buffer when the refit ends
    keep: Annotated[float, "", "positive"]  # what counts of that which was learned before a change; 1: there was none
    rounds: Count  # t
    refitted: Count  # the round in which the last refit began
    tested: Count  # what came since then is recent
    testing: Count  # 1 while a refit tests for a change
    refits: Count
    changes: Count


class ForItems(NamedTuple):
    """Part of the state that scores items: only features that can be nonzero, and triangular roots."""

    view: View
    kept: Ints  # these features, of all that the view gives
    posterior: TriangularPosterior
    linear: TriangularPosterior
    lead: float


def for_items(how: "AdaptiveTS", state: State) -> State | ForItems:
    """Return the part of the state that scores items, without columns that have never varied.

    They are 0 in every row, and so make no difference to a score; an encoder's free columns and buckets are such.
    """
    view = state.view
    if how.crossing is None or state.before is not None:
        return state
    kept, hidden = np.ones(how.width, dtype=bool), how.network.width
    if view.scaling is not None and view.projection is None:
        kept[hidden : hidden + len(view.scaling.factor)] = view.scaling.factor != 0.0
    beliefs, linear = roots.of_features(state.posterior, kept), roots.of_features(state.linear, kept[hidden:])
    return ForItems(view, np.flatnonzero(kept), beliefs, linear, state.lead)


def first_state(how: "AdaptiveTS", n_arms: int, view: View) -> State:
    """Return the initial state."""
    beliefs, evicted = roots.prior(n_arms, how.width, 1.0, A0, A0), no_sums(n_arms, how.width)
    linear = LinearPosterior(*roots.prior(n_arms, how.linear + 1, 1.0, A0, A0))
    E, moments = memory.empty(None, n_arms, how.shape), no_moments(how.shape) if how.takes_floats else None
    return State(
        view.network, view, None, 0, beliefs, linear, 1.0, 0.0, evicted, E, moments, reward_scale.NO_REWARDS,
        np.ones(how.width), np.zeros((n_arms, len(refit.OLDER))), np.zeros(n_arms, dtype=np.intp),
        1.0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip


def with_new_arm(how: "AdaptiveTS", state: State, like: int | None, rng: np.random.Generator) -> State:
    """Return a state with one more arm: from the prior, or a copy of another."""
    state, twin, n_arms = _finished(how, state), copy.deepcopy(rng), len(state.oldest) + 1
    E = memory.add_arm(state.memory, None)
    if like is not None:
        E, _ = memory.copy_tuples(E, like, n_arms - 1)
    fresh, net, (beliefs, linear) = first_state(how, 1, state.view), how.network, _new_beliefs(how, state, n_arms)
    return with_arm(state, like, fresh)._replace(
        network=net.add_arm(state.network, like, rng),
        view=state.view._replace(network=net.add_arm(state.view.network, like, twin)),
        posterior=with_arm(state.posterior, like, beliefs), linear=with_arm(state.linear, like, linear),
        evicted=with_arm(state.evicted, like, fresh.evicted), memory=E,
    )  # fmt: skip


def _new_beliefs(how: "AdaptiveTS", state: State, n_arms: int) -> tuple[RootPosterior, LinearPosterior]:
    """Return the priors of a new arm."""
    (precision, a, b), hidden, rewards = refit.start(how, state, n_arms), how.network.width, state.rewards
    mu, root, count = np.zeros((1, how.width)), np.diag(1.0 / np.sqrt(precision))[None], np.array([a])
    mu[0, -1] = rewards.mean
    own = root[:, hidden:, hidden:] * (rewards.scale / math.sqrt(state.noise))  # in units of another noise
    linear = LinearPosterior(mu[:, hidden:], own, count, np.array([a * state.noise]))
    return RootPosterior(mu, root, count, np.array([b])), linear


def without_old_arm(how: "AdaptiveTS", state: State, arm: int) -> State:
    """Return a state without an arm; later arms move up."""
    state, net = _finished(how, state), how.network
    return without_arm(state, arm)._replace(
        network=net.remove_arm(state.network, arm),
        view=state.view._replace(network=net.remove_arm(state.view.network, arm)),
        posterior=without_arm(state.posterior, arm), linear=without_arm(state.linear, arm),
        evicted=without_arm(state.evicted, arm), memory=memory.remove_arm(state.memory, arm, None),
    )  # fmt: skip


def _finished(how: "AdaptiveTS", state: State) -> State:
    """Refit the arms that are left, if a refit is under way."""
    while state.before is not None:
        rows: list[Write] = []
        state = written(Writes(refit.continued(how, state, rows), rows))
    return state
