"""Write the tables of README.md, and docs/speed.md, from benchmarks/results: `python -m benchmarks.readme`."""

import json
from pathlib import Path
from typing import Any

from benchmarks.statlog import PUBLISHED

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
SPEED_PAGE = HERE.parent / "docs" / "speed.md"


def _load(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def statlog_table() -> str:
    """Return ours next to the paper's."""
    lines = ["| agent | lim2 | published |", "|---|---|---|"]
    for row in _load("statlog"):
        mean, std = PUBLISHED[row["agent"]]
        lines.append(f"| {row['agent']} | {row['mean']:,.0f} ± {row['std']:.0f} | {mean:,} ± {std} |")
    return "\n".join([*lines, "", f"Ours: {_load('statlog')[0]['runs']} runs. Published: 10."])


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
    for marker, table in (("statlog", statlog_table()), ("speed", speed_table())):
        before, rest = text.split(f"<!-- {marker} -->\n")
        after = rest.split(f"<!-- /{marker} -->")[1]
        text = f"{before}<!-- {marker} -->\n{table}\n<!-- /{marker} -->{after}"
    return text


def main() -> None:
    README.write_text(filled(README.read_text()))
    SPEED_PAGE.write_text(speed_page())


if __name__ == "__main__":
    main()
