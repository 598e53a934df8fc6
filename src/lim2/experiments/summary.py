"""A row for each (problem, agent), with the paper's normalised score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import polars as pl

from lim2.experiments.feedback import Feedback
from lim2.experiments.store import LATE, write

REFERENCE = "Uniform"  # the source of the agent that scores 0


class Row(TypedDict):
    """A row of ``summary.json``."""

    problem: str
    agent: str
    runs: int
    rounds: int
    reward_mean: float
    reward_std: float | None
    regret_mean: float
    normalized: float | None
    optimal_rate: float
    us_per_round: float
    peak_mb: float | None
    delay: NotRequired[int]  # with `batch`, where rewards are not learned at once
    batch: NotRequired[int]


def summarize(runs: pl.DataFrame) -> list[Row]:
    """Return a row for each (problem, agent), in the order in which they come.

    Parameters
    ----------
    runs
        One row per run, as from `Store.frames`.
    """
    rows = [row_of(group) for _, group in runs.group_by("problem", "agent", maintain_order=True)]
    references = _references(runs)
    for problem in dict.fromkeys(row["problem"] for row in rows):
        same = [row for row in rows if row["problem"] == problem]
        scores = normalized([row["reward_mean"] for row in same], references.get(problem))
        for row, score in zip(same, scores, strict=True):
            row["normalized"] = score
    return rows


def row_of(group: pl.DataFrame) -> Row:
    """Return the summary of the runs of one (problem, agent), without the normalised score."""
    rewards = group["reward"].to_numpy()
    row: Row = {
        "problem": group["problem"][0],
        "agent": group["agent"][0],
        "runs": len(group),
        "rounds": group["rounds"][0],
        "reward_mean": float(rewards.mean()),
        "reward_std": float(rewards.std(ddof=1)) if len(rewards) > 1 else None,
        "regret_mean": float(group["regret"].to_numpy().mean()),
        "normalized": None,
        "optimal_rate": float(group["optimal_rate"].to_numpy().mean()),
        "us_per_round": float(np.median(group["us_per_round"].to_numpy())),
        "peak_mb": group.select(pl.coalesce("agent_mb", "process_mb").max()).item(),
    }
    row.update(_feedback(group).changes)  # type: ignore[typeddict-item]  # its keys are delay and batch
    return row


def feedback_of(row: Row) -> Feedback:
    """Return when the rewards of a row's runs were learned.

    Parameters
    ----------
    row
        Row of a summary.
    """
    return Feedback(row.get("delay", 0), row.get("batch", 1))


def _feedback(group: pl.DataFrame) -> Feedback:
    """Return when the rewards of some runs were learned: at once, where the table has no columns for it."""
    return Feedback(**{name: group[name][0] for name in LATE if name in group.columns})


def _references(runs: pl.DataFrame) -> dict[str, float]:
    """Return the mean cumulative reward of the random policy on each problem."""
    uniform = runs.filter(pl.col("agent_source") == REFERENCE)
    means = uniform.group_by("problem", maintain_order=True).agg(pl.col("reward").mean())
    return dict(means.iter_rows())


def normalized(scores: Sequence[float], reference: float | None) -> list[float | None]:
    """Return the paper's normalised scores: 0 for the random policy, 1 for the best agent.

    Parameters
    ----------
    scores
        Mean cumulative rewards of all agents on a problem.
    reference
        Reward of the random policy. Without it, or if no agent beats it, there is no score.

    Examples
    --------
    >>> normalized([10.0, 30.0, 5.0], 10.0)
    [0.0, 1.0, -0.25]
    >>> normalized([10.0, 9.0], 10.0)
    [None, None]
    """
    best = max(scores, default=0.0)
    if reference is None or best <= reference:
        return [None] * len(scores)
    return [(score - reference) / (best - reference) for score in scores]


def write_summary(folder: Path, rows: Iterable[Row]) -> None:
    """Write ``summary.json``.

    Parameters
    ----------
    folder
        Folder of the results.
    rows
        Rows from `summarize`.
    """
    write(folder / "summary.json", (json.dumps(list(rows), indent=1) + "\n").encode())
