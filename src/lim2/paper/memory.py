"""Memory-size ablation on Statlog: with likelihood matching and without."""

from __future__ import annotations

import numpy as np
import polars as pl

from lim2.experiments.benchmark import planned
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import number, plus_minus
from lim2.experiments.tables import Tables
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, made_by, runs_of
from lim2.paper.sections import Cell, Claim, Section, Sheet

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
    curves, means, tidy = [], {}, []
    rows = [[Cell(f"{size:,}")] for size in sizes]
    for name, method in METHODS.items():
        found = [tables.row("statlog", _label(name, size)) for size in sizes]
        mean = np.array([row["reward_mean"] for row in found if row is not None])
        std = np.array([row["reward_std"] or 0.0 for row in found if row is not None])
        means[method] = mean
        curves.append((name, figures.shade_of(method), np.array(sizes, dtype=float), mean, std))
        for line, m, s in zip(rows, mean, std, strict=True):
            line.append(Cell(plus_minus(float(m), float(s), 0)))
        tidy += [(name, size, float(m), float(s)) for size, m, s in zip(sizes, mean, std, strict=True)]
    first = next(row for row in tables.rows)
    return Section(
        "memory",
        "Memory size",
        f"Statlog, {first['rounds']:,} rounds, {runs_of(tables)} of each; the size is of the whole buffer, so the "
        "default of 100 per arm is 700.",
        claims=_claims(sizes, means),
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
        made=made_by(tables),
    )


def _claims(sizes: list[int], means: dict[str, np.ndarray]) -> list[Claim]:
    lim2, naive = means["LiM2"], means["NeuralLinearNaive"]
    spread, fall = float(np.ptp(lim2)), float(naive.max() - naive[0])
    return [
        Claim(
            "LiM2 is not sensitive to the size of the memory, and stays high for all sizes.",
            bool(spread < 0.05 * lim2.max() and (lim2 >= naive).all()),
            f"from {number(float(lim2.min()))} to {number(float(lim2.max()))} over {sizes[0]:,} to {sizes[-1]:,} "
            f"tuples, a spread of {100 * spread / lim2.max():.1f}%",
        ),
        Claim(
            "Without matching the reward falls steeply when memory is small.",
            bool(fall > 3 * spread),
            f"from {number(float(naive.max()))} down to {number(float(naive[0]))} with {sizes[0]:,} tuples, "
            f"{100 * fall / naive.max():.1f}%",
        ),
    ]


MEMORY = Experiment("memory", "Memory size", "memory", plans, section)
