"""What is deleted, and when: what is settled, learned, and more than is kept."""

from __future__ import annotations

from datetime import timedelta

from lim2.log.store import Store, Tables


def prune(store: Store, keep: int | timedelta | None, learned: int, now: float) -> None:
    """Delete what is settled, learned, and more than is kept; now and then, many at once.

    Parameters
    ----------
    store
        The log's.
    keep
        How many settled decisions, or for how long.
    learned
        The position up to which an agent has learned.
    now
        The time.
    """
    if keep is None:
        return
    pruned, upto = store.look(lambda tables: (tables.get("pruned"), _end(tables, keep, learned, now)))
    least = 1 if isinstance(keep, timedelta) else min(1 + keep // 10, 1000)
    if upto - pruned >= least:
        store.write(lambda tables: _delete(tables, upto))


def _end(tables: Tables, keep: int | timedelta, learned: int, now: float) -> int:
    """Return the last position that is not kept."""
    if isinstance(keep, timedelta):
        young = tables.first_after(tables.get("pruned"), now - keep.total_seconds())
        return learned if young is None else min(learned, young - 1)
    return min(learned, tables.last() - keep)


def _delete(tables: Tables, upto: int) -> None:
    if upto <= tables.get("pruned"):  # somebody else has done it meanwhile
        return
    event = tables.event(upto)
    if event is not None:
        tables.put("pruned token", event.token)
    tables.prune(upto)
    tables.put("pruned", upto)
