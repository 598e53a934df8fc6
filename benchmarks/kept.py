"""What was run and measured, and is kept in the repository: everything that the pages say is computed from it."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import past_the_paper
from lim2.experiments.tables import Tables
from lim2.paper import archive
from lim2.paper.lines import Line, lines_of
from lim2.paper.sections import Claim, Section

ROOT = Path(__file__).parents[1]


class Kept:
    """The kept runs."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.results = root / "docs" / "results"
        self.past = self.results / "past-the-paper"

    @cached_property
    def files(self) -> list[Path]:
        """The files with runs, whose digests are kept beside them."""
        return sorted([*(self.results / "runs").glob("*.parquet"), *self.past.glob("*.csv")])

    @cached_property
    def sections(self) -> dict[str, Section]:
        """What is reported of the paper's experiments."""
        return archive.sections_from(self.tables)

    @property
    def claims(self) -> list[Claim]:
        """The paper's claims, of all sections."""
        return [claim for section in self.sections.values() for claim in section.claims]

    @cached_property
    def lines(self) -> list[Line]:
        """The rows of the paper's tables."""
        return lines_of(self.tables["table"])

    def line(self, title: str) -> Line:
        """Return a row of the paper's tables."""
        return next(line for line in self.lines if line.title == title)

    @cached_property
    def tables(self) -> dict[str, Tables]:
        """The runs of the paper's experiments, by folder."""
        return {folder: archive.tables_of(self.results, folder) for folder in archive.folders_of(self.results)}

    def sheet(self, section: str, name: str) -> pl.DataFrame:
        """Return the numbers of a table of the report."""
        return next(sheet.data for sheet in self.sections[section].sheets if sheet.name == name)

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """AdaptiveTS against every rival, on fresh shuffles."""
        return past_the_paper.comparisons_of(past_the_paper.read_runs([self.past]))

    def rewards(self, name: str) -> pl.DataFrame:
        """Return the rewards of AdaptiveTS and others in the suite, the ablation or the special cases."""
        return pl.read_csv(self.past / f"{name}.csv")

    def measured(self, name: str) -> Any:
        """Return what a benchmark has written."""
        return json.loads((self.root / "benchmarks" / "results" / f"{name}.json").read_text())
