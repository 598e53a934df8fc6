"""Why NeuralUCB and NeuralTS differ: without scaled contexts training diverges, and NaN plays arm 0."""

from __future__ import annotations

import numpy as np
import polars as pl

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import listed, number, plus_minus
from lim2.experiments.tables import Tables
from lim2.paper import table
from lim2.paper.experiment import Experiment, Scale, is_whole, provenance_of, runs_of
from lim2.paper.published import DATASETS, Dataset, dataset
from lim2.paper.reasons import INCOMPARABLE
from lim2.paper.sections import Cell, Section, Sheet

ROUNDS, QUICK_ROUNDS = 3713, 600  # at least; Financial has no more
FIRST = "arm 0"
METHODS = ("NeuralUCB", "NeuralTS")
AGENTS = {
    FIRST: ("lim2.paper.diverging:FirstArm", {}),
    **{method: ("lim2.paper.diverging:Diverging", {"method": method}) for method in METHODS},
}
CLOSE = 5.0  # percent of the way from the random policy to the best published method: what counts as the same
SCHEMA = {
    "dataset": pl.String, "agent": pl.String, "runs": pl.Int64, "mean": pl.Float64, "std": pl.Float64,
    "paper_mean": pl.Float64, "paper_std": pl.Float64, "difference_percent": pl.Float64, "diverged": pl.Int64,
    "median_round": pl.Float64,
}  # fmt: skip


def plans(scale: Scale) -> list[Plan]:
    """Return what is run: both methods without scaling to norm 1, and the policy that plays arm 0."""
    problems = table.problems()
    rounds = QUICK_ROUNDS if scale.quick else None
    return [planned(problems, AGENTS, rounds=rounds, runs=scale.runs)] if problems else []


def diverged(tables: Tables, problem: str, agent: str) -> list[float]:
    """Return the rounds in which training diverged, of the runs in which it did."""
    traces = tables.group(problem, agent)["traces"].to_list()
    return [value for run in traces for trace in run if trace["name"] == "diverged" for value in trace["values"]]


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    played = [problem for problem in tables.problems if tables.row(problem, FIRST) is not None]
    problems = sorted(played, key=lambda problem: DATASETS.index(dataset(problem)))
    if not problems:
        return None
    rows, tidy = [], []
    explained: dict[str, list[str]] = {method: [] for method in METHODS}
    others: dict[str, list[str]] = {method: [] for method in METHODS}
    for problem in problems:
        published = dataset(problem)
        line = [Cell(published.title)]
        for agent in AGENTS:
            row = tables.row(problem, agent)
            if row is None:
                line.append(Cell("–"))
                continue
            mean, std = row["reward_mean"], row["reward_std"] or 0.0
            at = diverged(tables, problem, agent)
            paper = published.raw.get(agent)
            apart = None if paper is None else _percent(tables, problem, published, mean - paper[0])
            if paper is not None and apart is not None and published.title not in INCOMPARABLE:
                (explained if abs(apart) <= CLOSE else others)[agent].append(published.title)
            median = float(np.median(at)) if at else None
            below = "" if paper is None else f"paper {plus_minus(*paper, 0)}; {_said(len(at), row['runs'], median)}"
            line.append(Cell(plus_minus(mean, std, 0), below))
            tidy.append(
                (published.title, agent, row["runs"], mean, std, *(paper or (None, None)), apart, len(at), median)
            )
        rows.append(line)
    whole = is_whole(tables, ROUNDS)
    return Section(
        "collapse",
        "Why NeuralUCB and NeuralTS differ",
        "The paper's data code standardises contexts; the official code of NeuralUCB and NeuralTS expects norm 1. "
        f"Here both get contexts of other norms, with the published learning rate, {runs_of(tables)} of each. "
        "Once training has diverged, outputs are NaN, and the argmax of NaN is arm 0 in all later rounds.",
        sheets=[
            Sheet(
                "collapse",
                "Cumulative reward, mean ± standard deviation. Below it: the published one, in how many runs training "
                "diverged, and the median round.",
                ["", *AGENTS],
                rows,
                pl.DataFrame(tidy, schema=SCHEMA, orient="row"),
            )
        ],
        findings=_findings(explained, others) if whole else (),
        provenance=provenance_of(tables),
    )


def _said(diverged: int, runs: int, median: float | None) -> str:
    return f"diverged in {diverged} of {runs}" + ("" if median is None else f", round {number(median, 0)}")


def _percent(tables: Tables, problem: str, published: Dataset, difference: float) -> float | None:
    """Return a difference of rewards in percent of the way from the random policy to the best published method."""
    random = tables.row(problem, "Uniform")
    span = None if random is None else max(mean for mean, _ in published.raw.values()) - random["reward_mean"]
    return None if not span else 100 * difference / span


def _findings(explained: dict[str, list[str]], others: dict[str, list[str]]) -> list[str]:
    return [
        *(
            f"{method}: the simulated collapse comes within {CLOSE:g}% of the published reward on "
            f"{listed(explained[method] or ['no dataset'])}; not on {listed(others[method] or ['any other'])}."
            for method in METHODS
        ),
        "A policy that always plays arm 0 has the standard deviation of its shuffles. Published deviations below it, "
        "such as ± 2 on Adult, are possible only if the published runs share one sample of rows.",
    ]


COLLAPSE = Experiment("collapse", "Why NeuralUCB and NeuralTS differ", "collapse", plans, section)
