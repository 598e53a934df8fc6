"""The complexity claim: time of a round and memory against the number of rounds."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import megabytes, microseconds
from lim2.experiments.tables import Tables
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, is_whole, provenance_of, runs_of
from lim2.paper.sections import Cell, Claim, Section, Sheet, judged

Array = NDArray[np.float64]

ROUNDS, QUICK_ROUNDS = 60_000, 6_000
RUNS = 3
SOURCE, SHOWN = "section 3, computational complexity", ("figure-complexity", "table-complexity")
BINS = 20
METHODS = ("LiM2", "NeuralLinear")


def plans(scale: Scale) -> list[Plan]:
    """Return what is run; rows are drawn with replacement, because Statlog has 43,500."""
    problem = {"statlog": ("statlog", {"replace": True})}
    rounds = QUICK_ROUNDS if scale.quick else ROUNDS
    return [planned(problem, METHODS, rounds=rounds, runs=1 if scale.quick else min(RUNS, scale.runs))]


def times(tables: Tables, method: str) -> tuple[Array, Array]:
    """Return the ends of intervals, and the microseconds of a round in each: the median over runs, and all of them."""
    group = tables.group("statlog", method)
    at = np.array(group["curve_round"][0].to_list())
    spent = np.array(group["curve_seconds"].to_list())
    edges = np.unique(np.linspace(0, len(at) - 1, BINS + 1).round().astype(int))
    return at[edges[1:]].astype(float), np.diff(spent[:, edges], axis=1) / np.diff(at[edges]) * 1e6


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    timed = tables.runs.filter(pl.col("curve_seconds").is_not_null())["agent"].unique()
    methods = [method for method in METHODS if method in timed]
    if not methods:
        return None
    time_curves, size_curves, rows, tidy = [], [], [], []
    growth: dict[str, tuple[float, float]] = {}
    for method in methods:
        at, micro = times(tables, method)
        middle = np.median(micro, axis=0)
        time_curves.append((method, figures.shade_of(method), at, middle, np.zeros_like(middle)))
        group = tables.group("statlog", method)
        rounds = np.array(group["memory_round"][0].to_list(), dtype=float)
        size = np.array(group["memory_mb"].to_list()).mean(axis=0)
        size_curves.append((method, figures.shade_of(method), rounds, size, np.zeros_like(size)))
        quarter = len(middle) // 4
        early, late = float(np.median(middle[:quarter])), float(np.median(middle[-quarter:]))
        half = float(np.interp(at[-1] / 2, rounds, size))
        growth[method] = late / early, float(size[-1]) / half
        cells = (microseconds(early), microseconds(late), megabytes(half), megabytes(float(size[-1])))
        rows.append([Cell(method), *map(Cell, cells)])
        tidy += [(method, "us_per_round", int(x), float(y)) for x, y in zip(at, middle, strict=True)]
        tidy += [(method, "memory_mb", int(x), float(y)) for x, y in zip(rounds, size, strict=True)]
    return Section(
        "complexity",
        "Complexity",
        f"Rows of Statlog drawn with replacement, {tables.rows[0]['rounds']:,} rounds, {runs_of(tables)} of each "
        "method. The time of a round is that of `act` and `update` together, on one thread. Full memory trains every "
        "400 rounds with 800 batches, so its time is averaged over whole phases. The machine was shared: the trend of "
        "the times is meaningful, their absolute values are not.",
        claims=judged(_claims(growth), whole=is_whole(tables, ROUNDS)) if set(METHODS) <= set(methods) else (),
        sheets=[
            Sheet(
                "complexity",
                "Time per round in the first and the last quarter of the rounds; memory halfway and at the end.",
                ["", "time, first quarter", "time, last quarter", "memory, halfway", "memory, end"],
                rows,
                pl.DataFrame(tidy, schema=["method", "quantity", "round", "value"], orient="row"),
            )
        ],
        figures=[figures.complexity(time_curves, size_curves)],
        provenance=provenance_of(tables),
    )


def _claims(growth: dict[str, tuple[float, float]]) -> list[Claim]:
    """Return the paper's claims about the growth of time and memory."""
    (time, size), (full_time, full_size) = growth["LiM2"], growth["NeuralLinear"]
    return [
        Claim(
            "LiM2's time per round and its memory do not depend on T.",
            time < 1.25 and size < 1.02,
            f"time in the last quarter {time:.2f} times that in the first (below 1.25 counts as constant); memory at "
            f"the end {size:.2f} times that halfway (below 1.02)",
            SOURCE,
            SHOWN,
        ),
        Claim(
            "With full memory, the memory grows with T.",
            full_size > 1.5,
            f"memory at the end {full_size:.2f} times that halfway (above 1.5 counts as growth)",
            SOURCE,
            SHOWN,
        ),
        Claim(
            "With full memory, the time per round grows with T.",
            full_time > 1.25,
            f"time in the last quarter {full_time:.2f} times that in the first (above 1.25 counts as growth)",
            SOURCE,
            SHOWN,
        ),
    ]


COMPLEXITY = Experiment("complexity", "Complexity", "complexity", plans, section)
