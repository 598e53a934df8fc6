"""Memory-size ablation on Statlog: with likelihood matching and without."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import number, percent, plus_minus
from lim2.experiments.tables import Tables
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, is_whole, provenance_of, runs_of
from lim2.paper.sections import Cell, Claim, Section, Sheet, judged

Array = NDArray[np.float64]

ROUNDS = 5000
SOURCE, SHOWN = "section 4.3, figure 4", ("figure-memory", "table-memory")
SIZES = (50, 100, 200, 500, 1000, 2000, 5000)  # tuples, all arms together
QUICK_SIZES, QUICK_ROUNDS = (50, 200, 1000), 2000
METHODS = {"with matching (LiM2)": "LiM2", "without matching (Naive)": "NeuralLinearNaive"}


def plans(scale: Scale) -> list[Plan]:
    """Return what is run."""
    sizes = QUICK_SIZES if scale.quick else SIZES
    agents = {_label(name, size): (method, {"buffer": size}) for name, method in METHODS.items() for size in sizes}
    return [planned(["statlog"], agents, rounds=QUICK_ROUNDS if scale.quick else None, runs=scale.runs)]


def _label(name: str, size: int) -> str:
    return f"{name}, {size:,}"


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    sizes = [size for size in SIZES if all(_label(name, size) in tables.agents for name in METHODS)]
    if not sizes:
        return None
    curves, means, deviations, tidy = [], {}, {}, []
    rows = [[Cell(f"{size:,}")] for size in sizes]
    for name, method in METHODS.items():
        found = [tables.row("statlog", _label(name, size)) for size in sizes]
        mean = np.array([row["reward_mean"] for row in found if row is not None])
        std = np.array([row["reward_std"] or 0.0 for row in found if row is not None])
        means[method], deviations[method] = mean, std
        curves.append((name, figures.shade_of(method), np.array(sizes, dtype=float), mean, std))
        for line, m, s in zip(rows, mean, std, strict=True):
            line.append(Cell(plus_minus(float(m), float(s), 0)))
        tidy += [(name, size, float(m), float(s)) for size, m, s in zip(sizes, mean, std, strict=True)]
    first = next(row for row in tables.rows)
    return Section(
        "memory",
        "Memory size",
        f"Statlog, {first['rounds']:,} rounds, {runs_of(tables)} of each size. The size is that of the whole buffer: "
        "the default of 100 per arm is a size of 700.",
        claims=judged(_claims(sizes, means, deviations), whole=is_whole(tables, ROUNDS)),
        sheets=[
            Sheet(
                "memory",
                "Cumulative reward, mean ± standard deviation, by the size of the memory.",
                ["tuples", *METHODS],
                rows,
                pl.DataFrame(tidy, schema=["method", "tuples", "mean", "std"], orient="row"),
            )
        ],
        figures=[figures.memory(curves)],
        provenance=provenance_of(tables),
    )


def _claims(sizes: list[int], means: dict[str, Array], deviations: dict[str, Array]) -> list[Claim]:
    lim2, naive = means["LiM2"], means["NeuralLinearNaive"]
    spread, fall = float(np.ptp(lim2)), float(naive.max() - naive[0])
    widest = float((deviations["NeuralLinearNaive"] / naive).max())
    return [
        Claim(
            "LiM2 is not sensitive to the size of the memory, and stays high for all sizes.",
            bool(spread < 0.05 * lim2.max() and (lim2 >= naive).all()),
            f"reward from {number(float(lim2.min()))} to {number(float(lim2.max()))} for memories of {sizes[0]:,} to "
            f"{sizes[-1]:,} tuples, a spread of {percent(spread / lim2.max())} (less than 5% counts as not sensitive)",
            SOURCE,
            SHOWN,
        ),
        Claim(
            "Without likelihood matching, the reward is highly sensitive to the size of the memory.",
            bool(fall > 3 * spread),
            f"reward falls from {number(float(naive.max()))} to {number(float(naive[0]))} with {sizes[0]:,} tuples, "
            f"by {percent(fall / naive.max())} (more than three times LiM2's spread counts as sensitive)",
            SOURCE,
            SHOWN,
        ),
        Claim(
            "Without likelihood matching, the runs vary so little that the band is not visible in the figure.",
            widest < 0.02,
            f"standard deviation at most {100 * widest:.2f}% of the mean (less than 2% counts as not visible)",
            SOURCE,
            SHOWN,
        ),
    ]


MEMORY = Experiment("memory", "Memory size", "memory", plans, section)
