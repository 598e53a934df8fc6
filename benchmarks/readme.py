"""Write the tables of README.md and docs/speed.md from what was measured: `python -m benchmarks.readme`.

The paper's table comes from docs/results (`lim2 paper report --to docs/results`), the rest from benchmarks/results.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl

from lim2.experiments.report.markdown import table
from lim2.paper.published import METHODS

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
SPEED_PAGE = HERE.parent / "docs" / "speed.md"
RESULTS = HERE.parent / "docs" / "results"


def _load(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def paper_table() -> str:
    """Return table 1 of the paper, ours and the published scores in brackets."""
    scores = pl.read_csv(RESULTS / "tables" / "normalised.csv")
    runs = pl.read_csv(RESULTS / "tables" / "raw.csv")
    rows = []
    for dataset in scores["dataset"].unique(maintain_order=True):
        line = scores.filter(pl.col("dataset") == dataset)
        best = line["ours"].max()
        cells = [f"**{dataset}**" if dataset in ("Average", "Median") else dataset]
        for method in METHODS:
            ours, paper = line.filter(pl.col("method") == method).select("ours", "paper").row(0)
            text = "–" if ours is None else f"**{ours:.2f}**" if ours == best else f"{ours:.2f}"
            cells.append(text if paper is None else f"{text} ({paper:.2f})")
        rows.append(cells)
    many = {method: sorted(set(runs.filter(pl.col("method") == method)["runs"])) for method in METHODS}
    groups: dict[str, list[str]] = {}
    for method, counts in many.items():
        groups.setdefault(" or ".join(map(str, counts)), []).append(method)
    told = "; ".join(f"{counts} of {', '.join(methods)}" for counts, methods in groups.items())
    return "\n".join([*table(["", *METHODS], rows), "", f"Runs: {told}."])


def _cells(row: dict[str, Any]) -> str:
    values = [f"x {v:,}" if unit == "ratio" else f"{v:,} {unit}" for unit, v in row.items() if unit != "what"]
    return f"| {row['what']} | {', '.join(values)} |"


def speed_table() -> str:
    """Return the main lines of the benchmark."""
    shown = ("A round of LiM2", "Against the oracle", "For ever", "LinearTS against", "A fresh process")
    sections = _load("speed")["sections"]
    rows = [row for title, rows in sections.items() if title.startswith(shown) for row in rows]
    return "\n".join(["| | |", "|---|---|", *map(_cells, rows)])


def speed_page() -> str:
    """Return docs/speed.md: every line of the benchmark."""
    results = _load("speed")
    machine = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    lines = [
        "# Speed",
        "",
        f"Written by `make bench` ({machine}). Times are of one small shared machine on a busy day;",
    ]
    lines += ["ratios are medians of blocks that ran next to each other in one process.", ""]
    for title, rows in results["sections"].items():
        lines += [f"## {title}", "", "| | |", "|---|---|", *map(_cells, rows), ""]
    return "\n".join(lines)


def filled(text: str) -> str:
    """Return README's text with its tables made anew."""
    for marker, lines in (("paper", paper_table()), ("speed", speed_table())):
        before, rest = text.split(f"<!-- {marker} -->\n")
        after = rest.split(f"<!-- /{marker} -->")[1]
        text = f"{before}<!-- {marker} -->\n{lines}\n<!-- /{marker} -->{after}"
    return text


def main() -> None:
    README.write_text(filled(README.read_text()))
    SPEED_PAGE.write_text(speed_page())


if __name__ == "__main__":
    main()
