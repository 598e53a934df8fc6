"""An agent learns from a log: the events after its position, in order, each exactly once.

The position is part of the agent, in its metadata, and moves with every event. So a saved agent and its position are
always of the same moment, and what a crash takes from the agent's memory is learned again from the log.

An agent may learn several events as one batch. The end of a batch is stored before it is learned, so that every other
learner, and `replay`, learns the same batches.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from lim2.arms import is_range
from lim2.batches import growing
from lim2.checks import shown
from lim2.decision import History
from lim2.log.changes import ADD, Change, from_text, is_repeated, make_change, removed_before
from lim2.log.entries import LoggedDecision, from_row
from lim2.log.errors import LogError, PrunedLogError
from lim2.log.store import ROWS_PER_READ, Event, Lease, Store, Tables, check_lease

Batch = int | Literal["auto"]


def check_learner(agent: Any) -> None:
    """Raise a LogError if something cannot learn."""
    if not hasattr(agent, "learn_logged"):
        raise LogError(
            f"{shown(agent)} cannot learn: give an agent or bandit, as lim2.load returns it, not a snapshot or a path"
        )


def position_of(agent: Any) -> int:
    """Return the position of the last event that an agent has learned, 0 if none."""
    return int((getattr(agent, "metadata", None) or {}).get("log_position", 0))


def learn(
    store: Store,
    agent: Any,
    *,
    batch: Batch = 1,
    limit: int | None = None,
    upto: int | None = None,
    lease: Lease | None = None,
) -> int:
    """Apply the events after an agent's position; return the number of rewards learned."""
    log_id, last = store.look(lambda tables: (tables.get("id"), tables.last()))
    _check_log(log_id, agent)
    end, learned = last if upto is None else upto, 0
    while limit is None or learned < limit:
        remaining = sys.maxsize if limit is None else limit - learned
        steps = _next(store, agent, end, batch, remaining, lease)
        agent.metadata.update(log_id=log_id, log_position=position_of(agent))
        if not steps:
            break
        for events in steps[:remaining]:
            learned += _apply(store, agent, events)
    return learned


def _apply(store: Store, agent: Any, events: list[Event]) -> int:
    """Learn one event, or several as a batch; return the number of rewards learned."""
    position = {"log_position": events[-1].position, "log_event": events[-1].token}
    try:
        return _learn(store, agent, events, position)
    except Exception as error:
        first, last = events[0], events[-1]
        subject = "change of arms" if first.change is not None else f"reward of decision {first.row[0]!r}"
        place = f"position {first.position}"
        if last is not first:
            subject, place = "batch of rewards", f"positions {first.position} to {last.position}"
        error.add_note(
            f"The {subject} at {place} of the log {store.name} could not be applied; the agent stands before it. "
            f"`log.discard(id)` leaves a decision out."
        )
        raise


def _learn(store: Store, agent: Any, events: list[Event], position: Mapping[str, Any]) -> int:
    """Let an agent learn events of any of the known kinds, and take over the position in the same step."""
    rewarded: list[LoggedDecision] = []
    for event in events:
        if event.change is not None:
            if _change(store, agent, from_text(event.kind, event.change), event.position, position):
                return 0
        elif event.kind in ("reward", "default"):
            rewarded += _rewarded(store, agent, event)
        elif event.kind not in ("dropped", "discarded", "erased"):
            raise LogError(
                f"the event at position {event.position} has the unknown kind {event.kind!r}: use the lim2 that wrote "
                f"it, or a newer one"
            )
    agent.learn_logged(history_of(rewarded) if rewarded else None, position)
    return len(rewarded)


def _rewarded(store: Store, agent: Any, event: Event) -> list[LoggedDecision]:
    """Return the decision of a reward; nothing if its arm was removed."""
    entry = from_row(event.row, event.kind, event.reward)
    if not agent.lacks(entry.arm):
        return [entry]
    if entry.arm in store.look(lambda tables: removed_before(tables, event.position)):
        return []
    raise LogError(
        f"the agent has no arm {entry.arm!r}, which decision {entry.id!r} played: start with the arms of the "
        f"beginning of the log, and change them with log.add_arm and log.remove_arm"
    )


def history_of(decisions: Sequence[LoggedDecision]) -> History:
    """Return decisions with rewards in every form in which the log has them."""
    return History(
        arms=[one.arm for one in decisions],
        rewards=[one.reward for one in decisions],
        contexts=[one.vector for one in decisions],
        items=[None if one.vectors is None else one.vectors[one.arms.index(one.arm)] for one in decisions],
        raw=[one.raw for one in decisions],
        raw_items=[None if one.raw_items is None else one.raw_items[one.arm] for one in decisions],
        positions=[max(one.position, 1) for one in decisions],
        decided=[max(round(1e6 * one.time), 1) for one in decisions],
        rows=[f"decision {one.id!r}" for one in decisions],
        numbered=any(one.items is not None and is_range(one.arms) for one in decisions),
        error=LogError,
    )


def has(agent: Any, arm: Hashable) -> bool:
    """Return whether an agent has fixed arms, and this is one of them."""
    return agent.arms is not None and not agent.lacks(arm)


def _change(store: Store, agent: Any, change: Change, at: int, position: Mapping[str, Any]) -> bool:
    """Change an agent's arms, unless the change repeats the one before; return whether it was changed."""
    applied = has(agent, change.name) == (change.kind == ADD)
    if applied and store.look(lambda tables: is_repeated(tables, change, at)):
        return False
    make_change(agent, change, position)
    return True


class _NewEvents(NamedTuple):
    """Events after an agent's position, from one consistent read."""

    pruned: int
    last: int
    token: str | None  # of the event at the position
    batch: int | None  # the end of the batch that begins here
    events: list[Event]


def _next(store: Store, agent: Any, end: int, batch: Batch, remaining: int, lease: Lease | None) -> list[list[Event]]:
    """Return the next events in batches; raise a LogError if they do not continue the agent's position."""
    after, batches = position_of(agent), agent.batches
    count = ROWS_PER_READ if batch == "auto" else max(batch, ROWS_PER_READ)
    new = store.look(lambda tables: _read(tables, after, end, batches, count))
    _check_continues(new, agent, after)
    if not new.events:
        return []
    if new.batch is not None:
        return [new.events]
    if batch == 1 or not batches or store.read_only:
        return [[event] for event in new.events]
    if new.events[0].change is not None:
        return [new.events[:1]]
    events = _one_batch(new.events, min(growing(agent.rounds) if batch == "auto" else batch, remaining))
    if store.write(lambda tables: _agree(tables, after, events[-1].position, lease)) != events[-1].position:
        return _next(store, agent, end, batch, remaining, lease)  # another process was first: its batch may be another
    return [events]


def _read(tables: Tables, after: int, end: int, batches: bool, count: int) -> _NewEvents:
    pruned = tables.get("pruned")
    event = tables.event(after)
    token = tables.get("pruned token") if after == pruned else None if event is None else event.token
    begin, last = tables.next_batch(after) if batches else (None, None)
    if begin == after and last is not None:
        events = tables.events(after, last, last - after) if last <= end else []
        return _NewEvents(pruned, tables.last(), token, last, events)
    return _NewEvents(pruned, tables.last(), token, None, tables.events(after, end if begin is None else begin, count))


def _one_batch(events: list[Event], size: int) -> list[Event]:
    """Return the events that can be one batch: up to a change of arms."""
    change = next((place for place, event in enumerate(events) if event.change is not None), len(events))
    return events[: min(size, change)]


def _agree(tables: Tables, after: int, end: int, lease: Lease | None) -> int:
    """Store the end of a batch, unless another process has stored one; return its end."""
    check_lease(tables, lease)
    begin, last = tables.next_batch(after)
    if begin == after and last is not None:
        return last
    agreed = end if begin is None else min(end, begin)
    tables.add_batch(after, agreed)
    return agreed


def _check_continues(new: _NewEvents, agent: Any, after: int) -> None:
    learned = agent.metadata.get("log_event")
    if after > new.last or (None not in (new.token, learned) and new.token != learned):
        raise LogError(
            f"the agent has learned up to position {after}, but this log ends at {new.last} or has other events. The "
            f"file is an older copy, or power was lost with synchronous='normal'. Use an agent that was saved earlier, "
            f"or a new log."
        )
    if after < new.pruned:
        raise PrunedLogError(
            f"the agent has learned up to position {after}, but the events up to {new.pruned} were deleted because of "
            f"`keep`, so some are missing. Save the agent more often, or keep more."
        )


def _check_log(log_id: str, agent: Any) -> None:
    """Raise a LogError unless the agent's position belongs to this log."""
    owner = agent.metadata.get("log_id", log_id)
    if owner != log_id:
        raise LogError(
            f"the agent has learned from another log ({owner}; this is {log_id}), so its position is not valid here. "
            f"Use it with that log; or, to continue with a new log, delete log_id and log_position from its metadata."
        )
