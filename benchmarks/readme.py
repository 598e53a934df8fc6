"""Write tables from what was measured into README.md and docs: `python -m benchmarks.readme`.

The paper's table comes from docs/results (`lim2 paper report --to docs/results`), that past the paper from
docs/results/past-the-paper (`python -m benchmarks.past_the_paper`), the rest from benchmarks/results.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import catalogue, item_speed, items, shop, wide
from lim2.experiments.renamed import today
from lim2.experiments.report.markdown import table
from lim2.paper.published import METHODS

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
SPEED_PAGE = HERE.parent / "docs" / "speed.md"
PAST_PAGE = HERE.parent / "docs" / "past-the-paper.md"
EVENTS_PAGE = HERE.parent / "docs" / "json-events.md"
CATALOGUE_PAGE = HERE.parent / "docs" / "catalogue.md"
RESULTS = HERE.parent / "docs" / "results"


def _load(name: str) -> Any:
    return json.loads(today((HERE / "results" / f"{name}.json").read_text()))


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
    counted = "; ".join(f"{counts} of {', '.join(methods)}" for counts, methods in groups.items())
    return "\n".join([*table(["", *METHODS], rows), "", f"Runs: {counted}."])


def _cells(row: dict[str, Any]) -> str:
    values = [f"x {v:,}" if unit == "ratio" else f"{v:,} {unit}" for unit, v in row.items() if unit != "what"]
    return f"| {row['what']} | {', '.join(values)} |"


def speed_table() -> str:
    """Return the main lines of the benchmark."""
    shown = ("A round of LiM2", "Against the oracle", "For ever", "Forever", "LinearTS against", "A fresh process")
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
        by = results.get("code", {}).get(title)
        lines += [f"## {title}", "", "Measured before the core was rebuilt." if by is None else f"Code {by}.", ""]
        lines += ["| | |", "|---|---|", *map(_cells, rows), ""]
    return "\n".join([*lines, wide.page(_load("wide"))])


def rivals_table() -> str:
    """Return how our agent does next to all others."""
    return (RESULTS / "past-the-paper" / "table.md").read_text().strip()


def rivals_verdict() -> str:
    """Return the same in a sentence."""
    return rivals_table().split("\n")[0]


def adaptive_table(name: str) -> str:
    """Return one of the tables of `python -m benchmarks.adaptive`."""
    return (RESULTS / "past-the-paper" / f"{name}.md").read_text().strip()


def calibration_table() -> str:
    """Return how many 90% intervals hold the truth."""
    rows = [
        [row["agent"], f"{row['mean']:.1%}", f"{min(row['runs']):.1%} to {max(row['runs']):.1%}", str(len(row["runs"]))]
        for row in _load("calibration")
    ]
    return "\n".join(table(["agent", "90% intervals that hold the truth", "least to most", "runs"], rows))


IN_README = {"paper": paper_table, "speed": speed_table, "rivals": rivals_verdict}
IN_PAST_PAGE: dict[str, Callable[[], str]] = {
    "rivals": rivals_table,
    "calibration": calibration_table,
    **{name: functools.partial(adaptive_table, name) for name in ("suite", "ablation", "cases")},
}

IN_EVENTS_PAGE: dict[str, Callable[[], str]] = {"shop": lambda: shop.report(_load("shop"))}
IN_CATALOGUE_PAGE: dict[str, Callable[[], str]] = {
    "items": lambda: items.report(_load("items")),
    "catalogue": lambda: catalogue.report(_load("catalogue")),
    "item speed": lambda: item_speed.report(_load("item_speed")),
}
PAGES = {
    README: IN_README,
    PAST_PAGE: IN_PAST_PAGE,
    EVENTS_PAGE: IN_EVENTS_PAGE,
    CATALOGUE_PAGE: IN_CATALOGUE_PAGE,
}


def filled(text: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Return a page's text with the parts between its markers made anew."""
    for marker, make in parts.items():
        before, rest = text.split(f"<!-- {marker} -->\n")
        after = rest.split(f"<!-- /{marker} -->")[1]
        text = f"{before}<!-- {marker} -->\n{make()}\n<!-- /{marker} -->{after}"
    return text


def main() -> None:
    for page, parts in PAGES.items():
        page.write_text(filled(page.read_text(), parts))
    SPEED_PAGE.write_text(speed_page())


if __name__ == "__main__":
    main()
