"""The paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lim2.experiments.report.charts import Axis, Drawn, Line, Lines, Row, Rows
from lim2.experiments.report.colours import KEPT

Array = NDArray[np.float64]
Curve = tuple[str, int, Array, Array, Array]  # label, shade, x, mean, half width of its band

ITERATION = Axis("training iteration", low=0.0)
ROUNDS = Axis("rounds so far, T", low=0.0)
GREEN, RED, GREY = 2, 4, -1


def shade_of(method: str) -> int:
    """Return the number of a method's colour, the same in all reports."""
    return KEPT.index(method)


def scores(
    averages: Mapping[str, float], by_dataset: Mapping[str, Mapping[str, float]], published: Mapping[str, float]
) -> Drawn:
    """Return the normalised scores: a dot per dataset, a bar for the average, a ring for the published average."""
    rows = [
        Row(
            method,
            shade_of(method),
            averages[method],
            dots=[(line[method], title) for title, line in by_dataset.items() if method in line],
            ring=published.get(method),
        )
        for method in sorted(averages, key=lambda m: -averages[m])
    ]
    x = Axis("normalised score: 0 = random policy, 1 = best method")
    title = "Bar: average; dots: datasets" + ("; ring: the paper's average" if published else "")
    caption = "Normalised scores of the methods" + (", ours and the paper's average" if published else "")
    return Drawn("scores", caption, [Rows(title, x, rows, bars=True, ring="the paper's average" if published else "")])


def lines(curves: Sequence[Curve], *, marked: bool = False) -> list[Line]:
    """Return curves with their bands."""
    return [Line(label, colour, x, mean, half, marked=marked) for label, colour, x, mean, half in curves]


def forgetting(curves: Sequence[Curve], every: int, rounds: int) -> Drawn:
    """Return the instantaneous regret against the contexts seen; ticks are where the phases end."""
    tops = [float(np.nanmax(mean[len(mean) // 10 :])) for _, _, _, mean, _ in curves]
    x = Axis(f"contexts seen; a tick every {every}, where the phases end", low=0.0, high=rounds,
             ticks=[float(tick) for tick in range(0, rounds + 1, every)])  # fmt: skip
    y = Axis("instantaneous regret", low=0.0, high=1.15 * max(tops))
    caption = "Instantaneous regret on Statlog with a memory of 100 tuples"
    return Drawn("forgetting", caption, [Lines("Catastrophic forgetting", x, y, lines(curves))])


def memory(curves: Sequence[Curve]) -> Drawn:
    """Return the reward against the size of the memory."""
    x = Axis("tuples in memory, all arms together (log scale)", log=True, ticks=[float(v) for v in curves[0][2]])
    chart = Lines("Memory size", x, Axis("cumulative reward"), lines(curves, marked=True), "standard deviation")
    caption = "Cumulative reward on Statlog against the size of the memory; bars: one standard deviation"
    return Drawn("memory", caption, [chart])


def drift(panels: Sequence[tuple[str, Sequence[Curve]]]) -> Drawn:
    """Return the kernel during training, a panel for each pair of contexts, a curve per width."""
    charts = [Lines(title, ITERATION, Axis("kernel"), lines(curves)) for title, curves in panels]
    return Drawn("drift", "The neural tangent kernel during training, for networks of four widths", charts)


def ablation(rows: Sequence[tuple[str, float, float, Sequence[float], bool]], reference: str) -> Drawn:
    """Return how far each variant is from the reference: the mean with its interval, a dot per dataset.

    A row is a label, the mean difference, the half width of its 95% interval, the differences on the datasets, all in
    percent, and the colour and form of a significant difference, if it is one.

    The axis is linear: a long interval looks long.
    """
    shown = []
    for label, mean, half, dots, significant in rows:
        better = mean > 0
        shown.append(
            Row(
                label,
                GREY if not significant else GREEN if better else RED,
                mean,
                half,
                [(dot, "a dataset") for dot in dots],
                verdict="" if not significant else "better" if better else "worse",
            )
        )
    x = Axis(f"difference from {reference}, in % of its lead over the random policy", unit="%")
    title = "Mean with 95% interval: ▲ better, ▼ worse, ● not significant; dots: datasets"
    return Drawn("ablation", "Difference of each variant from LiM2 as published", [Rows(title, x, shown)])


def complexity(times: Sequence[Curve], sizes: Sequence[Curve]) -> Drawn:
    """Return time and memory against the number of rounds."""
    seconds = [(label, colour, x, mean / 1e6, half / 1e6) for label, colour, x, mean, half in times]
    octets = [(label, colour, x, mean * 1e6, half * 1e6) for label, colour, x, mean, half in sizes]
    charts = [
        Lines("Time of a round", ROUNDS, Axis("time (log scale)", log=True, unit="s"), lines(seconds)),
        Lines("Memory", ROUNDS, Axis("memory (log scale)", log=True, unit="B"), lines(octets)),
    ]
    return Drawn("complexity", "Time of a round and memory against the number of rounds", charts)
