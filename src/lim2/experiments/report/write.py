"""Write a report: page, figures, Markdown, LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from matplotlib.figure import Figure

from lim2.experiments.feedback import Feedback
from lim2.experiments.report import colours, figures, latex, markdown, svg, texts
from lim2.experiments.report.content import Content, content_of
from lim2.experiments.store import Store, write
from lim2.experiments.summary import Row

DPI = 160


def write_report(store: Store, runs: pl.DataFrame, failures: pl.DataFrame, rows: list[Row]) -> None:
    """Write ``report.html``, ``report.md``, ``figures/`` and ``tables/`` into a folder of results.

    Parameters
    ----------
    store
        Where the results are.
    runs, failures
        From `Store.frames`.
    rows
        From `summarize`.
    """
    content = content_of(store, runs, failures, rows)
    shades = colours.colours(dict(runs.select("agent", "agent_source").unique(maintain_order=True).iter_rows()))
    folder = store.folder / "figures"
    drawn = dict(_drawn(content, shades, folder)) if rows else {}
    compared = dict(_compared(content, shades, folder)) if len(content.tables.parts) > 1 else {}
    page = (
        _environment()
        .get_template("report.html")
        .render(
            content=content,
            tables=content.tables,
            shades=shades,
            figures=drawn,
            compared=compared,
            light=[colours.shade(i) for i in range(len(colours.SHADES))],
            dark=[colours.shade(i, dark=True) for i in range(len(colours.SHADES))],
            grey=colours.GREY,
        )
    )
    write(store.folder / "report.html", page.encode())
    write(store.folder / "report.md", markdown.report(content, slug).encode())
    for feedback, part in content.tables.parts.items() if rows else ():
        for name, table in latex.tables(part, feedback).items():
            write(store.folder / "tables" / f"{slug(feedback.labelled(name))}.tex", table.encode())


def _drawn(content: Content, shades: dict[str, int], folder: Path) -> Iterator[tuple[str | Feedback, list[str]]]:
    """Draw all figures, write their files, and give those of the page, by problem; overviews by delay and batch."""
    for feedback, part in content.tables.parts.items():
        prefix = slug(feedback.labelled("all"))
        yield feedback, [_kept(drawn, prefix, folder) for drawn in figures.overview(part, shades, feedback)]
    for problem in content.tables.problems:
        drawings = figures.of_problem(content.tables, problem, shades)
        yield problem, [_kept(drawn, slug(problem), folder) for drawn in drawings]


def _compared(content: Content, shades: dict[str, int], folder: Path) -> Iterator[tuple[str, str]]:
    """Draw what delay and batch change, by problem."""
    for problem in content.tables.across:
        yield problem, _kept(figures.across(content.tables, problem, shades), slug(f"delays {problem}"), folder)


def _kept(drawn: figures.Drawn, prefix: str, folder: Path) -> str:
    name = f"{prefix}-{drawn.name}"
    for_page = svg.inline(svg.as_text(drawn.figure), name, escape(drawn.caption))
    figures.with_legend(drawn.figure)
    write_figure(drawn.figure, folder, name)
    return for_page


def write_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as SVG and PNG.

    Parameters
    ----------
    figure
        As drawn.
    folder, name
        Where, and the name of the files.
    """
    write(folder / f"{name}.svg", svg.as_text(figure).encode())
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    write(folder / f"{name}.png", buffer.getvalue())


def slug(label: str) -> str:
    """Return a label as a part of a file's name.

    Examples
    --------
    >>> slug("My problem: 2")
    'my-problem-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lim2.experiments.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    shown: dict[str, Any] = {
        "number": texts.number,
        "plus_minus": texts.plus_minus,
        "percent": texts.percent,
        "microseconds": texts.microseconds,
        "megabytes": texts.megabytes,
        "p_value": texts.p_value,
        "slug": slug,
        "colour": colours.name,
    }
    environment.filters.update(shown)
    return environment
