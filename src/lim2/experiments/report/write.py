"""Write a report: page, figures, Markdown, tables as CSV and LaTeX."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import polars as pl

from lim2.experiments.feedback import Feedback
from lim2.experiments.report import colours, datasets, latex, markdown, page, sheets, views
from lim2.experiments.report.charts import Drawn
from lim2.experiments.report.content import Content, content_of
from lim2.experiments.report.figures import write_drawn, write_figure
from lim2.experiments.report.page import slug
from lim2.experiments.report.runs import data_of, points_of_curves
from lim2.experiments.store import Store, write
from lim2.experiments.summary import Row


def write_report(store: Store, runs: pl.DataFrame, failures: pl.DataFrame, rows: list[Row]) -> None:
    """Write ``report.html``, ``report.md``, ``figures/`` and ``tables/`` into a folder of results."""
    content = content_of(store, runs, failures, rows)
    tables, shades = content.tables, shades_of(runs)
    write(store.folder / "report.html", page_of(content, shades).encode())
    sections = _sections(content)
    figure = f"figures/{{}}-{datasets.NAME}.png"
    over = {late: part.markdown(figure.format(slug(late.labelled("all")))) for late, part in sections.items()}
    write(store.folder / "report.md", markdown.report(content, slug, over).encode())
    for name, drawn in _figures(content, shades):
        write_drawn(drawn, store.folder / "figures", name)
    for feedback, part in tables.parts.items() if rows else ():
        for name, table in latex.tables(part, feedback).items():
            write(store.folder / "tables" / f"{slug(feedback.labelled(name))}.tex", table.encode())
        for name, frame in sheets.frames(part).items():
            write(store.folder / "tables" / f"{slug(feedback.labelled(name))}.csv", frame.write_csv().encode())
    for feedback, section in sections.items():
        name = slug(feedback.labelled("datasets"))
        write_figure(section.diagram, store.folder / "figures", f"{slug(feedback.labelled('all'))}-{datasets.NAME}")
        write(store.folder / "tables" / f"{name}.tex", section.latex().encode())
        write(store.folder / f"{name}.json", (json.dumps(section.analysis.as_dict(), indent=1) + "\n").encode())


def _sections(content: Content) -> dict[Feedback, datasets.Section]:
    """Return what can be said over many datasets, for each delay and batch that has enough of them."""
    parts = content.tables.parts if content.tables.rows else {}
    sections = {feedback: datasets.section(part, feedback) for feedback, part in parts.items()}
    return {feedback: section for feedback, section in sections.items() if section is not None}


def shades_of(runs: pl.DataFrame, fixed: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the numbers of the agents' colours."""
    sources = dict(runs.select("agent", "agent_source").unique(maintain_order=True).iter_rows())
    return colours.colours(sources, fixed)


def page_of(content: Content, shades: dict[str, int]) -> str:
    """Return the page."""
    tables = content.tables
    overviews, compared = _overviews(content, shades), _compared(content, shades)
    data = data_of(tables, shades, points_of_curves(len(tables.rows)))
    return page.render(
        "report.html",
        [*(figure for several in overviews.values() for figure in several), *compared],
        {"bench": {**data, "pooled": len(tables.parts) == 1}},
        content=content,
        tables=tables,
        shades=shades,
        figures=overviews,
        compared=compared,
        sections=_sections(content),
    )


def _figures(content: Content, shades: dict[str, int]) -> Iterator[tuple[str, Drawn]]:
    """Give all figures, with the names of their files."""
    for several in _overviews(content, shades).values():
        yield from several
    yield from _compared(content, shades)
    for problem in content.tables.problems:
        for drawn in views.of_problem(content.tables, problem, shades):
            yield f"{slug(problem)}-{drawn.name}", drawn


def _overviews(content: Content, shades: dict[str, int]) -> dict[Feedback, list[tuple[str, Drawn]]]:
    """Return the figures over all problems, by delay and batch."""
    figures = {}
    for feedback, part in content.tables.parts.items() if content.tables.rows else ():
        prefix = slug(feedback.labelled("all"))
        figures[feedback] = [(f"{prefix}-{drawn.name}", drawn) for drawn in views.overview(part, shades, feedback)]
    return figures


def _compared(content: Content, shades: dict[str, int]) -> list[tuple[str, Drawn]]:
    """Return what delay and batch change, by problem."""
    tables = content.tables
    drawings = {problem: views.across(tables, problem, shades) for problem in tables.across if len(tables.parts) > 1}
    return [(f"{slug(f'delays {problem}')}-{drawn.name}", drawn) for problem, drawn in drawings.items()]
