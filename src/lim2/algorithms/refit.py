"""A refit of AdaptiveTS: arms move to new features and scales, a few per round, so that no round takes long.

When a refit begins, the network in training becomes part of a new view, and columns and rewards are scaled by the
moments of all that was learned from. Then arm after arm is refitted: from the start in these scales, from sums over
what has left the buffer, and from the buffer in the new features. When it ends, tuples that are among the sums leave
the buffer. A refit may also test whether recent rewards contradict what was learned before them: if they are likelier
when that counts less, all arms together, then another refit begins in which it does.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from lim2 import memory
from lim2.algorithms import reward_scale
from lim2.algorithms.reward_scale import RewardScale
from lim2.algorithms.start import A0, ITEM_VARIANCE, variance_of
from lim2.exploration.evidence import Start, block, centred, fit, forgetting, of_arm, split, sums_of, times, total
from lim2.exploration.roots import Beliefs, Roots
from lim2.exploration.sums import Sums
from lim2.representation.scaling import observe_many, scaling
from lim2.representation.view import View, squared_lengths
from lim2.state import Write

if TYPE_CHECKING:
    from lim2.algorithms.adaptive_state import State
    from lim2.algorithms.adaptive_ts import AdaptiveTS

OLDER = (1.0, 16.0, 256.0)  # what was learned before a change may count less by these factors
GROWTH, PART = 0.2, 8  # a refit is due after a fifth of the rounds, or an eighth of the buffer
BATCH_PART = 3  # where rewards come in batches, after a third of it
ARMS_PER_ROUND = 4
SAMPLE = 512  # tuples from which the size of the features is measured


def is_due(how: "AdaptiveTS", state: "State", k: int = 1) -> bool:
    """Return whether a refit should begin, if none is under way: it is time, or there was a change.

    ``k`` is the number of rewards that came at once.
    """
    new, part = state.rounds - state.refitted, PART if k == 1 else BATCH_PART
    return state.keep < 1.0 or new >= min(GROWTH * state.rounds, how.capacity(len(state.oldest)) / part)


def start(how: "AdaptiveTS", state: "State", n_arms: int) -> Start:
    """Return the prior of an arm.

    What hidden layer, context and constant add to its score each have the variance of the rewards, or more. The
    precisions are in units of the noise, which is at first as large as the variance of the rewards.
    """
    variance = variance_of(n_arms) if how.crossing is None else ITEM_VARIANCE
    return Start(state.lengths / variance, A0, A0 * state.rewards.scale**2)


def begun(how: "AdaptiveTS", state: "State") -> "State":
    """Start a refit: a new view with the trained network and the current scales."""
    E, t, n_arms = state.memory, state.rounds, len(state.oldest)
    rows = E.rows()
    new = rows[E.stamps.take(rows) >= state.refitted]
    rewards = reward_scale.observe(state.rewards, E.rewards[new], how.least_scale)
    moments = None if state.moments is None else observe_many(state.moments, E.contexts[new])
    view = View(state.network, None if moments is None else scaling(moments), state.view.projection)
    Z = how.features(view, E.contexts[rows[:: -(-E.held // SAMPLE)]])
    spread, centre = rewards.scale**2, None if state.refits else rewards.mean
    noise = _pooled(state.linear, state.noise, spread) if state.refits else spread
    capacity, steady = how.capacity(n_arms), state.keep == 1.0
    oldest = memory.oldest_in_shares(E, capacity) if steady else np.full(n_arms, state.tested, dtype=np.intp)
    tests = steady and how.change_threshold < math.inf and t - state.tested >= capacity / PART
    return state._replace(
        view=view, before=state.view, posterior=_restarted(state.posterior, state.rewards.scale**2, spread, centre),
        linear=_restarted(state.linear, state.noise, noise, centre), noise=noise, moments=moments, rewards=rewards,
        lengths=squared_lengths(Z, how.network.width), oldest=oldest, refitted=t,
        testing=int(tests), refits=state.refits + 1,
    )  # fmt: skip


def continued(how: "AdaptiveTS", state: "State", rows: list[Write], rounds: int = 1) -> "State":
    """Refit the next arms, as many as are due in so many rounds, and end the refit if they are the last.

    Adds to ``rows``, those of the tuples that were counted in these rounds, if any. The beliefs without the hidden
    layer are refitted from a block of the same sums.
    """
    E, rewards, n_arms = state.memory, state.rewards, len(state.oldest)
    first, older, hidden = start(how, state, n_arms), state.older.copy(), how.network.width
    linear_first = Start(first.precision[hidden:], A0, A0 * state.noise)
    arms = range(state.moved, min(state.moved + rounds * ARMS_PER_ROUND, n_arms))
    count, errors = state.posterior.a.copy(), state.posterior.b.copy()  # with those rows
    for array, i, value in rows:
        if array is state.posterior.a:
            count[i] = value
        elif array is state.posterior.b:
            errors[i] = value
    for i, own in zip(arms, memory.rows_of(E, arms), strict=True):
        Z, r, stamps = how.features(state.view, E.contexts[own]), E.rewards[own] - rewards.origin, E.stamps[own]
        past, recent = split(Z, r, stamps < state.tested)
        gone, leaves = of_arm(state.evicted, i), stamps < state.oldest[i]
        past = total(gone, past)
        if state.keep < 1.0:
            past = gone = times(past, state.keep)
        elif leaves.any():
            gone = total(gone, sums_of(Z[leaves], r[leaves]))
        past, recent = (centred(part, rewards.mean - rewards.origin) for part in (past, recent))
        data = total(past, recent)
        older[i] = forgetting(first, past, recent, OLDER) if state.testing else 0.0
        noise = float(count[i]) - A0, float(errors[i]) - first.b
        rows += _refitted(state.posterior, i, first, data, rewards, noise)
        rows += _refitted_linear(state.linear, i, linear_first, block(data, hidden), rewards)
        rows += [(array, i, row) for array, row in zip(state.evicted, gone, strict=True)]
    new = state._replace(older=older, moved=arms.stop)
    return new if arms.stop < n_arms else _ended(how, new)


def _refitted(
    beliefs: Roots, i: int, first: Start, data: Sums, rewards: RewardScale, noise: tuple[float, float]
) -> list[Write]:
    """Return the rows of an arm refitted from the prior and the data.

    ``noise`` is what a and b have grown by. It stays that of the errors made before a tuple was learned from: features
    that were trained on the buffer fit it too well. The start stays in the scale of the rewards, so that in units of a
    smaller noise it is wider.
    """
    count, errors = noise
    a, b = A0 + 0.5 * float(data.weight), first.b
    if count > 0.0:
        b += errors * (a - A0) / count
    mean, root = fit(first.precision * (b / a / rewards.scale**2), data)
    mean[-1] += rewards.mean
    return [(array, i, row) for array, row in zip(beliefs, (mean, root, a, b), strict=True)]


def _refitted_linear(beliefs: Roots, i: int, first: Start, data: Sums, rewards: RewardScale) -> list[Write]:
    """Return the rows of the linear posterior; without training, the noise can be estimated from the data."""
    a = A0 + 0.5 * float(data.weight)
    mean, root = fit(first.precision * (first.b / A0 / rewards.scale**2), data)
    b = first.b + 0.5 * max(float(data.squares) - float(np.dot(mean, data.cross)), 0.0)
    mean[-1] += rewards.mean
    return [(array, i, row) for array, row in zip(beliefs, (mean, root, a, b), strict=True)]


def _restarted(beliefs: Beliefs, before: float, after: float, centre: float | None) -> Beliefs:
    """Return beliefs whose noise starts at another variance; what was learned of it stays.

    With a centre nothing was learned: until the first refit rewards had neither a scale nor a centre.
    """
    mu, root, a, b = beliefs
    if centre is None:
        return type(beliefs)(mu, root, a, A0 * after + np.maximum(b - A0 * before, 0.0))
    mu = mu.copy()
    mu[:, -1] = centre
    return type(beliefs)(mu, root, a, np.full(len(b), A0 * after))


def _pooled(beliefs: Roots, before: float, spread: float) -> float:
    """Return the noise of all arms together, which starts at the variance of the rewards."""
    errors = float(np.maximum(beliefs.b - A0 * before, 0.0).sum())
    return (A0 * spread + errors) / (A0 + float(np.maximum(beliefs.a - A0, 0.0).sum()))


def _ended(how: "AdaptiveTS", state: "State") -> "State":
    """End a refit: tuples that are among the sums now leave the buffer. See whether there was a change."""
    E, keep, density = state.memory, 1.0, state.older.sum(axis=0)
    held = E.rows()
    stays = E.stamps.take(held) >= state.oldest.take(E.arms.take(held))
    if state.testing and density.max() - density[0] > how.change_threshold:
        keep = 1.0 / OLDER[int(density.argmax())]
    over = keep == 1.0 and (state.testing or state.keep < 1.0)  # the next test is about what comes from now on
    return state._replace(
        memory=E if stays.all() else memory.kept(E, stays), before=None, moved=0, keep=keep, testing=0,
        tested=state.refitted if over else state.tested, changes=state.changes + (state.keep < 1.0),
    )  # fmt: skip
