"""`python -m benchmarks.datasets RESULTS TUNING`: write what docs/suites.md says about runs, and its figure.

RESULTS is the folder of `lim2 bench --suite benchmarks/suites/datasets.toml`, TUNING that of
`lim2 tune LinearTS --suite benchmarks/suites/tuning.toml`. Their numbers are kept in docs/results/suites.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from lim2.experiments.feedback import IMMEDIATE
from lim2.experiments.report import datasets
from lim2.experiments.report.figures import write_figure
from lim2.experiments.store import opened
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables
from lim2.experiments.tuned import Judged, Tuned, summary

DOCS = Path(__file__).parent.parent / "docs"
KEPT = DOCS / "results" / "suites"
FIGURE = "critical-difference"


def comparison(folder: Path) -> list[str]:
    """Write the figure and the numbers of a bench, and return the lines of the page."""
    runs = opened(folder).frames()[0]
    section = datasets.section(Tables(runs, summarize(runs)), IMMEDIATE)
    if section is None:
        raise SystemExit(f"{folder} has too few datasets or agents")
    write_figure(section.diagram, KEPT, FIGURE)
    (KEPT / "datasets.json").write_text(json.dumps(section.analysis.as_dict(), indent=1) + "\n")
    return section.markdown(f"results/suites/{FIGURE}.png")


def tuning(folder: Path) -> list[str]:
    """Keep what a search found, and return the lines of the page."""
    content = json.loads((folder / "tuned.json").read_text())
    (KEPT / "tuned.json").write_text(json.dumps(content, indent=1) + "\n")
    judged = Judged(**content.pop("judged")) if content["judged"] else content.pop("judged")
    return ["```text", summary(Tuned(**content, judged=judged), Path("results/tuning")), "```"]


def put(page: str, name: str, lines: Sequence[str]) -> str:
    """Return the page with other lines between its marks of that name."""
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", flags=re.DOTALL)
    return between.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("tuning", type=Path)
    asked = parser.parse_args()
    path = DOCS / "suites.md"
    page = put(path.read_text(), "comparison", comparison(asked.results))
    path.write_text(put(page, "tuning", tuning(asked.tuning)))


if __name__ == "__main__":
    main()
