"""Tables of pages, made of kept results; `python -m benchmarks.readme` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from benchmarks import choosing
from lim2.experiments.report.markdown import table

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results"


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


PAGES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    DOCS / "explanation" / "what-carries-the-result.md": {"ablation variants": ablation_variants},
    DOCS / "choosing.md": {"choosing": choosing.report},
}
