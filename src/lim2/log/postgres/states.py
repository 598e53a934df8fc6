"""What a log holds, as columns of a query over many logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lim2.log.postgres.sql import SIZE
from lim2.log.reading import LogState

# Of the row `l` of lim2.logs.
STATE = (
    "l.last, l.pruned, l.head, (SELECT count(*) FROM lim2.pending p WHERE p.log = l.log), "
    f"(SELECT min(p.time) FROM lim2.pending p WHERE p.log = l.log), ({SIZE})"
)


def state_of(row: Sequence[Any], now: float) -> tuple[LogState, int]:
    """Return the state of a log, and the position up to which its published model has learned.

    Parameters
    ----------
    row
        Values of the columns `STATE`.
    now
        The time, in seconds.
    """
    last, pruned, head, pending, oldest, size = row
    state = LogState(
        pending=pending,
        oldest_pending=None if oldest is None else now - oldest,
        rewards=head["count reward"],
        defaults=head["count default"],
        dropped=head["count dropped"],
        discarded=head["count discarded"],
        erased=head["count erased"],
        late=head["late"],
        position=last,
        pruned=pruned,
        nbytes=size,
    )
    return state, int(head.get("published", 0))
