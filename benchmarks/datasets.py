"""`python -m benchmarks.datasets RESULTS`: keep what docs/research/suites.md says about runs, and its figure.

RESULTS is the folder of `lim2 bench --suite benchmarks/suites/datasets.toml`. Its numbers are kept in
docs/results/suites; `python -m benchmarks.readme` puts them into the page.
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

from lim2.experiments.analysis import Analysis, Pair, Place
from lim2.experiments.feedback import IMMEDIATE
from lim2.experiments.ranks import Friedman
from lim2.experiments.report import datasets
from lim2.experiments.report.figures import write_figure
from lim2.experiments.store import opened
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables

DOCS = Path(__file__).parent.parent / "docs"
KEPT = DOCS / "results" / "suites"
FIGURE = "critical-difference"


def keep(results: Path) -> None:
    """Keep the numbers of a bench, and draw the figure."""
    runs = opened(results).frames()[0]
    section = datasets.section(Tables(runs, summarize(runs)), IMMEDIATE)
    if section is None:
        raise SystemExit(f"{results} has too few datasets or agents")
    write_figure(section.diagram, KEPT, FIGURE)
    (KEPT / "datasets.json").write_text(json.dumps(section.analysis.as_dict(), indent=1) + "\n")


def comparison() -> str:
    """Return what the page says of agents over many datasets."""
    content = json.loads((KEPT / "datasets.json").read_text())
    content |= {"places": [Place(**place) for place in content["places"]], "friedman": Friedman(**content["friedman"])}
    found = Analysis(**content | {"pairs": [Pair(**pair) for pair in content["pairs"]]})
    section = datasets.Section(found, datasets.sentences(found), Figure())
    return "\n".join(section.markdown(f"../results/suites/{FIGURE}.png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    keep(parser.parse_args().results)


if __name__ == "__main__":
    main()
