"""The report of the paper's experiments: a page, Markdown, tables as CSV, figures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import lim2
from lim2.experiments.report import latex, markdown
from lim2.experiments.report.content import About, about
from lim2.experiments.report.figures import write_drawn
from lim2.experiments.report.page import render
from lim2.experiments.report.runs import data_of, points_of_curves
from lim2.experiments.report.write import shades_of
from lim2.experiments.store import Store, write
from lim2.experiments.tables import Tables
from lim2.paper.run import EXPERIMENTS
from lim2.paper.sections import Cell, Claim, Section, Sheet


def write_report(sections: Mapping[str, Section], out: Path, to: Path | None = None) -> Path:
    """Write ``report.html``, ``report.md``, ``made.json``, ``tables/`` and ``figures/``; return the page's path."""
    to = out if to is None else to
    shown = list(sections.values())
    commands = commands_of(out)
    provenance = _provenance(shown)
    drawn = [(figure.name, figure) for section in shown for figure in section.figures]
    for name, figure in drawn:
        write_drawn(figure, to / "figures", name)
    for sheet in (sheet for s in shown for sheet in s.sheets):
        write(to / "tables" / f"{sheet.name}.csv", sheet.data.write_csv(float_precision=6).encode())
        write(to / "tables" / f"{sheet.name}.tex", latex_of(sheet).encode())
    write(to / "made.json", (json.dumps({"commands": commands, **provenance}, indent=1) + "\n").encode())
    page = page_of(shown, commands, provenance)
    write(to / "report.html", page.encode())
    write(to / "report.md", markdown_of(shown, commands, provenance).encode())
    return to / "report.html"


def page_of(sections: Sequence[Section], commands: Sequence[str], provenance: Mapping[str, list[str]]) -> str:
    """Return the page."""
    explored = _explored(sections)
    points = points_of_curves(sum(len(one.tables.rows) for one in explored.values()))
    return render(
        "paper.html",
        [(figure.name, figure) for section in sections for figure in section.figures],
        {name: {**data_of(one.tables, one.shades, points), "pooled": True} for name, one in explored.items()},
        ["lim2.paper"],
        sections=sections,
        explored=explored,
        headline=headline(sections),
        version=lim2.__version__,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        alerts=_alerts(sections, provenance),
        commands=commands,
        provenance=provenance,
    )


def headline(sections: Sequence[Section]) -> str:
    """Return the outcome in a sentence."""
    claims = [claim for section in sections for claim in section.claims]
    judged = [claim for claim in claims if claim.holds is not None]
    if not judged:
        return "Nothing is judged: these runs are shorter or fewer than the paper's. Run more, or without --quick."
    holding, left = sum(bool(claim.holds) for claim in judged), len(claims) - len(judged)
    text = f"These runs reproduce {holding} of the {len(claims)} claims of the paper"
    return f"{text}, do not reproduce {len(judged) - holding}, and cannot judge {left} (“open”)."


def commands_of(out: Path) -> list[str]:
    """Return the commands that asked for the runs in a folder, each once."""
    stores = [Store(out / folder) for folder in dict.fromkeys(e.folder for e in EXPERIMENTS.values())]
    plans = [plan for store in stores if (store.folder / "plans").is_dir() for plan in store.plans()]
    plans.sort(key=lambda plan: int(plan["asked"]))
    return list(dict.fromkeys(shlex.join(plan["command"]) for plan in plans if plan["command"]))


def _provenance(sections: Sequence[Section]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for section in sections for name in section.provenance)
    return {name: list(dict.fromkeys(v for s in sections for v in s.provenance.get(name, ()))) for name in names}


def _alerts(sections: Sequence[Section], provenance: Mapping[str, list[str]]) -> list[str]:
    alerts = []
    if not sections:
        alerts.append("There are no runs in this folder yet.")
    if len(provenance.get("version", ())) > 1:
        alerts.append("Runs were made by different versions of lim2.")
    return alerts


@dataclass(frozen=True)
class Explored:
    """The runs of a section, to be explored on the page."""

    tables: Tables
    shades: dict[str, int]
    problems: list[About]

    @property
    def agents(self) -> list[str]:
        """Their labels."""
        return self.tables.agents


def _explored(sections: Sequence[Section]) -> dict[str, Explored]:
    found = {}
    for section in sections:
        if section.tables is not None:
            tables = section.tables
            abouts = [about(tables, problem, problem) for problem in tables.problems]
            fixed = {label: shade for figure in section.figures for label, shade in figure.legend.items()}
            found[section.name] = Explored(tables, shades_of(tables.runs, fixed), abouts)
    return found


def latex_of(sheet: Sheet) -> str:
    """Return a table for LaTeX: what is shown, without what is below it."""
    marks = {"better": r"$^{\blacktriangle}$", "worse": r"$^{\blacktriangledown}$"}
    rows = [
        [latex.bold(latex.escaped(cell.text), cell.bold) + marks.get(cell.mark, "") for cell in row]
        for row in sheet.rows
    ]
    return f"% {sheet.caption}\n{latex.tabular(list(sheet.head), [rows], sheet.left)}"


def markdown_of(sections: Sequence[Section], commands: Sequence[str], provenance: Mapping[str, list[str]]) -> str:
    """Return the report as Markdown."""
    lines = ["# The paper's experiments, rerun", "", headline(sections), ""]
    for section in sections:
        lines += [f"## {section.title}", "", section.setup, "", *(f"- {note}" for note in section.notes), ""]
        if section.claims:
            lines += [*claim_lines(section.claims), ""]
        if section.criteria:
            head = ["requirement of this project, not of the paper", "verdict", "evidence", "shown by"]
            rows = [[c.text, c.word, c.evidence, links(c)] for c in section.criteria]
            lines += [*markdown.table(head, rows, left=4), ""]
        for figure in section.figures:
            lines += [f'<a id="figure-{figure.name}"></a>', f"![{figure.caption}](figures/{figure.name}.png)", ""]
        lines += [*(f"- {finding}" for finding in section.findings), ""]
        for sheet in section.sheets:
            lines += [f'<a id="table-{sheet.name}"></a>', "", *sheet_lines(sheet), "", f"*{sheet.caption}*", ""]
    lines += ["## Repeat it", "", "```", *commands, "```", ""]
    lines += markdown.table(["", ""], [[name, ", ".join(values)] for name, values in provenance.items()], left=2)
    return "\n".join(lines) + "\n"


def claim_lines(claims: Sequence[Claim], page: str = "") -> list[str]:
    """Return claims of the paper as a table in Markdown, each with links to its figure and its numbers."""
    rows = [[claim.text, claim.source, claim.attributed, claim.evidence, links(claim, page)] for claim in claims]
    return markdown.table(["claim of the paper", "where in the paper", "verdict", "evidence", "shown by"], rows, left=5)


def links(claim: Claim, page: str = "") -> str:
    """Return links to what shows a claim's numbers, as Markdown.

    Examples
    --------
    >>> links(Claim("x", True, "", "", ("figure-drift", "table-drift")), "results/report.md")
    '[figure drift](results/report.md#figure-drift), [table drift](results/report.md#table-drift)'
    """
    return ", ".join(f"[{place.replace('-', ' ')}]({page}#{place})" for place in claim.shown)


def sheet_lines(sheet: Sheet) -> list[str]:
    """Return a table as lines of Markdown."""
    return markdown.table(list(sheet.head), [[_cell(cell) for cell in row] for row in sheet.rows], left=sheet.left)


MARKS = {"better": " ▲", "worse": " ▼"}


def _cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    text += MARKS.get(cell.mark, "")
    return f"{text}<br><sub>{cell.below}</sub>" if cell.below else text
