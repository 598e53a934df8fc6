"""Write the tables of README.md from benchmarks/results/*.json: `python -m benchmarks.readme`."""

import json
from pathlib import Path
from typing import Any

from benchmarks.statlog import PUBLISHED

HERE = Path(__file__).parent
README = HERE.parent / "README.md"


def _load(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def statlog_table() -> str:
    """Return ours next to the paper's."""
    lines = ["| agent | lim2 | published |", "|---|---|---|"]
    for row in _load("statlog"):
        mean, std = PUBLISHED[row["agent"]]
        lines.append(f"| {row['agent']} | {row['mean']:,.0f} ± {row['std']:.0f} | {mean:,} ± {std} |")
    return "\n".join([*lines, "", f"Ours: {_load('statlog')[0]['runs']} runs. Published: 10."])


def speed_table() -> str:
    """Return every line of the benchmark."""
    lines = []
    for title, rows in _load("speed")["sections"].items():
        lines += [f"| {title} | |", "|---|---|"]
        for row in rows:
            values = [f"x {v:,}" if unit == "ratio" else f"{v:,} {unit}" for unit, v in row.items() if unit != "what"]
            lines.append(f"| {row['what']} | {', '.join(values)} |")
        lines.append("")
    return "\n".join(lines[:-1])


def filled(text: str) -> str:
    """Return README's text with its tables made anew."""
    for marker, table in (("statlog", statlog_table()), ("speed", speed_table())):
        before, rest = text.split(f"<!-- {marker} -->\n")
        after = rest.split(f"<!-- /{marker} -->")[1]
        text = f"{before}<!-- {marker} -->\n{table}\n<!-- /{marker} -->{after}"
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
