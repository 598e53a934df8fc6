"""Methods of `DecisionLog` that record rewards and activate decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lim2.log import rewards
from lim2.log.calls import Request
from lim2.log.ids import by_position
from lim2.log.rewards import Outcome, Reward, checked_id, checked_reward, reward_all
from lim2.log.store import Tables, Work

if TYPE_CHECKING:
    from lim2.log.decision_log import DecisionLog


@dataclass(frozen=True)
class Rewarding:
    """Record rewards that arrived at one time, all or none."""

    rewards: Sequence[Reward]
    now: float

    def __call__(self, tables: Tables) -> list[Outcome]:
        """Run within a transaction."""
        return reward_all(tables, list(self.rewards), self.now)


@dataclass(frozen=True)
class Activation:
    """Activate a decision at a given time."""

    id: str
    now: float

    def __call__(self, tables: Tables) -> bool:
        """Run within a transaction."""
        return rewards.activate(tables, self.id, self.now)


def reward(log: DecisionLog, id: str, reward: float | Mapping[Any, float], *, name: str | None = None) -> Request[Any]:
    """Record a reward of a decision, or rewards of a slate's positions.

    Parameters
    ----------
    id
        ID of the decision or slate.
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
        work, finish = _rewarding(log, [(id, reward)], name)
        return Request(work, lambda outcomes: finish(outcomes)[0])
    work, _ = _rewarding(log, by_position(checked_id(id), reward), name)
    return Request(work, lambda outcomes: dict(zip(reward, outcomes, strict=True)))


def reward_many(
    log: DecisionLog, rewards: Iterable[tuple[str, float] | tuple[str, float, str | None]]
) -> Request[list[Outcome]]:
    """Record many rewards in one transaction: all of them or, if one is refused, none.

    Parameters
    ----------
    rewards
        Pairs ``(id, reward)`` or triples ``(id, reward, name)``, with the arguments of `reward`.
    """
    return _rewarding(log, rewards)


def _rewarding(log: DecisionLog, given: Iterable[tuple[Any, ...]], name: str | None = None) -> Request[list[Outcome]]:
    rewards, now = [_checked(*one[:2], *(one[2:] or (name,))) for one in given], log.clock()
    work = Work(Rewarding(rewards, now), ids=[reward.id for reward in rewards])
    return Request(work, lambda outcomes: outcomes)


def _checked(id: str, value: float, name: str | None) -> Reward:
    own = None if name is None else checked_id(name, "the name of a reward")
    return Reward(checked_id(id), checked_reward(value), own)


def activate(log: DecisionLog, id: str) -> Request[bool]:
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
    return Request(Work(Activation(key, now), ids=[key]), lambda counts: counts)
