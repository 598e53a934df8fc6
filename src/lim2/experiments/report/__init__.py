"""The report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from lim2.experiments.store import Store
    from lim2.experiments.summary import Row


def write_report(store: Store, runs: pl.DataFrame, failures: pl.DataFrame, rows: list[Row]) -> None:
    """Write."""
    (store.folder / "report.html").write_text("")
