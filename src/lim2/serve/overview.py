"""What the page shows of a bandit, computed from its log."""

import contextlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.evaluation.estimators import mean_of, snips
from lim2.log.reading import LogState
from lim2.serve import wire
from lim2.serve.bandits import Bandits, DecidingBandit
from lim2.serve.catalog import Listed, NoBanditError
from lim2.serve.evaluating import proved
from lim2.serve.history import complete, recent
from lim2.serve.spec import BanditSpec, Stored

Array = NDArray[np.float64]

LATEST = 50  # decisions that are shown one by one
EXPLAINED = 100  # of the latest decisions, for what the model has learned
MOST_EXPLAINED = 30_000  # of their weights
SHOWN_ARMS = 12  # arms that have a share of their own; the others share one
OTHERS = "(others)"
LEVEL = 0.95


def info_of(hosted: DecidingBandit) -> wire.BanditInfo:
    """Return how a bandit is doing."""
    own = hosted.decider.arms, hosted.position, hosted.rounds, hosted.leads, hosted.failure
    return _info(hosted.name, hosted.stored, hosted.log.state, *own)


def listed(bandits: Bandits, failures: Mapping[str, str], after: str, limit: int) -> wire.Bandits:
    """Return a page of the list of all bandits.

    Of a bandit that is not open in this process, the arms are those of its description, and the rounds are the rewards
    that its log has had. One that cannot be opened has its name and the reason.
    """
    opened, catalog = dict(bandits.opened), bandits.catalog
    logs = {name: hosted.log for name, hosted in opened.items()}
    found = catalog.page(after, limit + 1, logs)
    page = [_listed(one, opened.get(one.name), failures.get(one.name)) for one in found[:limit]]
    return wire.Bandits(page, found[limit - 1].name if len(found) > limit else None, catalog.count())


def listed_of(bandits: Bandits, names: Iterable[str], after: str, limit: int) -> wire.Bandits:
    """Return a page of those bandits of some names that there are."""
    found = []
    for name in sorted(names):
        with contextlib.suppress(NoBanditError):
            found.append(info_of(bandits.opening(name)))
    page = [one for one in found if one.name > after][: limit + 1]
    return wire.Bandits(page[:limit], page[limit - 1].name if len(page) > limit else None, len(found))


def _listed(one: Listed, hosted: DecidingBandit | None, failure: str | None) -> wire.BanditInfo:
    if one.stored is None or one.state is None:
        nothing = LogState(0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return _info(one.name, Stored(spec=BanditSpec(), created=0.0), nothing, None, 0, 0, False, one.failure)
    if hosted is not None:
        own = hosted.decider.arms, hosted.position, hosted.rounds, hosted.leads, failure
        return _info(one.name, one.stored, one.state, *own)
    learned = one.state.rewards + one.state.defaults
    return _info(one.name, one.stored, one.state, one.stored.spec.arms, one.position, learned, False, failure)


def _info(
    name: str,
    stored: Stored,
    state: LogState,
    arms: Iterable[Any] | None,
    position: int,
    rounds: int,
    leads: bool,
    failure: str | None,
) -> wire.BanditInfo:
    return wire.BanditInfo(
        name=name,
        spec=stored.spec,
        arms=None if arms is None else list(map(str, arms)),
        created=stored.created,
        decisions=state.pending + state.rewards + state.defaults + state.dropped + state.discarded,
        rewards=state.rewards,
        pending=state.pending,
        late=state.late,
        dropped=state.dropped,
        defaults=state.defaults,
        lag=max(state.position - position, 0),
        rounds=rounds,
        leads=leads,
        failure=failure,
        bytes=state.nbytes,
        learning_mode=None if stored.personalizer is None else stored.personalizer.learning_mode,
    )


def overview(hosted: DecidingBandit, points: int, last: int) -> wire.Overview:
    """Return what the page shows."""
    decisions, limited = recent(hosted.log, last)
    arms = Counter(str(one.arm) for one in decisions)
    shown = [arm for arm, _ in arms.most_common(SHOWN_ARMS)]
    known = complete(decisions, hosted.stored.spec.default_reward)
    weights, rewards = against_baseline(known)
    online, baseline = mean_estimate(rewards), snips_estimate(weights, rewards)
    return wire.Overview(
        bandit=info_of(hosted),
        time=time.time(),
        left_out=len(decisions) - len(known),
        only=len(decisions) if limited else None,
        online=online,
        baseline=baseline,
        proof=proved(hosted, wire.ProofRequest()),
        points=series(decisions, len(known), points, shown),
        arms=[*shown, OTHERS] if len(arms) > len(shown) else shown,
        shares=_shares([str(one.arm) for one in decisions], shown),
        learned=learned(hosted, recent(hosted.log, EXPLAINED, features=True, most=MOST_EXPLAINED).decisions),
        latest=[decided(one) for one in reversed(decisions[-LATEST:])],
    )


def decided(one: Any) -> wire.Decided:
    """Return a logged decision as the page shows it."""
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
        group=one.group,
    )


def series(decisions: Sequence[Any], known: int, points: int, shown: Sequence[str]) -> list[wire.Point]:
    """Return decisions in pieces of equal length, in order; the rewards of the first ``known`` are known."""
    made, upto = [], 0
    weights, rewards = against_baseline(decisions[:known])
    for piece in np.array_split(np.arange(len(decisions)), min(points, len(decisions)) or 1):
        if not len(piece):
            continue
        own = decisions[piece[0] : piece[-1] + 1]
        earned = against_baseline(decisions[piece[0] : min(piece[-1] + 1, known)])[1]
        upto = upto + len(earned) if piece[0] < known else 0  # after what is known, nothing is estimated
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
    """Return importance weights of always taking the first candidate, and rewards, of the decisions that have one."""
    rewarded = [one for one in decisions if one.reward is not None and one.propensity > 0]
    weights = np.array([(one.arm == one.arms[0]) / one.propensity for one in rewarded], dtype=np.float64)
    return weights, np.array([one.reward for one in rewarded], dtype=np.float64)


def mean_estimate(rewards: Array) -> wire.Estimate:
    """Return the mean reward and its interval."""
    return _estimate(mean_of(rewards, LEVEL)) if len(rewards) >= 2 else wire.Estimate(None, None, None)


def snips_estimate(weights: Array, rewards: Array) -> wire.Estimate:
    """Return what a policy would have earned, by self-normalised scores."""
    if np.count_nonzero(weights) < 2:
        return wire.Estimate(None, None, None)
    return _estimate(snips(weights, rewards, LEVEL))


def learned(hosted: DecidingBandit, decisions: Sequence[Any]) -> list[wire.Contribution]:
    """Return what each key adds to the expected score of what was chosen, averaged over some decisions."""
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
