"""Settle decisions: by a reward, an aggregate of rewards, a default reward, or none."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from lim2.checks import LARGEST, shown
from lim2.log.errors import ConflictingRewardError, UnknownDecisionError
from lim2.log.ids import row_id
from lim2.log.settings import Settings, read_settings
from lim2.log.store import Found, Tables

Outcome = Literal["recorded", "duplicate", "late", "ignored"]
LONGEST = 512  # characters of an ID: an index of PostgreSQL takes 2,704 bytes


class Reward(NamedTuple):
    """A received reward."""

    id: str  # of the decision
    value: float
    name: str | None  # its own, by which it is known if it comes again


def reward_all(tables: Tables, rewards: list[Reward], now: float) -> list[Outcome]:
    """Record rewards. Whatever is overdue by now is settled first, so that the outcome depends on the times alone.

    Parameters
    ----------
    tables
        Tables of the log.
    rewards
        Rewards in order of arrival.
    now
        The time.
    """
    settings = read_settings(tables)
    expire(tables, now, settings)
    return [_reward(tables, reward, now, settings) for reward in rewards]


def _reward(tables: Tables, reward: Reward, now: float, settings: Settings) -> Outcome:
    decision = find(tables, reward.id)
    after = settings.expire_after
    if decision.settled is None and after is not None and decision.time <= now - after:
        expire(tables, now, settings)  # it has been written since, by a process that had slept
        decision = find(tables, reward.id)
    kept = tables.rewards(decision.seq)
    if reward.name is not None and any(name == reward.name for _, name in kept):
        return "duplicate"
    settled = None if decision.settled is None else tables.event(decision.settled)
    if settled is not None and (settled.kind != "reward" or settings.collects):
        tables.add_reward(decision.seq, now, reward.value, reward.name)
        tables.put("late", tables.get("late") + 1)
        return "late"
    if settings.collects:
        tables.add_reward(decision.seq, now, reward.value, reward.name)
        return "recorded"
    first = settled.reward if settled is not None else kept[0][0] if kept else None
    if first is not None:
        return _again(tables, decision, reward, first, now, settings)
    if reward.name is not None or not decision.active:
        tables.add_reward(decision.seq, now, reward.value, reward.name)
    if decision.active:
        tables.append(now, "reward", decision.seq, reward.value)
    return "recorded"


def _again(tables: Tables, decision: Found, reward: Reward, first: float, now: float, settings: Settings) -> Outcome:
    """Return the outcome of a second reward of a decision that can have only one."""
    if reward.value == first and (reward.name is None or settings.aggregate is None):
        return "duplicate"
    if settings.aggregate == "first":
        tables.add_reward(decision.seq, now, reward.value, reward.name)
        return "ignored"
    raise ConflictingRewardError(
        f"decision {reward.id!r} already has the reward {first!r}, got {reward.value!r}: a decision has one "
        f"reward, unless the setting aggregate says otherwise. Nothing has changed."
    )


def activate(tables: Tables, id: str, now: float) -> bool:
    """Activate a decision with the rewards received so far; return False if it has expired.

    Parameters
    ----------
    tables
        Tables of the log.
    id
        ID of the decision.
    now
        The time.
    """
    settings = read_settings(tables)
    expire(tables, now, settings)
    decision = find(tables, id)
    if decision.active:
        return True
    if decision.settled is not None:
        return False
    tables.activate(decision.seq)
    kept = tables.rewards(decision.seq)
    if kept and not settings.collects:
        tables.append(now, "reward", decision.seq, kept[0][0])
    return True


def expire(tables: Tables, now: float, settings: Settings | None = None) -> int:
    """Settle overdue decisions; return their number.

    Parameters
    ----------
    tables
        Tables of the log.
    now
        The time.
    settings
        Settings of the log; None: read them.
    """
    settings = settings or read_settings(tables)
    after, default, _ = settings
    if after is None:
        return 0
    overdue = tables.overdue(now - after)
    for decision in overdue:
        kept = [reward for reward, _ in tables.rewards(decision.seq)] if decision.active else []
        if kept:
            outcome: tuple[str, float | None] = "reward", settings.combined(kept)
        elif default is not None and decision.active:
            outcome = "default", default
        else:
            outcome = "dropped", None
        kind, reward = outcome
        tables.append(decision.time + after, kind, decision.seq, reward)
    return len(overdue)


def discard(tables: Tables, id: str, now: float) -> None:
    """Discard a decision.

    Parameters
    ----------
    tables
        Tables of the log.
    id
        ID of the decision.
    now
        The time.
    """
    decision = find(tables, id)
    if decision.settled is None:
        tables.append(now, "discarded", decision.seq, None)
    else:
        tables.relabel(decision.settled, "discarded")


def find(tables: Tables, id: str) -> Found:
    """Return a decision; raise an UnknownDecisionError if it is not in the log.

    Parameters
    ----------
    tables
        Tables of the log.
    id
        ID of the decision.
    """
    found = tables.find(id)
    if found is None:
        raise unknown(tables, id)
    return found


def unknown(tables: Tables, id: str) -> UnknownDecisionError:
    """Return the error for an ID that is not in the log.

    Parameters
    ----------
    tables
        Tables of the log.
    id
        ID of a decision.
    """
    if tables.find(row_id(id, 1)) is not None:
        return UnknownDecisionError(
            f"{id!r} is a slate: give its rewards by position, such as {{2: 1.0}}; its decisions are "
            f"{row_id(id, 1)!r}, {row_id(id, 2)!r}, ..."
        )
    return UnknownDecisionError(
        f"no decision {id!r} is in the log: it was never recorded, or it was settled and has been deleted since"
    )


def checked_id(id: str, what: str = "an id") -> str:
    r"""Return an ID; raise a ValueError if it is invalid, or if not every store could hold it.

    Parameters
    ----------
    id
        A string that is not empty.
    what
        Description of the value, for error messages.

    Examples
    --------
    >>> checked_id("order-1")
    'order-1'
    >>> checked_id("order\0")
    Traceback (most recent call last):
    ValueError: an id must be text of at most 512 characters, without the character NUL, got 'order\x00'
    """
    if not isinstance(id, str) or not id:
        raise ValueError(f"{what} must be a non-empty string, got {shown(id)}")
    if len(id) > LONGEST or "\0" in id or not _is_text(id):
        raise ValueError(
            f"{what} must be text of at most {LONGEST} characters, without the character NUL, got {shown(id)}"
        )
    return id


def _is_text(id: str) -> bool:
    """Return whether a string is Unicode text: Python's strings can have half of a surrogate pair."""
    try:
        return id.isascii() or bool(id.encode())
    except UnicodeEncodeError:
        return False


def checked_reward(reward: float) -> float:
    """Return a reward as a float; raise a ValueError if it is invalid.

    Parameters
    ----------
    reward
        One number.
    """
    try:
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) < LARGEST or isinstance(reward, str):
        raise ValueError(f"a reward must be one finite number below {LARGEST:g} in absolute value, got {shown(reward)}")
    return value
