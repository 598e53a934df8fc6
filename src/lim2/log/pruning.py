"""Pruning: delete events that are settled, learned and older than the limit."""

from __future__ import annotations

from datetime import timedelta

from lim2.log.proof import catch_up
from lim2.log.store import Lease, Store, Tables, check_lease


def prune(store: Store, keep: int | timedelta | None, learned: int, now: float, lease: Lease | None = None) -> None:
    """Delete settled and learned events beyond the limit, occasionally and many at once."""
    if keep is None:
        return
    pruned, upto = store.look(lambda tables: (tables.get("pruned"), _end(tables, keep, learned, now)))
    threshold = 1 if isinstance(keep, timedelta) else min(1 + keep // 10, 1000)
    if upto - pruned >= threshold:
        catch_up(store)  # what is deleted stays in the sums of proofs
        store.write(lambda tables: _delete(tables, upto, lease))


def _end(tables: Tables, keep: int | timedelta, learned: int, now: float) -> int:
    """Return the last position to delete."""
    if isinstance(keep, timedelta):
        recent = tables.first_after(tables.get("pruned"), now - keep.total_seconds())
        return learned if recent is None else min(learned, recent - 1)
    return min(learned, tables.last() - keep)


def _delete(tables: Tables, upto: int, lease: Lease | None) -> None:
    check_lease(tables, lease)
    if upto <= tables.get("pruned"):  # another process was first
        return
    event = tables.event(upto)
    if event is not None:
        tables.put("pruned token", event.token)
    tables.prune(upto)
    tables.put("pruned", upto)


def prune_now(store: Store, keep: int | timedelta, learned: int, now: float) -> int:
    """Delete the events beyond the limit at once; return their number."""
    pruned, upto = store.look(lambda tables: (tables.get("pruned"), _end(tables, keep, learned, now)))
    prune(store, 0, upto, now)
    return max(upto - int(pruned), 0)
