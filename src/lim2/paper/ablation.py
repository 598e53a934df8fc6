"""What carries the result: LiM2 with its pieces taken out or exchanged, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import listed, number, p_value, plus_minus
from lim2.experiments.stats import LEVEL, holm, paired_p, pooled_interval, pooled_p
from lim2.experiments.tables import Tables, paired
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, is_here, made_by, runs_of
from lim2.paper.sections import Cell, Section, Sheet

Array = NDArray[np.float64]

PROBLEMS = ("statlog", "covertype", "census", "epileptic")
QUICK_ROUNDS = 800
PUBLISHED = "LiM2 as published"
RATE = 0.01
BOTH: dict[str, Any] = {"intercept": True, "refresh": "all"}
VARIANTS: Mapping[str, dict[str, Any]] = {
    PUBLISHED: {},
    "no matching step": {"matching": None},
    "matching by sample": {"matching": "sample"},
    "matching rate x 10": {"matching_rate": 10 * RATE},
    "matching rate x 100": {"matching_rate": 100 * RATE},
    "matching rate x 1000": {"matching_rate": 1000 * RATE},
    "matching solved": {"matching": "solve"},
    "no recount": {"recount": False},
    "no recount, solved": {"recount": False, "matching": "solve"},
    "no mean prior": {"mean_prior": False},
    "noise from the buffer": {"noise": "buffer"},
    "all means refreshed": {"refresh": "all"},
    "intercept": {"intercept": True},
}
COMBINATIONS: Mapping[str, dict[str, Any]] = {
    "intercept, all refreshed": BOTH,
    "... and no matching step": {**BOTH, "matching": None},
    "... and noise from the buffer": {**BOTH, "noise": "buffer"},
    "... and no recount, solved": {**BOTH, "recount": False, "matching": "solve"},
    "... and all three": {**BOTH, "noise": "buffer", "recount": False, "matching": "solve"},
}


def plans(scale: Scale) -> list[Plan]:
    """Return what is run."""
    agents = {label: ("LiM2", settings) for label, settings in {**VARIANTS, **COMBINATIONS}.items()}
    here = [problem for problem in PROBLEMS if is_here(problem)]
    runs = min(scale.runs, 2) if scale.quick else scale.runs
    return [planned(here, agents, rounds=QUICK_ROUNDS if scale.quick else None, runs=runs)] if here else []


def differences(tables: Tables, label: str) -> dict[str, Array]:
    """Return, by problem, a variant's differences from LiM2 run by run, in percent of its lead over the random policy.

    Parameters
    ----------
    tables
        The runs.
    label
        Of the variant.
    """
    found = {}
    for problem in tables.problems:
        ours, random = tables.row(problem, PUBLISHED), tables.row(problem, "Uniform")
        if ours is None or random is None or tables.row(problem, label) is None:
            continue
        variant, published = paired(tables.group(problem, label), tables.group(problem, PUBLISHED))
        if len(variant):
            found[problem] = 100 * (variant - published) / (ours["reward_mean"] - random["reward_mean"])
    return found


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    every = {**VARIANTS, **COMBINATIONS}
    labels = [label for label in every if label != PUBLISHED and differences(tables, label)]
    if not labels:
        return None
    apart = {label: differences(tables, label) for label in labels}
    pooled = dict(zip(labels, holm([pooled_p(list(apart[label].values())) for label in labels]), strict=True))
    sheet = _sheet(tables, labels, apart, pooled)
    significant = _significant(pooled)
    drawn = [
        (
            label,
            *pooled_interval(list(apart[label].values())),
            [float(d.mean()) for d in apart[label].values()],
            label in significant,
        )
        for label in labels
    ]
    rounds = tables.rows[0]["rounds"]
    return Section(
        "ablation",
        "What carries the result",
        f"{listed([problem.capitalize() for problem in tables.problems])}, {rounds:,} rounds, {runs_of(tables)} of "
        "each variant on the same shuffles. Each line changes LiM2 as published in one point; the last ones "
        "combine points. The matching rate decays by 1/t in all of them.",
        sheets=[sheet],
        figures=[figures.ablation(drawn, "LiM2 as published")],
        findings=_findings(labels, apart, pooled),
        made=made_by(tables),
    )


def _sheet(
    tables: Tables, labels: list[str], apart: dict[str, dict[str, Array]], pooled: dict[str, float | None]
) -> Sheet:
    tests = {  # of each problem, corrected over the variants
        problem: dict(zip(labels, holm([_test(tables, problem, label) for label in labels]), strict=True))
        for problem in tables.problems
    }
    rows: list[list[Cell]] = []
    tidy: list[tuple[object, ...]] = []
    for label in (PUBLISHED, *labels):
        line = [Cell(label)]
        for problem in tables.problems:
            row = tables.row(problem, label)
            if row is None:
                line.append(Cell("–"))
                continue
            p = tests[problem].get(label)
            difference = float(apart[label][problem].mean()) if label in apart else 0.0
            mark = ("better" if difference > 0 else "worse") if p is not None and p < LEVEL else ""
            below = "" if label == PUBLISHED else f"{number(difference, 1)}%, p {p_value(p) or '–'}"
            line.append(Cell(plus_minus(row["reward_mean"], row["reward_std"], 0), below, mark))
            tidy.append((label, problem, row["runs"], row["reward_mean"], row["reward_std"], difference, p))
        if label == PUBLISHED:
            line.append(Cell(""))
        else:
            mean, half = pooled_interval(list(apart[label].values()))
            p = pooled[label]
            mark = ("better" if mean > 0 else "worse") if p is not None and p < LEVEL else ""
            line.append(Cell(f"{number(mean, 1)} ± {number(half, 1)}%", f"p {p_value(p) or '–'}", mark))
            tidy.append((label, "all", None, None, None, mean, p))
        rows.append(line)
    return Sheet(
        "ablation",
        "Cumulative reward, mean ± standard deviation; below, the mean paired difference from LiM2 as published in "
        "percent of its lead over the random policy, and p of the paired t-test with Holm's correction over the "
        "variants. Last column: the mean over the datasets with its 95% interval, and the p of the pooled test.",
        ["", *tables.problems, "all"],
        rows,
        pl.DataFrame(
            tidy,
            schema={
                "variant": pl.String, "problem": pl.String, "runs": pl.Int64, "mean": pl.Float64, "std": pl.Float64,
                "difference_percent": pl.Float64, "p": pl.Float64,
            },
            orient="row",
        ),
    )  # fmt: skip


def _test(tables: Tables, problem: str, label: str) -> float | None:
    if tables.row(problem, label) is None or tables.row(problem, PUBLISHED) is None:
        return None
    return paired_p(*paired(tables.group(problem, label), tables.group(problem, PUBLISHED)))


def _significant(pooled: dict[str, float | None]) -> set[str]:
    """Return the variants whose difference is more than chance."""
    return {label for label, p in pooled.items() if p is not None and p < LEVEL}


def _findings(labels: list[str], apart: dict[str, dict[str, Array]], pooled: dict[str, float | None]) -> list[str]:
    """Say which pieces matter, by the pooled tests."""
    if all(p is None for p in pooled.values()):
        return ["One run of each: too few to test a difference."]
    single = [label for label in labels if label in VARIANTS]

    def shown(label: str) -> str:
        mean, half = pooled_interval(list(apart[label].values()))
        return f"{label} ({'+' if mean > 0 else ''}{number(mean, 1)} ± {number(half, 1)}%)"

    significant = _significant(pooled)
    hurt = [label for label in single if label in significant and pooled_interval(list(apart[label].values()))[0] < 0]
    help_ = [label for label in single if label in significant and pooled_interval(list(apart[label].values()))[0] > 0]
    nothing = [label for label in single if label not in significant]
    best = max(labels, key=lambda label: pooled_interval(list(apart[label].values()))[0])
    sentences = []
    if hurt:
        sentences.append(f"Worse than published: {listed([shown(label) for label in hurt])}.")
    if help_:
        sentences.append(f"Better than published: {listed([shown(label) for label in help_])}.")
    if nothing:
        words = listed([shown(label) for label in nothing])
        sentences.append(f"Not significantly different: {words}.")
    sentences.append(
        f"The combination that does best is “{best}”: {shown(best)}. It is the best of {len(labels)} that were tried "
        "on these datasets, so its lead is flattering."
    )
    return sentences


ABLATION = Experiment("ablation", "What carries the result", "ablation", plans, section)
