"""The three kinds of agents, by what they take: a log knows them by their methods only.

| kind | takes | known by |
|---|---|---|
| an agent | vectors, and names of arms | `arms` |
| an item agent | vectors of context and items | no `arms` |
| a bandit | raw contexts, names of arms or raw items | ``keeps_raw = True`` |

Snapshots are of the kind of what they were taken of.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from lim2.arms import is_range
from lim2.decision import Decision
from lim2.log.entries import LoggedDecision
from lim2.log.errors import LogError
from lim2.log.situation import Situation


def takes_raw(agent: Any) -> bool:
    """Return whether an agent takes raw contexts and items.

    Parameters
    ----------
    agent
        Of any kind.
    """
    return bool(getattr(agent, "keeps_raw", False))


def arms_of(agent: Any) -> tuple[Hashable, ...] | None:
    """Return an agent's arms; None if it chooses among items.

    Parameters
    ----------
    agent
        Of any kind.
    """
    arms = getattr(agent, "arms", None)
    return None if arms is None else tuple(arms)


def decide(agent: Any, about: Situation, arms: Sequence[Hashable] | None, exploit: bool) -> Decision:
    """Ask an agent of any kind.

    Parameters
    ----------
    agent
        Who decides.
    about
        Context and candidates.
    arms
        The eligible ones; None: all.
    exploit
        Whether the best is asked for.
    """
    decision: Decision
    if takes_raw(agent):
        decision = agent.decide(about.raw, about.raw_items, arms=arms, exploit=exploit)
    elif arms_of(agent) is not None:
        decision = agent.decide(about.context, arms, exploit=exploit)
    elif about.items is None:
        raise ValueError("this agent chooses among items: give it some, as items=")
    elif arms is not None:
        raise ValueError("this agent chooses among items: give it the eligible ones as items=, not as arms=")
    else:
        decision = agent.decide(about.context, about.items, exploit=exploit)
    return decision


def rank(agent: Any, about: Situation, k: int) -> list[Decision]:
    """Ask an agent for a slate.

    Parameters
    ----------
    agent
        Who ranks.
    about
        Context and candidates.
    k
        Number of positions.
    """
    if not hasattr(agent, "rank"):
        raise ValueError(f"{type(agent).__name__} does not rank: lim2.Bandit and item agents do")
    if takes_raw(agent):
        return list(agent.rank(about.raw, about.raw_items, k))
    return list(agent.rank(about.context, about.items, k))


def teach(agent: Any, entry: LoggedDecision) -> None:
    """Let an agent of any kind learn the reward of a decision; raise LogError if it was not kept in its form.

    Parameters
    ----------
    agent
        Who learns.
    entry
        A decision with its reward.
    """
    if takes_raw(agent):
        if entry.raw is None:
            raise LogError(
                f"decision {entry.id!r} has no raw context, which this agent learns from: decide by a lim2.Bandit, or "
                f"keep what is raw beside vectors by raw= and raw_items="
            )
        if entry.raw_items is None and arms_of(agent) is None:
            raise LogError(f"decision {entry.id!r} has no raw items, from which this agent learns: raw_items=")
        item = None if entry.raw_items is None else entry.raw_items[entry.arm]
        agent.learn(entry.raw, entry.arm, entry.reward, item=item, position=max(entry.position, 1))
        return
    if entry.vector is None:
        raise LogError(
            f"decision {entry.id!r} has a raw context only, and this agent learns from vectors: train a lim2.Bandit"
        )
    if arms_of(agent) is not None:
        agent.update(entry.vector, entry.arm, entry.reward)
    elif entry.vectors is None:
        raise LogError(f"decision {entry.id!r} has no items as vectors, from which this agent learns: items=")
    else:
        agent.update(entry.vector, entry.vectors[entry.arms.index(entry.arm)], entry.reward)


def situation_of(entry: LoggedDecision) -> Situation:
    """Return what a logged decision was about, in the form in which it was asked.

    Parameters
    ----------
    entry
        The decision.
    """
    vectors = entry.vectors
    if vectors is None or is_range(entry.arms):
        items: Any = vectors
    else:
        items = dict(zip(entry.arms, vectors, strict=True))
    return Situation(entry.vector, items, entry.raw, entry.raw_items)


def eligible_in(agent: Any, entry: LoggedDecision) -> Sequence[Hashable] | None:
    """Return the arms to name when a logged decision is made again; None if it was among all.

    Parameters
    ----------
    agent
        Who decides.
    entry
        The decision.
    """
    arms = arms_of(agent)
    return None if arms is None or entry.arms == arms else entry.arms


def lacks(agent: Any, entry: LoggedDecision) -> bool:
    """Return whether an agent with fixed arms does not have the arm that was played.

    Parameters
    ----------
    agent
        Who learns.
    entry
        The decision.
    """
    arms = arms_of(agent)
    if arms is None:
        return False
    if entry.items is not None and not takes_raw(agent) and is_range(entry.arms):
        raise LogError(
            f"decision {entry.id!r} chose among items without names of their own, which cannot be learned as arms: "
            f"train an agent for items"
        )
    return entry.arm not in arms
