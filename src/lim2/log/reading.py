"""Read a log: single decisions, tables and counts."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.log.candidates import Candidates
from lim2.log.dataframes import objects
from lim2.log.entries import LoggedDecision, from_row, weight, without_features
from lim2.log.rewards import unknown_decision
from lim2.log.store import ROWS_PER_READ, DecisionFilter, Store, StoredDecision, Tables
from lim2.log.table import Table

FEW_ROWS = 16  # that are read at first, until it is known how large they are


@dataclass(frozen=True)
class LogState:
    """Counts and size of a log.

    Parameters
    ----------
    oldest_pending
        Age of the oldest pending decision in seconds; None if there is none.
    rewards
        Number of decisions settled by a reward.
    defaults
        Number of decisions that expired with the default reward.
    dropped
        Number of decisions that expired without a reward.
    discarded
        Number of decisions excluded by `discard`.
    erased
        Number of decisions deleted by `erase`.
    late
        Number of rewards that arrived after their decision had expired or been discarded.
    position
        Position of the last event. An agent lags behind by this minus its ``metadata["log_position"]``.
    pruned
        Last deleted position; 0 if nothing was deleted.
    nbytes
        Size of the file in bytes, without the WAL.
    """

    pending: int
    oldest_pending: float | None
    rewards: int
    defaults: int
    dropped: int
    discarded: int
    erased: int
    late: int
    position: int
    pruned: int
    nbytes: int


def read_state(store: Store, now: float) -> LogState:
    """Return the counts and the size of a log."""
    size = store.nbytes()

    def work(tables: Tables) -> LogState:
        late, pruned = tables.get("late"), tables.get("pruned")
        return log_state(now, tables.counts(), tables.oldest(), late, tables.last(), pruned, size)

    return store.look(work)


def log_state(
    now: float, counts: dict[str, int], oldest: float | None, late: int, position: int, pruned: int, nbytes: int
) -> LogState:
    """Return the state of a log from its counts, and the time of its oldest pending decision."""
    rewards, defaults, dropped, discarded, erased = (
        counts[kind] for kind in ("reward", "default", "dropped", "discarded", "erased")
    )
    age = None if oldest is None else now - oldest
    return LogState(
        counts["pending"], age, rewards, defaults, dropped, discarded, erased, late, position, pruned, nbytes
    )


def entries(store: Store, filter: DecisionFilter, after: int = 0) -> Iterator[LoggedDecision]:
    """Yield decisions after a seq, in the order in which they were made, read in chunks."""
    while rows := store.look(lambda tables: tables.decisions(filter, after, ROWS_PER_READ)):  # noqa: B023
        for decision in rows:
            yield from_row(decision.row, decision.status, decision.reward)
        after = rows[-1].seq


def newest(store: Store, last: int, max_weight: int, *, features: bool = True) -> tuple[list[LoggedDecision], bool]:
    """Return the newest decisions in the order in which they were made, and whether there was no room for more."""
    decisions: list[LoggedDecision] = []
    count, total, chunk, before = 0, 0, FEW_ROWS, sys.maxsize
    while count < last:
        count = min(count + chunk, last)
        after, rows = store.look(lambda tables: _newest(tables, count, chunk))  # noqa: B023
        for stored in reversed([decision for decision in rows if decision.seq < before]):
            row = stored.row if features else without_features(stored.row)
            total += weight(row)
            if total > max_weight and decisions:
                return decisions[::-1], True
            decisions.append(from_row(row, stored.status, stored.reward))
        if not after:
            break
        before = after + 1
        room = (max_weight - total) * len(decisions) // max(total, 1)
        chunk = min(max(room, 1), 2 * chunk, ROWS_PER_READ)
    return decisions[::-1], False


def _newest(tables: Tables, count: int, limit: int) -> tuple[int, list[StoredDecision]]:
    after = tables.newest(count)
    return after, tables.decisions("all", after, limit)


def read_one(store: Store, id: str) -> LoggedDecision:
    """Return a decision; raise an UnknownDecisionError if it is not in the log."""

    def work(tables: Tables) -> StoredDecision:
        decision = tables.decision(id)
        if decision is None:
            raise unknown_decision(tables, id)
        return decision

    decision = store.look(work)
    return from_row(decision.row, decision.status, decision.reward)


def read_table(store: Store, last: int | None) -> Table:
    """Return those of the last decisions that have a reward; of all if ``last`` is None."""
    first = 0 if last is None else store.look(lambda tables: tables.newest(last))
    missing = store.look(lambda tables: tables.unrewarded(first))
    return make_table(entries(store, "rewarded", first), missing)


def make_table(entries: Iterable[LoggedDecision], missing: int) -> Table:
    """Return a table of decisions with rewards, in the order in which they were made; ``missing`` had none."""
    index: dict[Hashable, int] = {}
    places, rows = [], []
    for row in entries:
        places.append([index.setdefault(arm, len(index)) for arm in row.arms])
        rows.append(row)
    raw = _all([row.raw for row in rows])
    vectors = _stacked([row.vector for row in rows], "contexts")
    raw_items = _all([None if row.raw_items is None else list(row.raw_items.values()) for row in rows])
    items = _stacked([row.vectors for row in rows], "items", np.concatenate)
    if vectors is None and raw is None and rows:
        raise ValueError("the log has decisions with vectors only and others with raw contexts only: table(last=...)")
    if items is None and raw_items is None and any(row.items is not None for row in rows):
        raise ValueError("the log has decisions among items, and others without or in another form: table(last=...)")
    flat_raw = None if raw_items is None else objects([item for row in raw_items for item in row])
    contexts = np.empty(0) if not rows else objects(raw or []) if vectors is None else vectors
    propensities = np.concatenate([row.propensities for row in rows] or [np.empty(0)])
    means = np.concatenate([row.means for row in rows] or [np.empty(0)])
    candidates = Candidates.of(
        places,
        propensities=None if np.isnan(propensities).any() else propensities,
        means=None if np.isnan(means).any() else means,
        items=flat_raw if items is None else items,
        raw_items=flat_raw,
    )
    return Table(
        contexts=contexts,
        arms=tuple(index),
        chosen=np.array([index[row.arm] for row in rows], dtype=np.intp),
        propensity=np.array([row.propensity for row in rows], dtype=np.float64),
        rewards=np.array([row.reward for row in rows], dtype=np.float64),
        candidates=candidates,
        raw=None if raw is None else objects(raw),
        missing=missing,
    )


def _all(values: list[Any]) -> list[Any] | None:
    """Return the values if none is missing, else None."""
    return None if not values or any(value is None for value in values) else values


def _stacked(arrays: list[Any], name: str, join: Any = np.stack) -> NDArray[Any] | None:
    if _all(arrays) is None:
        return None
    shapes = {array.shape[-1:] if join is np.concatenate else array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(f"the log's {name} have different shapes {sorted(shapes)}: table(last=...) takes the newest")
    joined: NDArray[Any] = join(arrays)
    return joined
