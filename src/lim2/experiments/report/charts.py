"""What a figure shows, as a value: drawn by Matplotlib for files, and by the page's script for readers who ask.

There are three kinds. `Lines` has curves with bands, `Rows` a row of dots per agent with their mean, `Points` a point
per agent. All three know agents by their labels, so that a page can bring out one of them in every figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

Unit = Literal["", "s", "B", "%"]  # what a number is of: nothing, seconds, bytes, percent
Numbers = Sequence[float] | np.ndarray[Any, np.dtype[Any]]
DIGITS = 5  # of a number in a page


@dataclass(frozen=True)
class Axis:
    """An axis."""

    title: str
    log: bool = False
    unit: Unit = ""
    low: float | None = None  # in view at first; None for all
    high: float | None = None
    ticks: Sequence[float] = ()
    names: Sequence[str] = ()  # of the places 0, 1, ... of an axis without numbers


@dataclass(frozen=True)
class Line:
    """A curve."""

    label: str
    shade: int
    x: Numbers
    y: Numbers
    half: Numbers = ()  # half width of its band; empty for none
    dashed: bool = False  # a reference
    marked: bool = False  # points are marked, and the band is drawn as bars


@dataclass(frozen=True)
class Row:
    """A row of dots and their mean."""

    label: str
    shade: int
    mean: float | None
    half: float = 0.0  # half width of the interval; 0 for none
    dots: Sequence[tuple[float, str]] = ()  # values, each with its name
    ring: float | None = None  # a value to compare the mean with
    # "better", "worse" or "": what a test says; it decides the form of the mark
    verdict: Literal["", "better", "worse"] = ""


@dataclass(frozen=True)
class Point:
    """A point."""

    label: str
    shade: int
    x: float
    y: float
    half: float = 0.0  # half the height of its bar; 0 for none


@dataclass(frozen=True)
class Lines:
    """Curves over a common axis."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    band: str = "95% interval"  # what the half widths are


@dataclass(frozen=True)
class Rows:
    """Rows of dots; `bars` draws means as bars from 0, and `ring` says what a ring is."""

    title: str
    x: Axis
    rows: Sequence[Row]
    bars: bool = False
    ring: str = ""
    band: str = "95% interval"


@dataclass(frozen=True)
class Points:
    """Points in the plane."""

    title: str
    x: Axis
    y: Axis
    points: Sequence[Point]
    band: str = "standard deviation"


Chart = Lines | Rows | Points


@dataclass(frozen=True)
class Drawn:
    """A figure."""

    name: str
    caption: str
    charts: Sequence[Chart]

    @property
    def legend(self) -> dict[str, int]:
        """The numbers of colours by label; empty where a colour means something else, or rows have their names."""
        named = [part for chart in self.charts for part in _named(chart)]
        return {part.label: part.shade for part in named}


def _named(chart: Chart) -> Sequence[Line | Row | Point]:
    if isinstance(chart, Rows):
        return chart.rows if chart.bars else ()
    return chart.lines if isinstance(chart, Lines) else chart.points


def as_data(chart: Chart) -> dict[str, Any]:
    """Return a chart for the page's script.

    Examples
    --------
    >>> as_data(Points("T", Axis("x"), Axis("y"), [Point("LiM2", 0, 1.0, 2 / 3)]))["points"]
    [{'label': 'LiM2', 'shade': 0, 'x': 1.0, 'y': 0.66667, 'half': 0.0}]
    """
    return {"kind": type(chart).__name__.lower(), **rounded(asdict(chart))}


def rounded(value: Any) -> Any:
    """Return what JSON can hold, with numbers of five digits; what is not finite becomes None.

    Examples
    --------
    >>> rounded({"a": np.array([1.0, 1 / 3, np.nan]), "b": 123456})
    {'a': [1, 0.33333, None], 'b': 123456}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return [_shortest(number) for number in value.tolist()]
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) and np.isfinite(value) else _finite(value)


def _shortest(number: float) -> float | int | None:
    """Return a number in as few letters as may be: a page has a hundred thousand of them."""
    short = rounded(number)
    return int(short) if isinstance(short, float) and short.is_integer() and abs(short) < 1e15 else short


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
