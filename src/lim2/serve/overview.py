"""What the page shows of a bandit, computed from its log."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.evaluation.estimators import mean_of, snips
from lim2.serve import wire
from lim2.serve.history import complete, recent
from lim2.serve.hosted import Hosted

Array = NDArray[np.float64]

LATEST = 50  # decisions that are shown one by one
EXPLAINED = 100  # of the latest decisions, for what the model has learned
SHOWN_ARMS = 12  # arms that have a share of their own; the others share one
OTHERS = "(others)"
AVERAGED = 500  # of the latest decisions, for the mean that is live
LEVEL = 0.95


def info_of(hosted: Hosted) -> wire.BanditInfo:
    """Return how a bandit is doing.

    Parameters
    ----------
    hosted
        The bandit.
    """
    state = hosted.log.state
    return wire.BanditInfo(
        name=hosted.name,
        spec=hosted.stored.spec,
        created=hosted.stored.created,
        decisions=state.pending + state.rewards + state.defaults + state.dropped + state.discarded,
        rewards=state.rewards,
        pending=state.pending,
        late=state.late,
        dropped=state.dropped,
        defaults=state.defaults,
        lag=max(state.position - hosted.position, 0),
        rounds=hosted.rounds,
        leads=hosted.leads,
        failure=hosted.failure,
        bytes=state.nbytes,
    )


def overview(hosted: Hosted, points: int, last: int) -> wire.Overview:
    """Return what the page shows.

    Parameters
    ----------
    hosted
        The bandit.
    points
        Of the series, at most.
    last
        How many of the newest decisions it is about.
    """
    decisions = recent(hosted.log, last)
    arms = Counter(str(one.arm) for one in decisions)
    shown = [arm for arm, _ in arms.most_common(SHOWN_ARMS)]
    known = complete(decisions, hosted.stored.spec.default_reward)
    weights, rewards = against_baseline(known)
    online, baseline = mean_estimate(rewards), snips_estimate(weights, rewards)
    return wire.Overview(
        bandit=info_of(hosted),
        time=time.time(),
        online=online,
        baseline=baseline,
        gain=gain_estimate(weights, rewards),
        points=series(decisions, len(known), points, shown),
        arms=[*shown, OTHERS] if len(arms) > len(shown) else shown,
        shares=_shares([str(one.arm) for one in decisions], shown),
        learned=learned(hosted, decisions[-EXPLAINED:]),
        latest=[decided(one) for one in reversed(decisions[-LATEST:])],
    )


def mean_reward(hosted: Hosted) -> float | None:
    """Return the mean reward of the latest decisions that have one, None if there are none.

    Parameters
    ----------
    hosted
        The bandit.
    """
    position = hosted.log.position
    known, mean = hosted.mean_reward
    if known != position:
        known_ones = complete(recent(hosted.log, AVERAGED), hosted.stored.spec.default_reward)
        rewards = [one.reward for one in known_ones if one.reward is not None]
        mean = float(np.mean(rewards)) if rewards else None
        hosted.mean_reward = (position, mean)
    return mean


def decided(one: Any) -> wire.Decided:
    """Return a logged decision as the page shows it.

    Parameters
    ----------
    one
        The decision.
    """
    return wire.Decided(
        id=one.id,
        time=one.time,
        arm=str(one.arm),
        propensity=_finite(one.propensity),
        arms=[str(arm) for arm in one.arms],
        propensities=[_finite(value) for value in one.propensities],
        status=one.status,
        reward=one.reward,
        position=one.position,
    )


def series(decisions: Sequence[Any], known: int, points: int, shown: Sequence[str]) -> list[wire.Point]:
    """Return decisions in pieces of equal length, in the order of time.

    Parameters
    ----------
    decisions
        The decisions.
    known
        Of how many of them, from the first on, it is known what they earned.
    points
        How many pieces, at most.
    shown
        Arms with a share of their own.
    """
    made, upto = [], 0
    weights, rewards = against_baseline(decisions[:known])
    for piece in np.array_split(np.arange(len(decisions)), min(points, len(decisions)) or 1):
        if not len(piece):
            continue
        own = decisions[piece[0] : piece[-1] + 1]
        earned = against_baseline(decisions[piece[0] : min(piece[-1] + 1, known)])[1]
        upto += len(earned)
        made.append(
            wire.Point(
                time=own[-1].time,
                decisions=len(own),
                rewarded=sum(one.reward is not None for one in own),
                reward=mean_estimate(earned),
                online=mean_estimate(rewards[:upto]),
                baseline=snips_estimate(weights[:upto], rewards[:upto]),
                propensity=float(np.mean([one.propensity for one in own])),
                exploration=float(np.mean([1.0 - max(one.propensities) for one in own])),
                shares=_shares([str(one.arm) for one in own], shown),
            )
        )
    return made


def against_baseline(decisions: Sequence[Any]) -> tuple[Array, Array]:
    """Return importance weights of always taking the first candidate, and rewards, of the decisions that have one.

    Parameters
    ----------
    decisions
        Of the log.
    """
    rewarded = [one for one in decisions if one.reward is not None and one.propensity > 0]
    weights = np.array([(one.arm == one.arms[0]) / one.propensity for one in rewarded], dtype=np.float64)
    return weights, np.array([one.reward for one in rewarded], dtype=np.float64)


def mean_estimate(rewards: Array) -> wire.Estimate:
    """Return the mean reward and its interval.

    Parameters
    ----------
    rewards
        Of decisions.
    """
    return _estimate(mean_of(rewards, LEVEL)) if len(rewards) >= 2 else wire.Estimate(None, None, None)


def snips_estimate(weights: Array, rewards: Array) -> wire.Estimate:
    """Return what a policy would have earned, by self-normalised scores.

    Parameters
    ----------
    weights
        Of the decisions.
    rewards
        That they have earned.
    """
    if np.count_nonzero(weights) < 2:
        return wire.Estimate(None, None, None)
    return _estimate(snips(weights, rewards, LEVEL))


def gain_estimate(weights: Array, rewards: Array) -> wire.Estimate:
    """Return what was earned more than the policy would have, paired by decision.

    Parameters
    ----------
    weights, rewards
        As for :func:`snips_estimate`.
    """
    if np.count_nonzero(weights) < 2:
        return wire.Estimate(None, None, None)
    own = float(np.sum(weights * rewards) / np.sum(weights))
    terms = rewards - own - weights * (rewards - own) / np.mean(weights)
    return _estimate(mean_of(terms, LEVEL))


def learned(hosted: Hosted, decisions: Sequence[Any]) -> list[wire.Contribution]:
    """Return what each key adds to the expected score of what was chosen, averaged over some decisions.

    Parameters
    ----------
    hosted
        The bandit.
    decisions
        Of its log.
    """
    decider = hosted.decider
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    known = None if decider.arms is None else set(decider.arms)
    for one in decisions:
        if known is not None and one.arm not in known:
            continue
        for reason in decider.explain(one):
            if math.isfinite(reason.contribution):
                found[reason.key, reason.source].append(reason.contribution)
    made = [
        wire.Contribution(
            key=key, source=source, mean=float(np.mean(values)),  # type: ignore[arg-type]
            mean_absolute=float(np.mean(np.abs(values))), decisions=len(values),
        )
        for (key, source), values in found.items()
    ]  # fmt: skip
    return sorted(made, key=lambda one: -one.mean_absolute)


def _shares(arms: Sequence[str], shown: Sequence[str]) -> dict[str, float]:
    counts = Counter(arm if arm in shown else OTHERS for arm in arms)
    return {arm: count / len(arms) for arm, count in counts.items()}


def _estimate(found: Any) -> wire.Estimate:
    return wire.Estimate(*(_finite(value) for value in (found.value, found.low, found.high)))


def _finite(value: Any) -> Any:
    return float(value) if math.isfinite(value) else None
