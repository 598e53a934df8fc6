"""Numbers of the reports: a leaderboard, and one table per problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.feedback import IMMEDIATE, Feedback
from lim2.experiments.stats import LEVEL, holm, paired_p, pooled_p
from lim2.experiments.summary import REFERENCE, Row, common_means, feedback_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Entry:
    """A line of a problem's table."""

    row: Row
    best: bool
    p: float | None  # paired test against the best, corrected; None for the best itself, or without a test
    times: dict[str, float]  # us: median and 99th percentile of act, and of update
    own_size: bool  # the agent's nbytes; else the growth of the process

    @property
    def tied(self) -> bool:
        """Whether it was tested and is not significantly different from the best."""
        return self.p is not None and self.p >= LEVEL


@dataclass(frozen=True)
class Standing:
    """A line of the leaderboard."""

    agent: str
    rank: int  # agents that were not run on all problems come after the others
    mean: float | None  # of the normalised scores over problems, as in the paper
    median: float | None
    mean_rank: float  # mean over problems of its place by reward
    scores: dict[str, float | None]
    p: float | None  # paired test against the first over all problems and runs, corrected
    us_per_round: float  # geometric mean over problems
    peak_mb: float | None  # the largest
    regret_share: float | None  # of the random policy's, mean over problems; None if unknown for one of them

    @property
    def tied(self) -> bool:
        """Whether it was tested and is not significantly different from the first."""
        return self.p is not None and self.p >= LEVEL


class Tables:
    """All tables of a set of results."""

    def __init__(self, runs: pl.DataFrame, rows: Sequence[Row]) -> None:
        self.runs = runs
        self.rows = list(rows)
        self.problems = list(dict.fromkeys(row["problem"] for row in rows))
        sources = dict(runs.select("agent", "agent_source").iter_rows())
        # The random policy is a reference: it is listed last.
        labels = dict.fromkeys(row["agent"] for row in rows)
        self.agents = sorted(labels, key=lambda label: sources[label] == REFERENCE)
        self.references = {label for label in labels if sources[label] == REFERENCE}

    @cached_property
    def parts(self) -> dict[Feedback, Tables]:
        """The tables of each delay and batch apart: scores of different ones are never averaged."""
        kinds = sorted({feedback_of(row) for row in self.rows}, key=lambda late: (late.batch, late.delay))
        return {late: self._part(late) for late in kinds} if len(kinds) > 1 else {(kinds or [IMMEDIATE])[0]: self}

    def _part(self, feedback: Feedback) -> Tables:
        rows = [row for row in self.rows if feedback_of(row) == feedback]
        return Tables(self.runs.filter(pl.col("problem").is_in({row["problem"] for row in rows})), rows)

    @cached_property
    def across(self) -> dict[str, dict[str, dict[Feedback, Row]]]:
        """Effects of delay and batch: summaries by problem, then agent, then delay and batch."""
        names = {problem: late.unlabelled(problem) for late, part in self.parts.items() for problem in part.problems}
        by_problem: dict[str, dict[str, dict[Feedback, Row]]] = {}
        for problem in self.problems:
            by_agent = by_problem.setdefault(names[problem], {})
            for agent in self.agents:
                row = self.row(problem, agent)
                if row is not None:
                    by_agent.setdefault(agent, {})[feedback_of(row)] = row
        return by_problem

    @cached_property
    def _groups(self) -> dict[tuple[Any, ...], pl.DataFrame]:
        """The runs of every (problem, agent), by seed: a filter each would read all runs each time."""
        return self.runs.sort("seed").partition_by("problem", "agent", as_dict=True, maintain_order=True)

    @cached_property
    def _summaries(self) -> dict[str, dict[str, Row]]:
        """The rows by problem and agent."""
        rows: dict[str, dict[str, Row]] = {}
        for row in self.rows:
            rows.setdefault(row["problem"], {})[row["agent"]] = row
        return rows

    @cached_property
    def _means(self) -> dict[str, dict[str, float]]:
        """Mean rewards by problem and agent that compare: see `common_means`."""
        return {str(name): common_means(group) for (name,), group in self.runs.group_by("problem")}

    @cached_property
    def _entries(self) -> dict[str, list[Entry]]:
        return {problem: self._table(problem) for problem in self.problems}

    def group(self, problem: str, agent: str) -> pl.DataFrame:
        """Return the runs of a (problem, agent), by seed."""
        runs = self._groups.get((problem, agent))
        return self.runs.clear() if runs is None else runs

    def row(self, problem: str, agent: str) -> Row | None:
        """Return the summary of a (problem, agent), if it was run."""
        return self._summaries.get(problem, {}).get(agent)

    def of(self, problem: str) -> list[Entry]:
        """Return a problem's table, best first, references last."""
        return self._entries[problem]

    def _table(self, problem: str) -> list[Entry]:
        rows = list(self._summaries[problem].values())
        rows.sort(key=lambda row: (row["agent"] in self.references, -row["reward_mean"]))
        best = max(rows, key=lambda row: row["reward_mean"])
        first = self.group(problem, best["agent"])
        ps = [None if row is best else paired_p(*paired(first, self.group(problem, row["agent"]))) for row in rows]
        return [self._entry(row, row is best, p) for row, p in zip(rows, holm(ps), strict=True)]

    def _entry(self, row: Row, best: bool, p: float | None) -> Entry:
        group = self.group(row["problem"], row["agent"])
        names = ("act_us_p50", "act_us_p99", "update_us_p50", "update_us_p99")
        times = {name: float(group[name].median()) for name in names}  # type: ignore[arg-type]  # they are numbers
        return Entry(row, best, p, times, own_size=group["agent_mb"].null_count() == 0)

    @cached_property
    def leaderboard(self) -> list[Standing]:
        """The agents over all problems, best first, references last; of one delay and batch, as in `parts`."""
        if len(self.parts) > 1:
            raise ValueError(
                "scores of different delays or batches cannot be averaged: use the leaderboards of `parts`"
            )
        drafts = [self._draft(agent) for agent in self.agents]
        drafts.sort(key=lambda d: (d["agent"] in self.references, -len(d["played"]), -_or_low(d["mean"])))
        leader = drafts[0]["agent"] if drafts else ""
        ps = holm([None if d["agent"] == leader else pooled_p(self._differences(leader, d["agent"])) for d in drafts])
        places = range(1, len(drafts) + 1)
        return [
            Standing(rank=place, p=p, **{key: value for key, value in draft.items() if key != "played"})
            for place, p, draft in zip(places, ps, drafts, strict=True)
        ]

    def _draft(self, agent: str) -> dict[str, Any]:
        rows = [row for row in self.rows if row["agent"] == agent]
        scores = {row["problem"]: row["normalized"] for row in rows}
        present = [score for score in scores.values() if score is not None]
        sizes = [row["peak_mb"] for row in rows if row["peak_mb"] is not None]
        shares = [row["regret_share"] for row in rows if "regret_share" in row]
        return {
            "agent": agent,
            "played": list(scores),
            "mean": float(np.mean(present)) if present else None,
            "median": float(np.median(present)) if present else None,
            "mean_rank": float(np.mean([self.place(problem, agent) for problem in scores])),
            "scores": scores,
            "us_per_round": float(np.exp(np.mean(np.log([row["us_per_round"] for row in rows])))),
            "peak_mb": max(sizes, default=None),
            "regret_share": float(np.mean(shares)) if len(shares) == len(rows) else None,
        }

    def place(self, problem: str, agent: str) -> float:
        """Return an agent's place on a problem, by `common_means`; equals share the mean of their places."""
        rewards = self._means[problem]
        reward = rewards[agent]
        return 1 + sum(r > reward for r in rewards.values()) + (sum(r == reward for r in rewards.values()) - 1) / 2

    def _differences(self, first: str, second: str) -> list[Array]:
        """Return the paired differences of normalised rewards, an array a problem."""
        groups = []
        for problem in self.problems:
            a, b = self.row(problem, first), self.row(problem, second)
            scale = self.range_of(problem)
            if a and b and scale:
                x, y = paired(self.group(problem, first), self.group(problem, second))
                groups.append((x - y) / (scale[1] - scale[0]))
        return groups

    def range_of(self, problem: str) -> tuple[float, float] | None:
        """Return the mean rewards that score 0 and 1 on a problem, by `common_means`; None where there is no score."""
        rewards = self._means[problem]
        reference = next((rewards[agent] for agent in self.references if agent in rewards), None)
        best = max(rewards.values())
        return (reference, best) if reference is not None and best > reference else None


def paired(a: pl.DataFrame, b: pl.DataFrame) -> tuple[Array, Array]:
    """Return the rewards of two agents on the seeds that both have."""
    pairs = a.select("seed", "reward").join(b.select("seed", other="reward"), on="seed").sort("seed")
    return pairs["reward"].to_numpy(), pairs["other"].to_numpy()


def _or_low(score: float | None) -> float:
    return float("-inf") if score is None else score
