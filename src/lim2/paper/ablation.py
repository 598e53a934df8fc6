"""Ablation: LiM2 with its pieces taken out or exchanged, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.benchmark import planned
from lim2.experiments.names import Spec
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import listed, number, p_value, plus_minus
from lim2.experiments.stats import LEVEL, equivalence_p, holm, least_margin, paired_p, pooled_interval, pooled_p
from lim2.experiments.tables import Tables, paired
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, is_here, is_whole, provenance_of, runs_of
from lim2.paper.lim2_variants import RATE, variant
from lim2.paper.sections import Cell, Claim, Section, Sheet, judged

Array = NDArray[np.float64]
Tests = dict[str, dict[str, float | None]]  # by problem, then variant

PROBLEMS = ("statlog", "covertype", "census", "epileptic")
ROUNDS, QUICK_ROUNDS = 5000, 800
MARGIN = 5.0  # percent of LiM2's lead over the random policy: what counts as no difference
CHOSEN = "the margin was chosen after these intervals were known"
STEP = "no matching step"
PUBLISHED = "LiM2 as published"
BOTH: dict[str, Any] = {"intercept": True, "refresh": "all"}
# Settings of `variant`. The kept runs are known by them, and by the name LiM2.
VARIANTS: Mapping[str, dict[str, Any]] = {
    PUBLISHED: {},
    STEP: {"matching": None},
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
    lim2 = Spec("LiM2", "LiM2", maker=variant)
    agents = {label: (lim2, settings) for label, settings in {**VARIANTS, **COMBINATIONS}.items()}
    here = [problem for problem in PROBLEMS if is_here(problem)]
    runs = min(scale.runs, 2) if scale.quick else scale.runs
    return [planned(here, agents, rounds=QUICK_ROUNDS if scale.quick else None, runs=runs)] if here else []


def differences(tables: Tables, label: str) -> dict[str, Array]:
    """Return a variant's differences from LiM2 by problem and run, in percent of its lead over the random policy."""
    found = {}
    for problem in _problems(tables):
        ours, random = tables.row(problem, PUBLISHED), tables.row(problem, "Uniform")
        if ours is None or random is None or tables.row(problem, label) is None:
            continue
        variant, published = paired(tables.group(problem, label), tables.group(problem, PUBLISHED))
        if len(variant):
            found[problem] = 100 * (variant - published) / (ours["reward_mean"] - random["reward_mean"])
    return found


def _problems(tables: Tables) -> list[str]:
    return [problem for problem in PROBLEMS if problem in tables.problems]


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    every = {**VARIANTS, **COMBINATIONS}
    played = {label: differences(tables, label) for label in every if label != PUBLISHED}
    effects = {label: found for label, found in played.items() if found}
    labels = list(effects)
    if not labels:
        return None
    pooled = dict(zip(labels, holm([pooled_p(list(effects[label].values())) for label in labels]), strict=True))
    tests = {  # of each problem, corrected over the variants
        problem: dict(zip(labels, holm([_test(tables, problem, label) for label in labels]), strict=True))
        for problem in _problems(tables)
    }
    sheet = _sheet(tables, labels, effects, pooled, tests)
    significant = _significant(pooled)
    drawn = [
        (
            label,
            *pooled_interval(list(effects[label].values())),
            [float(d.mean()) for d in effects[label].values()],
            label in significant,
        )
        for label in labels
    ]
    rounds = tables.rows[0]["rounds"]
    return Section(
        "ablation",
        "Ablation",
        f"{listed([problem.capitalize() for problem in _problems(tables)])}, {rounds:,} rounds, {runs_of(tables)} of "
        "each variant on the same shuffles. Each variant changes LiM2 as published in one point. The last variants "
        "combine several changes. The matching rate decays by 1/t in all of them.",
        claims=judged(_claims(effects, pooled), whole=is_whole(tables, ROUNDS)),
        sheets=[sheet],
        figures=[figures.ablation(drawn, "LiM2 as published")],
        provenance=provenance_of(tables),
    )


def _sheet(
    tables: Tables,
    labels: list[str],
    effects: dict[str, dict[str, Array]],
    pooled: dict[str, float | None],
    tests: Tests,
) -> Sheet:
    rows: list[list[Cell]] = []
    tidy: list[tuple[object, ...]] = []
    for label in (PUBLISHED, *labels):
        line = [Cell(label)]
        for problem in _problems(tables):
            row = tables.row(problem, label)
            if row is None:
                line.append(Cell("–"))
                continue
            p = tests[problem].get(label)
            difference = float(effects[label][problem].mean()) if label in effects else 0.0
            mark = ("better" if difference > 0 else "worse") if p is not None and p < LEVEL else ""
            below = "" if label == PUBLISHED else f"{number(difference, 1)}%, p {p_value(p) or '–'}"
            line.append(Cell(plus_minus(row["reward_mean"], row["reward_std"], 0), below, mark))
            tidy.append((label, problem, row["runs"], row["reward_mean"], row["reward_std"], difference, p, None))
        if label == PUBLISHED:
            line += [Cell(""), Cell(""), Cell("")]
        else:
            mean, half = pooled_interval(list(effects[label].values()))
            p = pooled[label]
            mark = ("better" if mean > 0 else "worse") if p is not None and p < LEVEL else ""
            line.append(Cell(f"{number(mean, 1)} ± {number(half, 1)}%", f"p {p_value(p) or '–'}", mark))
            tidy.append((label, "all", None, None, None, mean, p, word(list(effects[label].values()), p)))
            margin, same = (
                least_margin(list(effects[label].values())),
                equivalence_p(list(effects[label].values()), MARGIN),
            )
            line.append(Cell("–" if margin is None else f"{number(margin, 1)}%", f"p {p_value(same) or '–'}"))
            line.append(Cell(word(list(effects[label].values()), p)))
        rows.append(line)
    return Sheet(
        "ablation",
        "Cumulative reward, mean ± standard deviation. Below it: the mean paired difference from LiM2 as published, in "
        "percent of LiM2's lead over the random policy, and the p of the paired t-test with Holm's correction over the "
        "variants. “all”: the mean difference over the datasets with its 95% interval, and the p of the pooled test. "
        "“margin”: the smallest margin within which two one-sided tests at 5% show the variant to be equivalent to "
        f"LiM2 as published, and the p of these tests for a margin of {MARGIN:g}%, without correction; {CHOSEN}. "
        "The best variant was selected on these same runs, so its lead is optimistic.",
        ["", *_problems(tables), "all", "margin", "verdict"],
        rows,
        pl.DataFrame(
            tidy,
            schema={
                "variant": pl.String, "problem": pl.String, "runs": pl.Int64, "mean": pl.Float64, "std": pl.Float64,
                "difference_percent": pl.Float64, "p": pl.Float64, "verdict": pl.String,
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


def _claims(effects: dict[str, dict[str, Array]], pooled: dict[str, float | None]) -> list[Claim]:
    """Return what the paper says of its pieces."""
    if STEP not in effects:
        return []
    groups = list(effects[STEP].values())
    mean, half = pooled_interval(groups)
    alone = pooled_p(groups)
    return [
        Claim(
            "Likelihood matching improves performance.",
            None if alone is None else bool(mean < 0 and (pooled[STEP] or 0.0) < LEVEL),
            "leaving out the matching step changes LiM2's lead over the random policy by "
            f"{number(mean, 1)} ± {number(half, 1)}%: p {p_value(alone)} uncorrected, {p_value(pooled[STEP])} "
            f"corrected for {len(effects)} variants; {equivalence(groups)}",
            "section 4.4",
            ("figure-ablation", "table-ablation"),
        )
    ]


def equivalence(groups: list[Array]) -> str:
    """Say whether differences are shown to be within `MARGIN`, and which margin they support.

    Examples
    --------
    >>> equivalence([np.array([0.5, -0.4, 0.1])])
    'equivalent within 5% (p 0.001; smallest margin 0.8%)'
    >>> equivalence([np.array([9.0, -9.0, 1.0])])
    'not shown to be equivalent within 5% (p 0.23; smallest margin 15.5%)'
    """
    p, margin = equivalence_p(groups, MARGIN), least_margin(groups)
    if p is None:
        return "too few runs to show that it is equivalent"
    words = "equivalent" if p < LEVEL else "not shown to be equivalent"
    return f"{words} within {MARGIN:g}% (p {p_value(p)}; smallest margin {number(margin, 1)}%)"


def word(groups: list[Array], p: float | None) -> str:
    """Say what the pooled test shows of a variant: "worse", "better", "equivalent" within `MARGIN`, or "undecided".

    Examples
    --------
    >>> word([np.array([0.5, -0.4, 0.1])], 0.9), word([np.array([9.0, -9.0, 1.0])], 0.9)
    ('equivalent', 'undecided')
    >>> word([np.array([8.0, 9.0])], 0.01)
    'better'
    """
    if p is not None and p < LEVEL:
        return "better" if pooled_interval(groups)[0] > 0 else "worse"
    same = equivalence_p(groups, MARGIN)
    return "equivalent" if same is not None and same < LEVEL else "undecided"


ABLATION = Experiment("ablation", "Ablation", "ablation", plans, section)
