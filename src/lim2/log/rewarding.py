"""Rewards that come, and decisions that begin to count. These are the methods of `DecisionLog`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lim2.log import settling
from lim2.log.requests import Request
from lim2.log.settling import Outcome, Reward, checked_id, checked_reward, reward_all
from lim2.log.slates import by_position

if TYPE_CHECKING:
    from lim2.log.decision_log import DecisionLog


def reward(log: DecisionLog, id: str, reward: float | Mapping[Any, float], *, name: str | None = None) -> Request[Any]:
    """Record a reward of a decision, or rewards of positions of a slate.

    Parameters
    ----------
    id
        Of the decision, or of the slate.
    reward
        What the decision earned. For a slate: position (``2`` or ``"slot 2"``) -> reward, of all positions or some;
        if one of them is refused, none is written. Positions that are left out go on waiting.
    name
        Of this one reward, say ``"click"``: if it comes again with the same name, it is a duplicate. Give one if
        rewards are added up and a sender may repeat itself.

    Returns
    -------
    str or dict
        ``"recorded"``; ``"duplicate"`` if the same reward was recorded before; ``"late"`` if the decision had
        expired or been discarded: the reward is kept, but nothing is learned of it, since what stands in for it may
        have been learned; ``"ignored"`` if with ``aggregate="first"`` another one came first. For a slate: position
        -> one of these.
    """
    if not isinstance(reward, Mapping):
        work, finish = _rewarding(log, [(id, reward)], name)
        return Request(work, lambda outcomes: finish(outcomes)[0])
    work, _ = _rewarding(log, by_position(checked_id(id), reward), name)
    return Request(work, lambda outcomes: dict(zip(reward, outcomes, strict=True)))


def reward_many(
    log: DecisionLog, rewards: Iterable[tuple[str, float] | tuple[str, float, str | None]]
) -> Request[list[Outcome]]:
    """Record many rewards in one transaction: all are written, or, if one of them is refused, none.

    Parameters
    ----------
    rewards
        Pairs of id and reward; a third entry is the name of that reward, as `reward` takes it.
    """
    return _rewarding(log, rewards)


def _rewarding(log: DecisionLog, given: Iterable[tuple[Any, ...]], name: str | None = None) -> Request[list[Outcome]]:
    rewards, now = [_checked(*one[:2], *(one[2:] or (name,))) for one in given], log.clock()
    return Request(lambda tables: reward_all(tables, rewards, now), lambda outcomes: outcomes)


def _checked(id: str, value: float, name: str | None) -> Reward:
    own = None if name is None else checked_id(name, "the name of a reward")
    return Reward(checked_id(id), checked_reward(value), own)


def activate(log: DecisionLog, id: str) -> Request[bool]:
    """Let a decision count that was made with ``active=False``: rewards that it has got are learned now.

    Parameters
    ----------
    id
        Of the decision, or of a position of a slate.

    Returns
    -------
    bool
        Whether it counts now; False if it expired before.
    """
    key, now = checked_id(id), log.clock()
    return Request(lambda tables: settling.activate(tables, key, now), lambda counts: counts)
