"""Looking into a log: single decisions, tables of them, and what there is to watch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lim2.log.entries import OF_DECISION, LoggedDecision, from_row
from lim2.log.settling import unknown
from lim2.log.slates import row_id
from lim2.log.store import CHUNK, Store
from lim2.log.table import Table, make_table


@dataclass(frozen=True)
class LogState:
    """What a log holds.

    Parameters
    ----------
    pending
        Decisions that wait for their reward.
    oldest_pending
        Seconds that the oldest of them has waited; None if none does.
    rewards, defaults, dropped, discarded
        What became of the settled decisions that are still in the file.
    late
        Rewards that came after their decision had been settled otherwise.
    position
        Of the last event. What an agent is behind is this minus its ``metadata["log_position"]``.
    pruned
        The last position that has been deleted; 0 if none has.
    nbytes
        Size of the file, without the WAL beside it.
    """

    pending: int
    oldest_pending: float | None
    rewards: int
    defaults: int
    dropped: int
    discarded: int
    late: int
    position: int
    pruned: int
    nbytes: int


def read_state(store: Store, now: float) -> LogState:
    """Return what a log holds.

    Parameters
    ----------
    store
        The file.
    now
        The time.
    """
    waiting, since = store.read("SELECT count(*), min(time) FROM decisions WHERE settled IS NULL")[0]
    kinds = dict(store.read("SELECT kind, count(*) FROM events GROUP BY kind"))
    return LogState(
        pending=waiting,
        oldest_pending=None if since is None else now - since,
        rewards=kinds.get("reward", 0),
        defaults=kinds.get("default", 0),
        dropped=kinds.get("dropped", 0),
        discarded=kinds.get("discarded", 0),
        late=store.meta("late"),
        position=store.last(),
        pruned=store.meta("pruned"),
        nbytes=store.path.stat().st_size,
    )


def entries(store: Store, where: str, values: tuple[Any, ...] = ()) -> Iterator[LoggedDecision]:
    """Yield some decisions in the order in which they were made, read a chunk at a time.

    Parameters
    ----------
    store
        The file.
    where, values
        A condition on decisions ``d`` and the events ``e`` that settled them, and its values.
    """
    query = (
        f"SELECT d.seq, coalesce(e.kind, 'pending'), e.reward, {OF_DECISION} FROM decisions d "
        f"LEFT JOIN events e ON e.position = d.settled WHERE d.seq > ? AND {where} ORDER BY d.seq LIMIT {CHUNK}"
    )
    after = 0
    while rows := store.read(query, (after, *values)):
        for _, status, reward, *row in rows:
            yield from_row(tuple(row), status, reward)
        after = rows[-1][0]


def read_one(store: Store, id: str) -> LoggedDecision:
    """Return a decision, or say that it is not there.

    Parameters
    ----------
    store
        The file.
    id
        Of the decision.
    """
    rows = list(entries(store, "d.id = ?", (id,)))
    if not rows:
        first = store.read("SELECT 1 FROM decisions WHERE id = ?", (row_id(id, 1),))
        raise unknown(id, is_slate=bool(first))
    return rows[0]


def read_table(store: Store, last: int | None) -> Table:
    """Return the decisions that have a reward.

    Parameters
    ----------
    store
        The file.
    last
        Only the newest of all decisions, as many; None: all.
    """
    newest = store.read("SELECT coalesce(max(seq), 0) FROM decisions")[0][0]
    first = 0 if last is None else newest - last
    rewarded = "d.seq > ? AND d.slot <= 1 AND coalesce(e.kind, '') IN ('reward', 'default')"
    query = (
        "SELECT count(*) FROM decisions d LEFT JOIN events e ON e.position = d.settled "
        "WHERE d.seq > ? AND d.slot <= 1 AND coalesce(e.kind, 'pending') IN ('pending', 'dropped')"
    )
    return make_table(entries(store, rewarded, (first,)), missing=store.read(query, (first,))[0][0])
