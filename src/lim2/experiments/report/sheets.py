"""The tables of a report as data, for CSV files."""

from __future__ import annotations

import polars as pl

from lim2.experiments.tables import Tables

RUNS = ("problem", "agent", "seed", "rounds", "reward", "regret", "optimal_rate", "us_per_round", "agent_mb")


def frames(tables: Tables) -> dict[str, pl.DataFrame]:
    """Return the leaderboard, the results of every (problem, agent), and every run."""
    names = ("rank", "agent", "mean", "median", "mean_rank", "p", "us_per_round", "peak_mb")
    board = [{name: getattr(standing, name) for name in names} for standing in tables.leaderboard]
    entries = [
        {**entry.row, "best": entry.best, "p_against_best": entry.p, **entry.times}
        for problem in tables.problems
        for entry in tables.of(problem)
    ]
    return {
        "leaderboard": pl.DataFrame(board, infer_schema_length=None),
        "results": pl.DataFrame(entries, infer_schema_length=None),
        "runs": tables.runs.select(RUNS),
    }
