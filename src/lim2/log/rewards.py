"""Settle decisions: by one reward, an aggregate of several, a default reward on expiry, or none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from lim2.checks import LARGEST, shown
from lim2.log.errors import ConflictingRewardError, UnknownDecisionError
from lim2.log.ids import checked_id, rewards_by_row, row_id
from lim2.log.settings import Settings, read_settings
from lim2.log.store import DecisionStatus, Tables, Work
from lim2.log.transactions import Log, Transaction

RewardStatus = Literal["recorded", "duplicate", "late", "ignored"]


class Reward(NamedTuple):
    """A received reward."""

    id: str  # of the decision
    value: float
    name: str | None  # a second reward of this name is a duplicate


@dataclass(frozen=True)
class Rewarding:
    """Record rewards that arrived at one time, all or none."""

    rewards: Sequence[Reward]
    now: float

    def __call__(self, tables: Tables) -> list[RewardStatus]:
        """Run within a transaction."""
        return record_rewards(tables, self.rewards, self.now)


@dataclass(frozen=True)
class Activation:
    """Activate a decision at a given time."""

    id: str
    now: float

    def __call__(self, tables: Tables) -> bool:
        """Run within a transaction."""
        return activate_decision(tables, self.id, self.now)


# Methods of DecisionLog


def reward(log: Log, id: str, reward: float | Mapping[Any, float], *, name: str | None = None) -> Transaction[Any]:
    """Record a reward of a decision, or rewards of a slate's positions.

    Parameters
    ----------
    reward
        The reward. For a slate: a mapping from position (``2`` or ``"slot 2"``) to reward, for all positions or some.
        If one of them is refused, none is written. The other positions remain pending.
    name
        Name of this reward, for example ``"click"``. A second reward of the same name is a duplicate. Give a name if
        rewards are summed and a sender may retry.

    Returns
    -------
    str or dict
        ``"recorded"``; ``"duplicate"`` if the same reward was recorded before; ``"late"`` if the decision had
        expired or been discarded: the reward is stored but not learned, since the default reward may have been
        learned already; ``"ignored"`` if ``aggregate="first"`` and another reward came first. For a slate: a mapping
        from position to one of these.

    Examples
    --------
    >>> import tempfile, lim2
    >>> folder, rules = tempfile.TemporaryDirectory(), {"expire_after": 3600, "default_reward": 0.0, "aggregate": "sum"}
    >>> with lim2.DecisionLog(f"{folder.name}/decisions.db", **rules) as log:
    ...     decision = lim2.Bandit(arms=["spring", "shoes"], seed=0, log=log).decide({"country": "AT"})
    ...     [log.reward(decision.id, 30.0, name=name) for name in ("order 1", "order 2", "order 2")]
    ['recorded', 'recorded', 'duplicate']
    >>> folder.cleanup()
    """
    if not isinstance(reward, Mapping):
        work, finish = _record(log, [(id, reward)], name)
        return Transaction(work, lambda statuses: finish(statuses)[0])
    work, _ = _record(log, rewards_by_row(checked_id(id), reward), name)
    return Transaction(work, lambda statuses: dict(zip(reward, statuses, strict=True)))


def reward_many(
    log: Log, rewards: Iterable[tuple[str, float] | tuple[str, float, str | None]]
) -> Transaction[list[RewardStatus]]:
    """Record many rewards in one transaction: all of them or, if one is refused, none.

    Parameters
    ----------
    rewards
        Pairs ``(id, reward)`` or triples ``(id, reward, name)``, with the arguments of `reward`.
    """
    return _record(log, rewards)


def activate(log: Log, id: str) -> Transaction[bool]:
    """Activate a decision that was made with ``active=False``, so that its rewards are learned.

    Parameters
    ----------
    id
        ID of the decision, or of a position of a slate.

    Returns
    -------
    bool
        Whether the decision is active now; False if it expired before.
    """
    key, now = checked_id(id), log.clock()
    return Transaction(Work(Activation(key, now), ids=[key]), lambda counts: counts)


def _record(log: Log, entries: Iterable[tuple[Any, ...]], name: str | None = None) -> Transaction[list[RewardStatus]]:
    rewards, now = [_checked(*entry[:2], *(entry[2:] or (name,))) for entry in entries], log.clock()
    work = Work(Rewarding(rewards, now), ids=[reward.id for reward in rewards])
    return Transaction(work, lambda statuses: statuses)


def _checked(id: str, value: float, name: str | None) -> Reward:
    label = None if name is None else checked_id(name, "the name of a reward")
    return Reward(checked_id(id), checked_reward(value), label)


def checked_reward(reward: float) -> float:
    """Return a reward as a float; raise a ValueError if it is invalid."""
    try:
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) < LARGEST or isinstance(reward, str):
        raise ValueError(f"a reward must be one finite number below {LARGEST:g} in absolute value, got {shown(reward)}")
    return value


# Within a transaction


def record_rewards(tables: Tables, rewards: Sequence[Reward], now: float) -> list[RewardStatus]:
    """Record rewards in order; first settle what is overdue, so that statuses depend on the times alone."""
    settings = read_settings(tables)
    expire_overdue(tables, now, settings)
    return [_record_one(tables, reward, now, settings) for reward in rewards]


def _record_one(tables: Tables, reward: Reward, now: float, settings: Settings) -> RewardStatus:
    decision = find_decision(tables, reward.id)
    after = settings.expire_after
    if decision.settled is None and after is not None and decision.time <= now - after:
        expire_overdue(tables, now, settings)  # a process that was suspended inserted it late
        decision = find_decision(tables, reward.id)
    stored = tables.rewards(decision.seq)
    if reward.name is not None and any(name == reward.name for _, name in stored):
        return "duplicate"
    event = None if decision.settled is None else tables.event(decision.settled)
    if event is not None and (event.kind != "reward" or settings.collects):
        tables.add_reward(decision.seq, now, reward.value, reward.name)
        tables.put("late", tables.get("late") + 1)
        return "late"
    if settings.collects:
        tables.add_reward(decision.seq, now, reward.value, reward.name)
        return "recorded"
    first = event.reward if event is not None else stored[0][0] if stored else None
    if first is not None:
        return _record_second(tables, decision, reward, first, now, settings)
    if reward.name is not None or not decision.active:
        tables.add_reward(decision.seq, now, reward.value, reward.name)
    if decision.active:
        tables.append(now, "reward", decision.seq, reward.value)
    return "recorded"


def _record_second(
    tables: Tables, decision: DecisionStatus, reward: Reward, first: float, now: float, settings: Settings
) -> RewardStatus:
    """Return the status of a second reward of a decision that can have only one."""
    if reward.value == first and (reward.name is None or settings.aggregate is None):
        return "duplicate"
    if settings.aggregate == "first":
        tables.add_reward(decision.seq, now, reward.value, reward.name)
        return "ignored"
    raise ConflictingRewardError(
        f"decision {reward.id!r} already has the reward {first!r}, got {reward.value!r}: a decision has one "
        f"reward, unless the setting aggregate says otherwise. Nothing has changed."
    )


def activate_decision(tables: Tables, id: str, now: float) -> bool:
    """Activate a decision with the rewards received so far; return False if it has expired."""
    settings = read_settings(tables)
    expire_overdue(tables, now, settings)
    decision = find_decision(tables, id)
    if decision.active:
        return True
    if decision.settled is not None:
        return False
    tables.activate(decision.seq)
    stored = tables.rewards(decision.seq)
    if stored and not settings.collects:
        tables.append(now, "reward", decision.seq, stored[0][0])
    return True


def expire_overdue(tables: Tables, now: float, settings: Settings | None = None) -> int:
    """Settle overdue decisions; return their number."""
    settings = settings or read_settings(tables)
    after, default, _ = settings
    if after is None:
        return 0
    overdue = tables.overdue(now - after)
    for decision in overdue:
        rewards = [reward for reward, _ in tables.rewards(decision.seq)] if decision.active else []
        if rewards:
            tables.append(decision.time + after, "reward", decision.seq, settings.combined(rewards))
        elif default is not None and decision.active:
            tables.append(decision.time + after, "default", decision.seq, default)
        else:
            tables.append(decision.time + after, "dropped", decision.seq, None)
    return len(overdue)


def discard_decision(tables: Tables, id: str, now: float) -> None:
    """Exclude a decision, with or without a reward, from learning."""
    decision = find_decision(tables, id)
    if decision.settled is None:
        tables.append(now, "discarded", decision.seq, None)
    else:
        tables.relabel(decision.settled, "discarded")


def find_decision(tables: Tables, id: str) -> DecisionStatus:
    """Return the status of a decision; raise an UnknownDecisionError if it is not in the log."""
    decision = tables.find(id)
    if decision is None:
        raise unknown_decision(tables, id)
    return decision


def unknown_decision(tables: Tables, id: str) -> UnknownDecisionError:
    """Return the error for an ID that is not in the log."""
    if tables.find(row_id(id, 1)) is not None:
        return UnknownDecisionError(
            f"{id!r} is a slate: give its rewards by position, such as {{2: 1.0}}; its decisions are "
            f"{row_id(id, 1)!r}, {row_id(id, 2)!r}, ..."
        )
    return UnknownDecisionError(
        f"no decision {id!r} is in the log: it was never recorded, or it was settled and has been deleted since"
    )
