"""Representation drift: the neural tangent kernel during training, for networks of several widths."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2 import problems
from lim2.experiments.names import Spec
from lim2.experiments.plan import Plan
from lim2.experiments.report.texts import percent
from lim2.experiments.stats import band
from lim2.experiments.tables import Tables
from lim2.paper import figures
from lim2.paper.experiment import Experiment, Scale, is_whole, provenance_of, runs_of
from lim2.paper.ntk import EVERY
from lim2.paper.sections import Cell, Claim, Section, Sheet, judged

Array = NDArray[np.float64]

WIDTHS = (50, 100, 500, 1024)
ROUNDS, QUICK_ROUNDS = 5000, 1000
PAIRS = {"K(b, b)": "b,b", "K(b', b')": "b',b'", "K(b, b')": "b,b'"}
SOURCE, SHOWN = "section 4.2, figure 3; supplement A", ("figure-drift", "table-drift")
SHADES = dict(zip(WIDTHS, (4, 1, 0, 2), strict=True))


def plans(scale: Scale) -> list[Plan]:
    """Return what is run: the same two contexts, the first two of a draw, for all widths and seeds."""
    rounds = QUICK_ROUNDS if scale.quick else ROUNDS
    pair = problems.load("statlog", ROUNDS, 0).contexts[:2].tolist()
    watchers = tuple(
        Spec(_label(width), "lim2.paper.ntk:KernelWatch", {"width": width, "contexts": pair}) for width in WIDTHS
    )
    runs = min(scale.runs, 3) if scale.quick else scale.runs
    return [Plan((Spec("statlog", "statlog"),), watchers, tuple(range(runs)), rounds)]


def _label(width: int) -> str:
    return f"width {width:,}"


def kernels(tables: Tables, width: int) -> tuple[Array, dict[str, Array]]:
    """Return the iterations, and the kernel's values of each pair, (runs, looks)."""
    traces = [
        {trace["name"]: trace["values"] for trace in row}
        for row in tables.group("statlog", _label(width))["traces"].to_list()
    ]
    values = {pair: np.array([trace[pair] for trace in traces]) for pair in PAIRS.values()}
    return np.array(traces[0]["iteration"]), values


def change(values: dict[str, Array], pair: str) -> Array:
    """Return each run's largest change of the kernel since the start, relative to the contexts' own kernels."""
    scale = np.sqrt(values["b,b"][:, 0] * values["b',b'"][:, 0])
    largest: Array = np.abs(values[pair] - values[pair][:, :1]).max(axis=1) / scale
    return largest


def section(tables: Tables) -> Section | None:
    """Return its section of the report."""
    widths = [width for width in WIDTHS if _label(width) in tables.agents]
    if not widths:
        return None
    panels, tidy = [], []
    rows = [[Cell(f"{width:,}")] for width in widths]
    changes: dict[int, Array] = {}
    for title, pair in PAIRS.items():
        curves = []
        for width, line in zip(widths, rows, strict=True):
            at, values = kernels(tables, width)
            mean, half = band(values[pair])
            curves.append((_label(width), SHADES[width], at, mean, half))
            tidy += [(width, pair, int(x), float(y), float(h)) for x, y, h in zip(at, mean, half, strict=True)]
            moved = change(values, pair)
            changes[width] = np.concatenate([changes.get(width, np.empty(0)), moved])
            line.append(Cell(percent(float(moved.mean()))))
        panels.append((title, curves))
    means = [float(changes[width].mean()) for width in widths]
    return Section(
        "drift",
        "Representation drift",
        f"Statlog, {tables.rows[0]['rounds']:,} training iterations under a random policy, one batch per round, "
        f"{runs_of(tables)} of each width. The network has the NTK parametrisation and is trained with the RMSProp of "
        f"the published runs. The kernel of the first arm's output is recorded every {EVERY} iterations for two fixed "
        "contexts b and b'.",
        claims=judged(_claims(widths, means), whole=is_whole(tables, ROUNDS)),
        sheets=[
            Sheet(
                "drift",
                "Largest change of the kernel since the start, relative to sqrt(K(b, b) K(b', b')) at the start; mean "
                "over runs.",
                ["width", *PAIRS],
                rows,
                pl.DataFrame(tidy, schema=["width", "pair", "iteration", "kernel", "half_width"], orient="row"),
            )
        ],
        figures=[figures.drift(panels)],
        provenance=provenance_of(tables),
    )


def _claims(widths: list[int], means: list[float]) -> list[Claim]:
    changes = ", ".join(f"{percent(m)} at width {w:,}" for w, m in zip(widths, means, strict=True))
    evidence = f"largest change, mean over the three kernels: {changes}"
    return [
        Claim(
            "Representation drift occurs at all widths: the kernel changes during training, so the NTK assumption does "
            "not hold.",
            min(means) > 0.01,
            f"{evidence}; more than 1% counts as a change",
            SOURCE,
            SHOWN,
        ),
        Claim(
            "The change is milder for wider networks.", all(a > b for a, b in pairwise(means)), evidence, SOURCE, SHOWN
        ),
    ]


DRIFT = Experiment("drift", "Representation drift", "drift", plans, section)
