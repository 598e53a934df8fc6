"""An agent learns from a log: the events after its position, in order, each exactly once.

The position is part of the agent, in its metadata, and moves with every event. So a saved agent and its position are
always of the same moment, and what a crash takes from the agent's memory is learned again from the file.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lim2.log import deciders
from lim2.log.changes import ADD, REMOVE, Change, from_text, is_repeated, make_change
from lim2.log.entries import COLUMNS, OF_DECISION, LoggedDecision, from_row
from lim2.log.errors import LogError, PrunedLogError
from lim2.log.slates import row_id
from lim2.log.store import CHUNK, Store, last_of
from lim2.state import Write, put

if TYPE_CHECKING:
    import sqlite3

Choice = tuple[Hashable, float]  # an arm, and its propensity


def position_of(agent: Any) -> int:
    """Return the position of the last event that an agent has learned, 0 if none.

    Parameters
    ----------
    agent
        An agent, or what decides like one.
    """
    return int((getattr(agent, "metadata", None) or {}).get("log_position", 0))


def learn(store: Store, agent: Any, *, limit: int | None = None, upto: int | None = None) -> int:
    """Apply the events after an agent's position; return how many rewards were learned.

    Parameters
    ----------
    store
        The log's file.
    agent
        Who learns.
    limit
        Stop after this many rewards.
    upto
        Stop after the event at this position.
    """
    _check(store, agent)
    learned = 0
    end = store.last() if upto is None else upto
    events = _events(store, agent, end)
    agent.metadata.update(log_id=store.meta("id"), log_position=position_of(agent))
    while events:
        for event in events:
            if limit is not None and learned >= limit:
                return learned
            known = {"log_position": event.position, "log_event": event.token}
            moves = [(agent.metadata, key, value) for key, value in known.items()]
            try:
                learned += _apply(store, agent, event, moves)
            except Exception as error:
                what = "change of arms" if event.change is not None else f"reward of decision {event.row[0]!r}"
                error.add_note(
                    f"The {what} at position {event.position} of the log {store.path} could not be applied; the agent "
                    f"stands before it. `log.discard(id)` leaves a decision out."
                )
                raise
            put(moves)  # it has moved already where something was learned, unless the agent cannot do both at once
        events = _events(store, agent, end)
    return learned


def decide_again(store: Store, agent: Any) -> int:
    """Make every decision of a log again, after as many events as then; return how many rewards were learned.

    Parameters
    ----------
    store
        The log's file.
    agent
        Who decides and learns.
    """
    learned, seq = 0, 0
    query = f"SELECT seq, position, {COLUMNS} FROM decisions WHERE seq > ? AND slot <= 1 ORDER BY seq LIMIT ?"
    while rows := store.read(query, (seq, CHUNK)):
        for seq, position, *row in rows:  # noqa: B007 (the next chunk begins after the last)
            entry = from_row(tuple(row), "pending", None)
            learned += learn(store, agent, upto=position)
            logged = _logged(store, entry)
            again = _again(agent, entry, len(logged))
            if position_of(agent) != position or again != logged:
                raise LogError(
                    f"decision {entry.id!r} comes out differently: {_words(again)} after {position_of(agent)} events, "
                    f"not {_words(logged)} after {position}. Either the agent differs from the live one, or that was "
                    f"restarted, or decided outside the log; replay without decisions=True gives what it had learned."
                )
    return learned


def _logged(store: Store, entry: LoggedDecision) -> list[Choice]:
    """Return what was chosen, with its propensity: one, or one per position of a slate."""
    chosen = [entry]
    while entry.position:
        next_id = row_id(entry.id.removesuffix("/1"), len(chosen) + 1)
        rows = store.read(f"SELECT {COLUMNS} FROM decisions WHERE id = ?", (next_id,))
        if not rows:
            break
        chosen.append(from_row(rows[0], "pending", None))
    return [(one.arm, one.propensity) for one in chosen]


def _again(agent: Any, entry: LoggedDecision, positions: int) -> list[Choice]:
    about, eligible = deciders.situation_of(entry), deciders.eligible_in(agent, entry)
    if entry.position:
        slate = deciders.rank(agent, about, positions, eligible, entry.exploit)
        return [(one.arm, one.propensity) for one in slate]
    one = deciders.decide(agent, about, eligible, entry.exploit)
    return [(one.arm, one.propensity)]


def _words(choices: list[Choice]) -> str:
    return ", ".join(repr(arm) for arm, _ in choices)


def prune(store: Store, keep: int | timedelta | None, learned: int, now: float) -> None:
    """Delete what is settled, learned, and more than is kept; now and then, many at once.

    Parameters
    ----------
    store
        The log's file.
    keep
        How many settled decisions, or for how long.
    learned
        The position up to which an agent has learned.
    now
        The time.
    """
    if keep is None:
        return
    pruned = store.meta("pruned")
    if isinstance(keep, timedelta):
        query = "SELECT position - 1 FROM events WHERE position > ? AND time > ? ORDER BY position LIMIT 1"
        young = store.read(query, (pruned, now - keep.total_seconds()))
        upto, least = min(learned, young[0][0]) if young else learned, 1
    else:
        upto, least = min(learned, store.last() - keep), min(1 + keep // 10, 1000)
    if upto - pruned < least:
        return

    def delete(file: sqlite3.Connection) -> None:
        last = file.execute("SELECT token FROM events WHERE position = ?", (upto,)).fetchone()
        if last is not None:  # nobody else has deleted it meanwhile
            file.execute("INSERT OR REPLACE INTO meta VALUES ('pruned token', ?)", last)
        chosen = "SELECT decision FROM events WHERE position <= ? AND decision IS NOT NULL"
        file.execute(f"DELETE FROM decisions WHERE seq IN ({chosen})", (upto,))
        file.execute("DELETE FROM events WHERE position <= ? AND decision IS NOT NULL", (upto,))
        file.execute("UPDATE meta SET value = max(value, ?) WHERE key = 'pruned'", (upto,))

    store.write(delete)


class Event(NamedTuple):
    """A row of the events, and the row of the decision that it is about, if it is about one."""

    position: int
    kind: str
    reward: float | None
    change: str | None
    token: str | None
    row: tuple[Any, ...]


def _events(store: Store, agent: Any, end: int) -> list[Event]:
    """Return some events after an agent's position, the next ones; or say why they do not follow what it has learned.

    All is read at one moment, in a transaction that ends here: the agent learns between the reads.
    """
    query = (
        f"SELECT e.position, e.kind, e.reward, e.change, e.token, {OF_DECISION} FROM events e LEFT JOIN decisions d "
        "ON d.seq = e.decision WHERE e.position > ? AND e.position <= ? ORDER BY e.position LIMIT ?"
    )

    after = position_of(agent)

    def work(file: sqlite3.Connection) -> tuple[int, int, str | None, list[Any]]:
        pruned = file.execute("SELECT value FROM meta WHERE key = 'pruned'").fetchone()[0]
        rows = file.execute(query, (after, end, CHUNK)).fetchall()
        return pruned, last_of(file), _token(file, after, pruned), rows

    pruned, last, token, rows = store.look(work)
    if after > last or (None not in (token, learned := agent.metadata.get("log_event")) and token != learned):
        raise LogError(
            f"the agent has learned up to position {after} of a log that went on otherwise, or ended: this one ends at "
            f"{last}. The file is an older copy, or power was lost with synchronous='normal'. Go on with an agent "
            f"saved earlier, or with a new log."
        )
    if after < pruned:
        raise PrunedLogError(
            f"the agent has learned up to position {after}, but the log begins after {pruned}: what is between was "
            f"deleted, as `keep` says. Save the agent more often, or keep more."
        )
    return [
        Event(position, kind, reward, change, token, tuple(row)) for position, kind, reward, change, token, *row in rows
    ]


def _token(file: sqlite3.Connection, position: int, pruned: int) -> str | None:
    """Return the token of the event at a position; None if it is not known."""
    query, key = "SELECT token FROM events WHERE position = ?", (position,)
    if position == pruned:
        query, key = "SELECT value FROM meta WHERE key = 'pruned token'", ()  # type: ignore[assignment]
    row = file.execute(query, key).fetchone()
    return None if row is None else row[0]


def _apply(store: Store, agent: Any, event: Event, moves: list[Write]) -> int:
    """Let an agent learn an event; return how many rewards that were. The kinds of events are these, and no others."""
    if event.change is not None:
        _change(store, agent, from_text(event.kind, event.change), event.position, moves)
    elif event.kind in ("reward", "default"):
        return _update(store, agent, from_row(event.row, event.kind, event.reward), event.position, moves)
    elif event.kind not in ("dropped", "discarded"):
        raise LogError(
            f"the event at position {event.position} is of a kind {event.kind!r} that this version of lim2 does not "
            f"know: use the lim2 that wrote it, or a newer one"
        )
    return 0


def _update(store: Store, agent: Any, entry: LoggedDecision, position: int, moves: list[Write]) -> int:
    """Learn one reward; return 0 if its arm has been removed, and 1 otherwise."""
    if deciders.lacks(agent, entry.arm):
        if entry.arm in _removed(store, position):
            return 0
        raise LogError(
            f"the agent has no arm {entry.arm!r}, which decision {entry.id!r} played: give it the arms that it had "
            f"when the log began, and change them by log.add_arm and log.remove_arm"
        )
    deciders.teach(agent, deciders.lesson_of(entry), moves)
    return 1


def _change(store: Store, agent: Any, change: Change, position: int, moves: list[Write]) -> None:
    done = deciders.has(agent, change.name) == (change.kind == ADD)
    if not (done and is_repeated(store, change, position)):
        make_change(agent, change, moves)


def _removed(store: Store, before: int) -> set[Hashable]:
    query = "SELECT change FROM events WHERE kind = 'remove_arm' AND position < ?"
    return {from_text(REMOVE, text).name for (text,) in store.read(query, (before,))}


def _check(store: Store, agent: Any) -> None:
    """Make sure that the agent's position is one of this log."""
    log_id = store.meta("id")
    owner = agent.metadata.get("log_id", log_id)
    if owner != log_id:
        raise LogError(
            f"the agent has learned from another log ({owner}; this is {log_id}): its position says nothing here. Give "
            f"it the log that it belongs to; or, to go on with a new one, delete log_id and log_position from its "
            f"metadata."
        )
