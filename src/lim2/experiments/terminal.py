"""Results on a terminal."""

from __future__ import annotations

from rich.table import Table

from lim2.experiments.report.texts import megabytes, microseconds, number, p_value
from lim2.experiments.tables import Tables


def leaderboard(tables: Tables) -> Table:
    """Return the leaderboard as a table for a terminal.

    Parameters
    ----------
    tables
        The numbers.
    """
    table = Table(
        title="Normalised score: 0 = random policy, 1 = best agent",
        caption="rank: mean over problems. p: against the first; ≈ can't be told from it.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("#", no_wrap=True)
    table.add_column("agent", no_wrap=True)
    for column in ("mean", "median", "rank", "p", "a round", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for standing in tables.leaderboard:
        table.add_row(
            str(standing.rank),
            standing.agent,
            number(standing.mean, 3),
            number(standing.median, 3),
            number(standing.mean_rank, 1),
            p_value(standing.p) + (" ≈" if standing.tied else ""),
            microseconds(standing.us_per_round),
            megabytes(standing.peak_mb),
            style="bold" if standing.rank == 1 else "",
        )
    return table
