"""Tables of runs that nobody made, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from lim2.experiments.store import SCHEMA
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables

Cells = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]


def tables(cells: Cells, rounds: int = 5000) -> Tables:
    """Return the tables of runs, by (problem, agent): what is not given is 1, "x" or empty."""
    rows = []
    for (problem, agent), runs in cells.items():
        for seed, given in enumerate(runs):
            row: dict[str, Any] = {
                name: []
                if isinstance(dtype, pl.List)
                else 1.0
                if dtype == pl.Float64
                else 1
                if dtype == pl.Int64
                else datetime(2026, 1, 1, tzinfo=UTC)
                if name == "started"
                else "x"
                for name, dtype in SCHEMA.items()
            }
            own = {"problem": problem, "agent": agent, "agent_source": agent, "seed": seed, "rounds": rounds}
            rows.append(row | own | dict(given))
    frame = pl.DataFrame(rows, schema=SCHEMA)
    return Tables(frame, summarize(frame))


def rewards(values: Mapping[tuple[str, str], Sequence[float]]) -> Tables:
    """Return the tables of runs that earned this."""
    return tables({cell: [{"reward": reward} for reward in earned] for cell, earned in values.items()})
