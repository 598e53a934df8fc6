"""The report of the paper's experiments: a page, Markdown, tables as CSV, figures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import jinja2

import lim2
from lim2.experiments.report import colours, markdown, svg
from lim2.experiments.report.figures import Drawn
from lim2.experiments.report.write import write_figure
from lim2.experiments.store import Store, write
from lim2.paper.run import EXPERIMENTS
from lim2.paper.sections import Cell, Section, Sheet


def write_report(sections: Mapping[str, Section], out: Path, to: Path | None = None) -> Path:
    """Write ``report.html``, ``report.md``, ``made.json``, ``tables/*.csv`` and ``figures/``; return the page's path.

    Parameters
    ----------
    sections
        From `lim2.paper.run.sections_of`.
    out
        The folder of the results.
    to
        Where to write; default: there.
    """
    to = out if to is None else to
    shown = list(sections.values())
    commands = commands_of(out)
    made = _made(shown)
    drawn = {s.name: [_kept(figure, to / "figures") for figure in s.figures] for s in shown}
    for sheet in (sheet for s in shown for sheet in s.sheets):
        write(to / "tables" / f"{sheet.name}.csv", sheet.data.write_csv(float_precision=6).encode())
    write(to / "made.json", (json.dumps({"commands": commands, **made}, indent=1) + "\n").encode())
    page = (
        _environment()
        .get_template("paper.html")
        .render(
            sections=shown,
            figures=drawn,
            headline=headline(shown),
            version=lim2.__version__,
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            alerts=_alerts(shown, made),
            commands=commands,
            made=made,
            light=[colours.shade(i) for i in range(len(colours.SHADES))],
            dark=[colours.shade(i, dark=True) for i in range(len(colours.SHADES))],
            grey=colours.GREY,
        )
    )
    write(to / "report.html", page.encode())
    write(to / "report.md", _markdown(shown, commands, made).encode())
    return to / "report.html"


def headline(sections: Sequence[Section]) -> str:
    """Return the outcome in a sentence.

    Parameters
    ----------
    sections
        Of the experiments.
    """
    claims = [claim for section in sections for claim in section.claims]
    tested = [claim for claim in claims if claim.holds is not None]
    if not tested:
        return "Nothing to judge yet: run more, or without --quick."
    holding = sum(bool(claim.holds) for claim in tested)
    return f"{holding} of {len(tested)} claims of the paper are reproduced in these runs."


def commands_of(out: Path) -> list[str]:
    """Return the commands that asked for the runs in a folder, each once.

    Parameters
    ----------
    out
        The folder of the results.
    """
    stores = [Store(out / folder) for folder in dict.fromkeys(e.folder for e in EXPERIMENTS.values())]
    plans = [plan for store in stores if (store.folder / "plans").is_dir() for plan in store.plans()]
    plans.sort(key=lambda plan: int(plan["asked"]))
    return list(dict.fromkeys(shlex.join(plan["command"]) for plan in plans if plan["command"]))


def _made(sections: Sequence[Section]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for section in sections for name in section.made)
    return {name: list(dict.fromkeys(v for s in sections for v in s.made.get(name, ()))) for name in names}


def _alerts(sections: Sequence[Section], made: Mapping[str, list[str]]) -> list[str]:
    alerts = []
    if not sections:
        alerts.append("There are no runs in this folder yet.")
    if len(made.get("version", ())) > 1:
        alerts.append("Runs were made by different versions of lim2.")
    return alerts


def _kept(drawn: Drawn, folder: Path) -> tuple[str, str, str]:
    """Write a figure's files; return its name, itself for the page, and its caption."""
    write_figure(drawn.figure, folder, drawn.name)
    return drawn.name, svg.inline(svg.as_text(drawn.figure), drawn.name, escape(drawn.caption)), drawn.caption


def _markdown(sections: Sequence[Section], commands: Sequence[str], made: Mapping[str, list[str]]) -> str:
    lines = ["# The paper's experiments, rerun", "", headline(sections), ""]
    for section in sections:
        lines += [f"## {section.title}", "", section.setup, "", *(f"- {note}" for note in section.notes), ""]
        if section.claims:
            rows = [[claim.text, claim.verdict, claim.evidence] for claim in section.claims]
            lines += [*markdown.table(["the paper says", "here", "evidence"], rows, left=3), ""]
        lines += [f"![{figure.caption}](figures/{figure.name}.png)\n" for figure in section.figures]
        lines += [*(f"- {finding}" for finding in section.findings), ""]
        for sheet in section.sheets:
            lines += [*sheet_lines(sheet), "", f"*{sheet.caption}*", ""]
    lines += ["## Repeat it", "", "```", *commands, "```", ""]
    lines += markdown.table(["", ""], [[name, ", ".join(values)] for name, values in made.items()], left=2)
    return "\n".join(lines) + "\n"


def sheet_lines(sheet: Sheet) -> list[str]:
    """Return a table as lines of Markdown.

    Parameters
    ----------
    sheet
        The table.
    """
    return markdown.table(list(sheet.head), [[_cell(cell) for cell in row] for row in sheet.rows], left=sheet.left)


MARKS = {"better": " ▲", "worse": " ▼"}


def _cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    text += MARKS.get(cell.mark, "")
    return f"{text}<br><sub>{cell.below}</sub>" if cell.below else text


def _environment() -> jinja2.Environment:
    pages = [jinja2.PackageLoader("lim2.paper"), jinja2.PackageLoader("lim2.experiments.report")]
    return jinja2.Environment(loader=jinja2.ChoiceLoader(pages), autoescape=True, trim_blocks=True, lstrip_blocks=True)
