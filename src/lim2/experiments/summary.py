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
    regret_share: NotRequired[float]  # of the random policy's regret, where that is recorded and above 0
    changes: NotRequired[float]  # reported by the agent per run, where it reports changes
    false_changes: NotRequired[float]
    delay: NotRequired[int]  # with `batch`, where rewards are not learned at once
    batch: NotRequired[int]


def summarize(runs: pl.DataFrame) -> list[Row]:
    """Return a row for each (problem, agent), in the order in which they come."""
    rows = [row_of(group) for _, group in runs.group_by("problem", "agent", maintain_order=True)]
    for (problem,), group in runs.group_by("problem", maintain_order=True):
        means = common_means(group)
        reference = next(
            (means[a] for a, s in group.select("agent", "agent_source").iter_rows() if s == REFERENCE), None
        )
        scores = dict(zip(means, normalized(list(means.values()), reference), strict=True))
        for row in rows:
            if row["problem"] == problem:
                row["normalized"] = scores[row["agent"]]
    return rows


def common_means(runs: pl.DataFrame) -> dict[str, float]:
    """Return the mean reward of each agent on a problem, over the seeds that all agents have: nobody has easier ones.

    Where no seed is common to all, over all seeds.

    Examples
    --------
    >>> runs = {"agent": ["a", "a", "b"], "seed": [0, 1, 1], "reward": [9.0, 4.0, 5.0]}
    >>> common_means(pl.DataFrame(runs))
    {'a': 4.0, 'b': 5.0}
    """
    agents = runs["agent"].n_unique()
    common = runs.filter(pl.col("agent").n_unique().over("seed") == agents)
    means = (runs if common.is_empty() else common).group_by("agent", maintain_order=True).agg(pl.col("reward").mean())
    return dict(means.iter_rows())


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
    random = group["random_regret"] if "random_regret" in group.columns else None
    if random is not None and not random.null_count() and (random > 0.0).all():
        row["regret_share"] = float((group["regret"] / random).to_numpy().mean())
        for name in ("changes", "false_changes"):
            if not group[name].null_count():
                row[name] = float(group[name].to_numpy().mean())
    row.update(_feedback(group).changes)  # type: ignore[typeddict-item]  # its keys are delay and batch
    return row


def feedback_of(row: Row) -> Feedback:
    """Return when the rewards of a row's runs were learned."""
    return Feedback(row.get("delay", 0), row.get("batch", 1))


def _feedback(group: pl.DataFrame) -> Feedback:
    """Return when the rewards of some runs were learned: at once, where the table has no columns for it."""
    return Feedback(**{name: group[name][0] for name in LATE if name in group.columns})


def normalized(scores: Sequence[float], reference: float | None) -> list[float | None]:
    """Return the paper's normalised scores: 0 for the random policy, 1 for the best agent.

    Without the reward of the random policy (``reference``), or if no agent beats it, there is no score.

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
    """Write ``summary.json``."""
    write(folder / "summary.json", (json.dumps(list(rows), indent=1) + "\n").encode())
