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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.arms import is_range
from lim2.checks import shown
from lim2.decision import Decision
from lim2.log.decision_input import DecisionInput
from lim2.log.entries import LoggedDecision
from lim2.log.errors import LogError
from lim2.log.serialization import JSON
from lim2.state import Write


def takes_raw(agent: Any) -> bool:
    """Return whether an agent takes raw contexts and items.

    Parameters
    ----------
    agent
        An agent of any kind.
    """
    return bool(getattr(agent, "keeps_raw", False))


def arms_of(agent: Any) -> tuple[Hashable, ...] | None:
    """Return an agent's arms; None if it chooses among items.

    Parameters
    ----------
    agent
        An agent of any kind.
    """
    arms = getattr(agent, "arms", None)
    return None if arms is None else tuple(arms)


def check_learner(agent: Any) -> None:
    """Raise LogError if something cannot learn.

    Parameters
    ----------
    agent
        An agent of any kind; a snapshot is none.
    """
    if not hasattr(agent, "metadata") or not any(hasattr(agent, name) for name in ("learn_logged", "learn", "update")):
        raise LogError(
            f"{shown(agent)} cannot learn: give an agent or bandit, as lim2.load returns it, not a snapshot or a path"
        )


def decide(agent: Any, about: DecisionInput, arms: Sequence[Hashable] | None, exploit: bool) -> Decision:
    """Return a decision of an agent of any kind.

    Parameters
    ----------
    agent
        The agent that decides.
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
        raise ValueError("this agent chooses among items: give candidates as items=")
    elif arms is not None:
        raise ValueError("this agent chooses among items: give the eligible ones as items=, not as arms=")
    else:
        decision = agent.decide(about.context, about.items, exploit=exploit)
    return decision


def rank(
    agent: Any, about: DecisionInput, k: int, arms: Sequence[Hashable] | None = None, exploit: bool = False
) -> list[Decision]:
    """Return a slate of an agent.

    Parameters
    ----------
    agent
        The agent that ranks.
    about
        Context and candidates.
    k
        Number of positions.
    arms, exploit
        The same as for `decide`.
    """
    if not hasattr(agent, "rank"):
        raise ValueError(f"{type(agent).__name__} cannot rank: use a lim2.Bandit or an item agent")
    asked: dict[str, Any] = {"exploit": True} if exploit else {}
    if takes_raw(agent):
        asked |= {} if arms is None else {"arms": arms}
        return list(agent.rank(about.raw, about.raw_items, k, **asked))
    if arms_of(agent) is None:
        return list(agent.rank(about.context, about.items, k, **asked))
    if about.items is not None:
        raise ValueError("this agent ranks arms, not items: leave out items=")
    return list(agent.rank(about.context, arms, k, **asked))


class Lesson(NamedTuple):
    """A reward with its context and choice, in all stored forms; None for the others."""

    of: str  # such as "decision 'x'", for an error message
    arm: Hashable
    reward: float
    vector: NDArray[Any] | None
    item: NDArray[Any] | None
    raw: JSON | None
    raw_item: JSON | None
    numbered: bool  # whether the arm is an item without a name of its own, called by its place
    position: int = 1  # in a slate
    decided: int | None = None  # time of the decision in microseconds


def lesson_of(entry: LoggedDecision) -> Lesson:
    """Return the data to learn from a decision with a reward.

    Parameters
    ----------
    entry
        The decision.
    """
    assert entry.reward is not None
    return Lesson(
        of=f"decision {entry.id!r}",
        arm=entry.arm,
        reward=entry.reward,
        vector=entry.vector,
        item=None if entry.vectors is None else entry.vectors[entry.arms.index(entry.arm)],
        raw=entry.raw,
        raw_item=None if entry.raw_items is None else entry.raw_items[entry.arm],
        numbered=entry.items is not None and is_range(entry.arms),
        position=max(entry.position, 1),
        decided=max(round(1e6 * entry.time), 1),
    )


def teach(agent: Any, lesson: Lesson, also: Sequence[Write] = ()) -> None:
    """Let an agent of any kind learn a reward; raise a LogError if the stored form does not fit the agent.

    An agent with a method `learn_logged` writes `also` together with what it learns. Any other does not: then the
    caller writes it afterwards, and an exception in between lets the reward be learned again.

    Parameters
    ----------
    agent
        The agent that learns.
    lesson
        The reward, and what for.
    also
        Assignments made together with the update, such as the log position: (mapping, key, value) each.
    """
    context, chosen, options = _form(agent, lesson)
    if also and hasattr(agent, "learn_logged"):
        agent.learn_logged(context, chosen, lesson.reward, also, decided=lesson.decided, **options)
    elif takes_raw(agent):
        agent.learn(context, chosen, lesson.reward, **options)
    else:
        agent.update(context, chosen, lesson.reward)


def learns_batches(agent: Any) -> bool:
    """Return whether an agent can learn several rewards in one update.

    Parameters
    ----------
    agent
        An agent of any kind.
    """
    return bool(getattr(agent, "batches", False))


def teach_many(agent: Any, lessons: Sequence[Lesson], also: Sequence[Write]) -> None:
    """Let an agent of any kind learn several rewards in one update; see `teach`.

    Parameters
    ----------
    agent
        One that learns batches.
    lessons
        The rewards, and what for.
    also
        Assignments made together with the update.
    """
    contexts, chosen, options = zip(*(_form(agent, lesson) for lesson in lessons), strict=True)
    rewards = [lesson.reward for lesson in lessons]
    times = None if any(lesson.decided is None for lesson in lessons) else [lesson.decided for lesson in lessons]
    if takes_raw(agent):
        items, positions = [one["item"] for one in options], [one["position"] for one in options]
        given = None if all(item is None for item in items) else items
        agent.learn_logged_many(contexts, chosen, rewards, also, items=given, positions=positions, decided=times)
    else:
        agent.learn_logged_many(
            np.stack(contexts), np.stack(chosen) if arms_of(agent) is None else chosen, rewards, also, decided=times
        )


def _form(agent: Any, lesson: Lesson) -> tuple[Any, Any, dict[str, Any]]:
    """Return context, choice and options in the form that an agent learns from."""
    chooses_items = arms_of(agent) is None
    if takes_raw(agent):
        if lesson.raw is None:
            raise LogError(
                f"{lesson.of} has no raw context, from which this agent learns: decide with a lim2.Bandit, or "
                f"store raw values with raw= and raw_items="
            )
        if lesson.raw_item is None and chooses_items:
            raise LogError(f"{lesson.of} has no raw items, from which this agent learns: store them with raw_items=")
        return lesson.raw, lesson.arm, {"item": lesson.raw_item, "position": lesson.position}
    if lesson.vector is None:
        raise LogError(f"{lesson.of} has only a raw context, and this agent learns from vectors: train a lim2.Bandit")
    if not chooses_items:
        if lesson.numbered:
            raise LogError(f"{lesson.of} chose among items without names, which cannot be arms: train an item agent")
        return lesson.vector, lesson.arm, {}
    if lesson.item is None:
        raise LogError(f"{lesson.of} has no items as vectors, from which this agent learns: store them with items=")
    return lesson.vector, lesson.item, {}


def input_of(entry: LoggedDecision) -> DecisionInput:
    """Return context and candidates of a logged decision, in their original form.

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
    return DecisionInput(entry.vector, items, entry.raw, entry.raw_items)


def eligible_in(agent: Any, entry: LoggedDecision) -> Sequence[Hashable] | None:
    """Return the eligible arms for repeating a logged decision; None if all were eligible.

    Parameters
    ----------
    agent
        The agent that decides.
    entry
        The decision.
    """
    arms = arms_of(agent)
    return None if arms is None or entry.arms == arms else entry.arms


def has(agent: Any, arm: Hashable) -> bool:
    """Return whether an agent has fixed arms, and this is one of them.

    Parameters
    ----------
    agent
        An agent of any kind.
    arm
        Name of the arm.
    """
    return arm in (arms_of(agent) or ())


def lacks(agent: Any, arm: Hashable) -> bool:
    """Return whether an agent has fixed arms, and this is none of them.

    Parameters
    ----------
    agent
        An agent of any kind.
    arm
        Name of the arm.
    """
    arms = arms_of(agent)
    return arms is not None and arm not in arms
