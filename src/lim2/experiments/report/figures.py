"""Figures as files: charts drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Side
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from lim2.experiments.report.charts import Axis, Chart, Drawn, Lines, Point, Points, Rows
from lim2.experiments.report.colours import shade
from lim2.experiments.report.texts import megabytes, microseconds
from lim2.experiments.store import write

DPI = 160
INK, FAINT, GRID = "#1d2127", "#5b626c", "#dfe3e8"
SIZE = (4.9, 3.3)
WIDE = (8.6, 4.0)  # of a figure with one panel of many points
MARKS = {"": "o", "better": "^", "worse": "v"}
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": FAINT,
    "ytick.labelcolor": FAINT,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
}


def write_drawn(drawn: Drawn, folder: Path, name: str = "") -> None:
    """Draw a figure, and write it as SVG and PNG."""
    write_figure(figure_of(drawn.charts), folder, name or drawn.name)


def write_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as SVG and PNG, the same bytes for the same figure."""
    write(folder / f"{name}.svg", as_svg(figure).encode())
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    write(folder / f"{name}.png", buffer.getvalue())


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG, the same text for the same figure."""
    text = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lim2"}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def figure_of(charts: Sequence[Chart]) -> Figure:
    """Draw charts side by side, with a legend below where curves have names."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_size(charts))
        for place, chart in enumerate(charts):
            axes = figure.add_subplot(1, len(charts), place + 1)
            axes.set_title(chart.title)
            if isinstance(chart, Lines):
                _lines(axes, chart)
            elif isinstance(chart, Rows):
                _rows(axes, chart)
            else:
                _points(axes, chart)
        names = [row.label for chart in charts if isinstance(chart, Rows) for row in chart.rows]
        wide = 0.95 if isinstance(charts[0], Lines) and charts[0].y.unit else 0.75  # for numbers with their unit
        margins(figure, left=0.25 + 0.078 * max(map(len, names)) if names else wide)
        if len(charts) > 1:
            figure.subplots_adjust(wspace=0.32)
        if isinstance(charts[0], Lines):
            with_legend(figure)
    return figure


def _size(charts: Sequence[Chart]) -> tuple[float, float]:
    first = charts[0]
    if isinstance(first, Rows):
        left = 0.25 + 0.078 * max((len(row.label) for row in first.rows), default=0)
        return SIZE[0] + 1.2 + left, max(SIZE[1], 0.34 * len(first.rows) + 1.1)
    if len(charts) > 1:
        return 3.2 * len(charts) + (2.4 if len(charts) == 2 else 0), 3.4
    if first.x.names:
        return max(SIZE[0], 1.2 + 0.75 * len(first.x.names)), SIZE[1]
    return WIDE if isinstance(first, Lines) and first.x.ticks and not first.x.log else SIZE


def _lines(axes: Axes, chart: Lines) -> None:
    for line in reversed(chart.lines):
        colour, style = shade(line.shade), "--" if line.dashed else "-"
        x, y, half = (np.asarray(values, dtype=float) for values in (line.x, line.y, line.half))
        if line.marked:
            axes.errorbar(
                x, y, yerr=half if half.size else None, fmt=f"o{style}", color=colour, capsize=3, markersize=4.5,
                label=line.label,
            )  # fmt: skip
            continue
        if half.size:
            axes.fill_between(x, y - half, y + half, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, y, style, color=colour, label=line.label)
    if chart.x.log:
        axes.set_xscale("log")
    if not chart.x.names:
        axes.margins(x=0.02 if chart.x.log else 0)
    _dress(axes, chart.x, chart.y)


def _rows(axes: Axes, chart: Rows) -> None:
    for place, row in enumerate(chart.rows):
        colour = shade(row.shade)
        if chart.bars:
            axes.barh(place, row.mean or 0.0, height=0.62, color=colour, alpha=0.28)
        axes.plot([v for v, _ in row.dots], [place] * len(row.dots), "o", color=colour, markersize=4.5, alpha=0.6)
        if not chart.bars and row.mean is not None:
            axes.errorbar(
                row.mean, place, xerr=row.half or None, fmt=MARKS[row.verdict], color=colour, markersize=8, capsize=3,
                linewidth=2,
            )  # fmt: skip
        if row.ring is not None:
            axes.plot(row.ring, place, "o", markerfacecolor="none", markeredgecolor=INK, markersize=10)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -0.02 * (high - low)), high)
    axes.axvline(0.0, color=FAINT, linewidth=1.0)
    axes.set_yticks(range(len(chart.rows)), [row.label for row in chart.rows])
    axes.tick_params(axis="y", labelcolor=INK, length=0)
    axes.set_ylim(len(chart.rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    _dress(axes, chart.x, None)


def _points(axes: Axes, chart: Points) -> None:
    for point in chart.points:
        axes.errorbar(
            point.x, point.y, yerr=point.half or None, fmt="o", color=shade(point.shade), markersize=7, capsize=3,
            label=point.label,
        )  # fmt: skip
    if chart.x.log:
        axes.set_xscale("log")
        if chart.points:
            places = [point.x for point in chart.points]
            axes.set_xlim(min(places) / 2.2, max(places) * 2.2)
    axes.margins(y=0.18)
    _dress(axes, chart.x, chart.y)
    if chart.x.log:
        _name_points(axes, chart.points)


def _dress(axes: Axes, x: Axis, y: Axis | None) -> None:
    """Give the axes titles, limits, and marks that suit their units."""
    for axis, side, limits, letter in ((x, axes.xaxis, axes.set_xlim, "x"), (y, axes.yaxis, axes.set_ylim, "y")):
        if axis is None:
            continue
        getattr(axes, f"set_{letter}label")(axis.title)
        if axis.log and letter == "y":
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            axes.set_ylim(min(low, high / 8), high * 1.3)
        if axis.low is not None or axis.high is not None:
            limits(axis.low, axis.high)
        if axis.names:
            axes.set_xticks(range(len(axis.names)), [name.replace(", ", "\n") for name in axis.names])
        elif axis.ticks:
            side.set_major_locator(FixedLocator(list(axis.ticks)))
            side.set_minor_locator(NullLocator())
            side.set_major_formatter(FuncFormatter(_text(axis)))
        elif axis.log:
            few_ticks(side, _text(axis))
        elif letter == "x":
            side.set_major_locator(MaxNLocator(6))
            if axis.high is None and axis.low == 0:
                side.set_major_formatter(FuncFormatter(_text(axis)))


def _text(axis: Axis) -> Callable[[float, int | None], str]:
    def text(value: float, _: int | None = None) -> str:
        if axis.unit == "s":
            return microseconds(value * 1e6)
        return megabytes(value / 1e6) if axis.unit == "B" else f"{value:,.0f}"

    return text


def _name_points(axes: Axes, points: Sequence[Point]) -> None:
    """Write names beside points, where they cover neither another name nor a point."""
    (left, right), (low, high) = np.log(axes.get_xlim()), axes.get_ylim()
    spots = [((np.log(p.x) - left) / (right - left), (p.y - low) / (high - low)) for p in points]
    taken = [(x - 0.02, y - 0.03, x + 0.02, y + 0.03) for x, y in spots]
    for point, (x, y) in zip(points, spots, strict=True):
        width, height = 0.0165 * len(point.label), 0.06
        beside = [(x + 0.03, y - height / 2), (x - 0.03 - width, y - height / 2)]
        offsets = [(x - width / 2, y + k * 0.075 - height / 2) for k in (1, -1, 2, -2, 3, -3)]
        boxes = [(u, v, u + width, v + height) for u, v in (*beside, *offsets)]
        fits = (box for box in boxes if box[0] > 0 and box[2] < 1 and not any(_overlap(box, other) for other in taken))
        box = next(fits, boxes[2])
        taken.append(box)
        axes.text(
            (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, point.label, transform=axes.transAxes, ha="center",
            va="center", color=shade(point.shade), fontsize=8.5,
        )  # fmt: skip


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def few_ticks(axis: Side, text: Callable[[float, int | None], str]) -> None:
    """Mark a logarithmic axis at 1, 10, 100, or where that is too little at 1, 2, 5, 10 as well."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(text))


def margins(figure: Figure, left: float = 0.75) -> None:
    """Set the margins; finding them by drawing everything first would take most of the time."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left=left / width, right=1 - 0.27 / width, bottom=0.5 / height, top=1 - 0.28 / height)


def with_legend(figure: Figure) -> None:
    """Add a legend below."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    unique = dict(zip(reversed(labels), reversed(handles), strict=True))  # a name once, in the order of the chart
    if not unique:
        return
    width, height = figure.get_size_inches()
    columns = max(1, int(width / max(1.4, 0.55 + 0.065 * max(map(len, unique)))))  # as many as the longest name allows
    margin = 0.08 + 0.2 * -(-len(unique) // columns)
    box = figure.subplotpars
    figure.set_size_inches(width, height + margin)
    figure.subplots_adjust(
        bottom=(box.bottom * height + margin) / (height + margin), top=(box.top * height + margin) / (height + margin)
    )
    figure.legend(list(unique.values()), list(unique), loc="lower center", ncols=columns, fontsize=8.5)
