"""The state of a log, from a query over many logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lim2.log.reading import LogState, log_state


def state_of(row: Sequence[Any], now: float) -> tuple[LogState, int]:
    """Return the state of a log from the columns `sql.STATE`, and the position up to which its model has learned."""
    last, pruned, head, pending, oldest, size = row
    counts = {"pending": pending, **{key.removeprefix("count "): head[key] for key in head if key.startswith("count ")}}
    return log_state(now, counts, oldest, head["late"], last, pruned, size), int(head.get("published", 0))
