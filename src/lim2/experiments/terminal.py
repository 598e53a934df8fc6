"""Tables for the terminal."""

from __future__ import annotations

import polars as pl
from rich.table import Table

from lim2.experiments.summary import Row


def leaderboard(runs: pl.DataFrame, rows: list[Row]) -> Table:
    """Return the leaderboard."""
    table = Table("agent")
    for row in rows:
        table.add_row(row["agent"])
    return table
