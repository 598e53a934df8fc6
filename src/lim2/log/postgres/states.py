"""The state of a log, from a query over many logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lim2.log.reading import LogState


def state_of(row: Sequence[Any], now: float) -> tuple[LogState, int]:
    """Return the state of a log from the columns `sql.STATE`, and the position up to which its model has learned."""
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
