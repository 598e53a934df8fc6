"""Comparison of agents over many datasets: ranks, tests, wins and losses, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.ranks import Friedman, bootstrap, critical_difference, friedman, groups, ranks, wilcoxon_holm
from lim2.experiments.stats import LEAST, LEVEL, holm, paired_p
from lim2.experiments.summary import normalized
from lim2.experiments.tables import Tables

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """An agent over all datasets."""

    agent: str
    rank: float  # mean over datasets
    rank_interval: tuple[float, float]  # 95%, bootstrap over datasets
    score: float | None  # mean normalised score; None where the random policy is missing
    score_interval: tuple[float, float] | None


@dataclass(frozen=True)
class Pair:
    """One agent against another."""

    first: str
    second: str
    wins: int  # datasets on which the mean reward of the first is higher
    ties: int
    losses: int
    clear_wins: int  # significant over runs: paired t-test, Holm's correction over datasets
    clear_losses: int
    p: float  # Wilcoxon's signed-rank test over datasets, Holm's correction over all pairs


@dataclass(frozen=True)
class Analysis:
    """Agents over many datasets."""

    problems: tuple[str, ...]  # those that all agents played
    places: tuple[Place, ...]  # best mean rank first, without the random policy
    # agents that played at most half of the datasets, and datasets that not all others played
    left_out: tuple[str, ...]
    friedman: Friedman | None  # None for two agents
    critical_difference: float | None  # by Nemenyi's test; None for two agents
    nemenyi: tuple[tuple[str, ...], ...]  # groups of agents that are not significantly different
    wilcoxon: tuple[tuple[str, ...], ...]
    pairs: tuple[Pair, ...]

    @property
    def agents(self) -> list[str]:
        """The agents, best mean rank first."""
        return [place.agent for place in self.places]

    def pair(self, first: str, second: str) -> Pair:
        """Return one agent against another."""
        return next(pair for pair in self.pairs if (pair.first, pair.second) == (first, second))

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)


def analysed(tables: Tables) -> Analysis | None:
    """Compare agents over datasets; None where there are fewer than six datasets or two agents.

    Means are over the seeds that all agents have on a dataset, so that nobody gains by an easy shuffle.
    """
    played = {agent: sum(row["agent"] == agent for row in tables.rows) for agent in tables.agents}
    mostly = [agent for agent in tables.agents if 2 * played[agent] > len(tables.problems)]
    agents = [agent for agent in mostly if agent not in tables.references]
    reference = next((agent for agent in mostly if agent in tables.references), None)
    counted = [*agents, *([reference] if reference else [])]
    rewards = {problem: _common(tables, problem, counted) for problem in tables.problems}
    problems = [problem for problem, matrix in rewards.items() if len(matrix)]
    if len(problems) < LEAST or len(agents) < 2:
        return None
    means = np.array([rewards[problem].mean(axis=0) for problem in problems])
    scores = means[:, : len(agents)]
    left_out = [name for name in (*tables.agents, *tables.problems) if name not in (*counted, *problems)]
    runs = [rewards[problem][:, : len(agents)] for problem in problems]
    normal = _normalised(means) if reference else None
    return _compared(problems, agents, scores, normal, runs, tuple(left_out))


def _common(tables: Tables, problem: str, agents: Sequence[str]) -> Array:
    """Return the rewards of agents on a problem, (seeds, agents), of the seeds that all have."""
    runs = tables.runs.select("problem", "agent", "seed", "reward")  # without curves, which are long
    runs = runs.filter(pl.col("problem") == problem, pl.col("agent").is_in(list(agents)))
    if runs["agent"].n_unique() < len(agents):
        return np.empty((0, len(agents)))
    wide = runs.pivot(on="agent", index="seed", values="reward").drop_nulls().sort("seed")
    return wide.select(agents).to_numpy().astype(float)


def _normalised(means: Array) -> Array:
    """Return the normalised scores, (datasets, agents); the last column given is the random policy.

    Datasets on which nobody beats it have no scores, and are left out.
    """
    rows = [normalized(row.tolist(), float(row[-1])) for row in means]
    return np.array([row[:-1] for row in rows if row[0] is not None], dtype=float).reshape(-1, means.shape[1] - 1)


def _compared(
    problems: Sequence[str],
    agents: Sequence[str],
    scores: Array,
    normal: Array | None,
    runs: Sequence[Array],
    left_out: tuple[str, ...],
) -> Analysis:
    places = ranks(scores)
    mean_ranks = places.mean(axis=0)
    order = [int(i) for i in np.argsort(mean_ranks, kind="stable")]
    low, high = bootstrap(places)
    score_of = _intervals(normal, len(agents))
    ps = wilcoxon_holm(scores)
    several = len(agents) > 2
    distance = critical_difference(len(agents), len(problems)) if several else None
    near = np.abs(np.subtract.outer(mean_ranks, mean_ranks)) < (distance or 0.0)

    def named(groups: Sequence[tuple[int, ...]]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(agents[i] for i in group) for group in groups)

    return Analysis(
        problems=tuple(problems),
        places=tuple(
            Place(agents[i], float(mean_ranks[i]), (float(low[i]), float(high[i])), *score_of[i]) for i in order
        ),
        left_out=left_out,
        friedman=friedman(scores) if several else None,
        critical_difference=distance,
        nemenyi=named(groups(mean_ranks.tolist(), near)) if several else (),
        wilcoxon=named(groups(mean_ranks.tolist(), ps >= LEVEL)),
        pairs=tuple(_pair(agents, i, j, scores, runs, float(ps[i, j])) for i in order for j in order if i != j),
    )


def _intervals(normal: Array | None, agents: int) -> list[tuple[float | None, tuple[float, float] | None]]:
    if normal is None or not len(normal):
        return [(None, None)] * agents
    low, high = bootstrap(normal)
    return [(float(normal[:, i].mean()), (float(low[i]), float(high[i]))) for i in range(agents)]


def _pair(agents: Sequence[str], i: int, j: int, scores: Array, runs: Sequence[Array], p: float) -> Pair:
    gaps = scores[:, i] - scores[:, j]
    tested = holm([paired_p(run[:, i], run[:, j]) for run in runs])
    clear = np.array([q is not None and q < LEVEL for q in tested])
    won, lost = gaps > 0, gaps < 0
    counts = [int(where.sum()) for where in (won, gaps == 0, lost, clear & won, clear & lost)]
    return Pair(agents[i], agents[j], counts[0], counts[1], counts[2], counts[3], counts[4], p)
