"""The paper's figures, in the house's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from lim2.experiments.report.colours import KEPT, shade
from lim2.experiments.report.figures import FAINT, INK, STYLE, Drawn, few_ticks, margins, rounds_axis, with_legend
from lim2.experiments.report.texts import megabytes, microseconds

Array = NDArray[np.float64]
Curve = tuple[str, int, Array, Array, Array]  # label, shade, x, mean, half width of its band


def shade_of(method: str) -> int:
    """Return the number of a method's colour, the same in all reports."""
    return KEPT.index(method)


def scores(
    averages: Mapping[str, float], by_dataset: Mapping[str, Mapping[str, float]], published: Mapping[str, float]
) -> Drawn:
    """Draw the normalised scores: a dot a dataset, a bar for the average, a ring for the published average."""
    methods = sorted(averages, key=lambda m: -averages[m])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.42 * len(methods) + 1.1))
        axes = figure.add_subplot()
        for y, method in enumerate(methods):
            colour, gid = shade(shade_of(method)), f"series{shade_of(method)}"
            dots = [line[method] for line in by_dataset.values() if method in line]
            axes.barh(y, averages[method], height=0.6, color=colour, alpha=0.25, gid=gid)
            axes.plot(dots, [y] * len(dots), "o", color=colour, markersize=4.5, alpha=0.85, gid=gid)
            ring: dict[str, Any] = {
                "markerfacecolor": "none",
                "markeredgecolor": INK,
                "markersize": 10,
                "markeredgewidth": 1.3,
            }
            axes.plot(published[method], y, "o", **ring)
        axes.set_yticks(range(len(methods)), methods)
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        axes.invert_yaxis()
        low = min((min(line.values()) for line in by_dataset.values() if line), default=0.0)
        axes.set_xlim(min(-0.02, low - 0.03), 1.04)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("normalised score: 0 = random policy, 1 = best method")
        axes.set_title("Bar: average; dots: datasets; ring: the paper's average")
        margins(figure, left=1.55)
    return Drawn("scores", "Normalised scores of the eight methods, ours and the paper's average", figure)


def lines(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw curves with their bands, the first on top."""
    for label, colour, x, mean, half in reversed(curves):
        gid = f"series{colour}"
        axes.fill_between(x, mean - half, mean + half, color=shade(colour), alpha=0.14, linewidth=0, gid=gid)
        axes.plot(x, mean, color=shade(colour), label=label, gid=gid)


def forgetting(curves: Sequence[Curve], every: int, rounds: int) -> Drawn:
    """Draw the instantaneous regret against the contexts seen; ticks are where the phases end."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 4.0))
        axes = figure.add_subplot()
        lines(axes, curves)
        axes.set_xlim(0, rounds)
        axes.xaxis.set_major_locator(FixedLocator(list(range(0, rounds + 1, every))))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel(f"contexts seen; a tick every {every}, where the phases end")
        axes.set_ylabel("instantaneous regret")
        tops = [float(np.nanmax(mean[len(mean) // 10 :])) for _, _, _, mean, _ in curves]
        axes.set_ylim(0, 1.15 * max(tops))
        axes.set_title("Catastrophic forgetting")
        margins(figure)
        figure.subplots_adjust(right=0.97)
        with_legend(figure)
    return Drawn("forgetting", "Instantaneous regret on Statlog with a memory of 100 tuples", figure)


def memory(curves: Sequence[Curve]) -> Drawn:
    """Draw the reward against the size of the memory."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.6))
        axes = figure.add_subplot()
        lines(axes, curves)
        for _, colour, x, mean, _ in curves:
            axes.plot(x, mean, "o", color=shade(colour), markersize=4, gid=f"series{colour}")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([float(v) for v in curves[0][2]]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("tuples in memory, all arms together (log scale)")
        axes.set_ylabel("cumulative reward")
        axes.set_title("Memory size")
        margins(figure)
        with_legend(figure)
    caption = "Cumulative reward on Statlog against the size of the memory; bands: one standard deviation"
    return Drawn("memory", caption, figure)


def drift(panels: Sequence[tuple[str, Sequence[Curve]]]) -> Drawn:
    """Draw the kernel during training, a panel for each pair of contexts, a curve a width."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.3))
        for i, (title, curves) in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), i + 1)
            lines(axes, curves)
            rounds_axis(axes)
            axes.set_xlabel("training iteration")
            axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4, integer=True))
            axes.set_title(title)
        margins(figure)
        figure.subplots_adjust(left=0.06, right=0.985, wspace=0.22)
        with_legend(figure)
    return Drawn("drift", "The neural tangent kernel during training, for networks of four widths", figure)


def ablation(rows: Sequence[tuple[str, float, float, Sequence[float], bool]], reference: str) -> Drawn:
    """Draw how far each variant is from the reference: the mean with its interval, a dot a dataset.

    Parameters
    ----------
    rows
        Label, mean difference, half width of its 95% interval, the differences on the datasets, all in percent, and
        whether the difference is more than chance, which gives it a colour.
    reference
        What they are measured against.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 0.34 * len(rows) + 1.1))
        axes = figure.add_subplot()
        axes.axvline(0.0, color=FAINT, linewidth=1.0)
        for y, (_, mean, half, dots, significant) in enumerate(rows):
            index = -1 if not significant else 2 if mean > 0 else 4
            axes.plot(dots, [y] * len(dots), "o", color=shade(-1), markersize=4, alpha=0.7)
            axes.errorbar(mean, y, xerr=half, fmt="o", color=shade(index), markersize=7, capsize=3, linewidth=2)
        axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xscale("symlog", linthresh=5)
        axes.xaxis.set_major_locator(FixedLocator([-100, -50, -20, -10, -5, -2, 0, 2, 5, 10, 20, 50, 100]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0f}" if value else "0"))
        axes.set_xlabel(f"difference from {reference}, in % of its lead over the random policy")
        axes.set_title("Mean with 95% interval; a grey dot a dataset")
        margins(figure, left=2.45)
    return Drawn("ablation", "Difference of each variant from LiM2 as published", figure)


def complexity(times: Sequence[Curve], sizes: Sequence[Curve]) -> Drawn:
    """Draw time and memory against the number of rounds."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.5))
        for i, (title, curves, text) in enumerate(
            (("Time of a round", times, microseconds), ("Memory", sizes, megabytes))
        ):
            axes = figure.add_subplot(1, 2, i + 1)
            lines(axes, curves)
            rounds_axis(axes)
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            axes.set_ylim(low / 1.5, high * 1.5)
            few_ticks(axes.yaxis, text)
            axes.set_title(title)
            axes.set_xlabel("rounds so far, T")
        margins(figure)
        figure.subplots_adjust(left=0.075, right=0.985, wspace=0.2)
        with_legend(figure)
    return Drawn("complexity", "Time of a round and memory against the number of rounds", figure)
