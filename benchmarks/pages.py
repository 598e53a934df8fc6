"""Tables of pages, made of kept results; `python -m benchmarks.readme` writes them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks import choosing, datasets
from lim2.experiments.report.markdown import table

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results"
MEASURED = Path(__file__).parent / "results"


def ablation_variants() -> str:
    """Return what each variant of LiM2 gains or loses, in percent of LiM2's lead over the random policy."""
    kept = pl.read_csv(RESULTS / "tables" / "ablation.csv")
    problems = kept["problem"].unique(maintain_order=True).to_list()
    rows = []
    for (variant,), group in kept.group_by("variant", maintain_order=True):
        by = dict(group.select("problem", "difference_percent").iter_rows())
        if any(by.values()):  # LiM2 as published is 0
            rows.append([str(variant), *(f"{by[name]:+.1f}" for name in problems)])
    return "\n".join(table(["variant", *problems], rows))


def amazon() -> str:
    """Return the rewards of the agents with the text network, the published ones, and what their rounds cost."""
    rows = []
    for row in pl.read_csv(RESULTS / "tables" / "text.csv").iter_rows(named=True):
        timed = [run for run in _on_texts() if run["agent"] == row["method"] and not run["settings"]]
        cost = [f"{np.median([run['ms'] for run in timed]):.0f}", f"{np.median([r['outside'] for r in timed]):.0%}"]
        ours, paper = f"{row['mean']:,.0f} ± {row['std']:.0f}", f"{row['paper_mean']:,} ± {row['paper_std']}"
        rows.append([f"`{row['method']}`", str(row["runs"]), ours, paper, *cost])
    return "\n".join(
        table(["agent", "runs", "reward", "published reward", "ms per round", "outside the network"], rows)
    )


def _on_texts(rounds: int = 5000) -> list[dict[str, Any]]:
    """Return the runs of `python -m benchmarks.amazon` of some length."""
    runs = [json.loads(line) for line in (MEASURED / "amazon.jsonl").read_text().splitlines()]
    return [run for run in runs if run["rounds"] == rounds]


PAGES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    DOCS / "research" / "ablation.md": {"ablation variants": ablation_variants},
    DOCS / "guides" / "choosing.md": {"choosing": choosing.report},
    DOCS / "guides" / "networks.md": {"amazon": amazon},
    DOCS / "research" / "suites.md": {"comparison": datasets.comparison},
}
