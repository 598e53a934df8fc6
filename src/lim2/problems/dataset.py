"""A dataset of classes: the layout of its file, what is documented of it, and how its rows become a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lim2.problems.cache import Table, parsed
from lim2.problems.classification import classification
from lim2.problems.draw import Standardize
from lim2.problems.facts import LABEL, Facts
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import L, register
from lim2.problems.table import Layout, coded, compact, occurring, read

if TYPE_CHECKING:
    import polars as pl

Rounds = int | Literal["all"]


def parse_one(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    """Return the table of a dataset that is one file."""
    return parse_classes([(paths[0], layout)])


def parse_classes(files: Iterable[tuple[Path, Layout]]) -> pl.DataFrame:
    """Return the table of files whose rows follow one another, as the roles of their columns say.

    Labels are numbered from 0, and a category takes the values that occur in any of the files.
    """
    import polars as pl

    frames = []
    for path, layout in files:
        with plain(path) as copy:
            frame = read(copy, layout, shown=path)
        label = next(column for column in layout.columns if column.role == "label")
        numbers = (
            frame[label.name] - int(label.low) if label.values is None else _index(frame[label.name], label.values)
        )
        unused = [column.name for column in layout.columns if column.role == "unused"]
        frames.append(frame.drop(label.name, *unused).with_columns(numbers.cast(pl.UInt8).alias(LABEL)))
    table = pl.concat(frames)
    for column in layout.columns:
        if column.role == "category":
            table = coded(table, column.name, occurring(table, column.name))
    return compact(table)


def _index(labels: pl.Series, values: tuple[str, ...]) -> pl.Series:
    import polars as pl

    return labels.cast(pl.Enum(values)).to_physical()


@dataclass(frozen=True)
class Dataset:
    """A dataset of classes."""

    name: str
    summary: str
    arms: tuple[str, ...]  # empty if they depend on the settings
    layout: Layout
    facts: Facts
    parse: Callable[[Sequence[Path], Layout], pl.DataFrame] = parse_one
    rounds: int = 5000

    def read(self, paths: Sequence[Path]) -> pl.DataFrame:
        """Return the table of the files, unchecked."""
        return self.parse(paths, self.layout)

    def table(self, data: Folder, verify: bool, files: Sequence[str] | None = None) -> Table:
        """Return the checked table, parsed now or before."""
        return parsed(self.name, self.facts, self.read, data=data, verify=verify, files=files)

    def load(
        self,
        rounds: Rounds,
        seed: int,
        standardize: Standardize = "sample",
        replace: bool = False,
        data: Folder = None,
        verify: bool = True,
    ) -> Problem:
        """Draw rows: the loader of a dataset that has no settings of its own."""
        return self.draw(self.table(data, verify), rounds, seed, standardize=standardize, replace=replace)

    def draw(
        self,
        table: Table,
        rounds: Rounds,
        seed: int,
        *,
        standardize: Standardize,
        replace: bool,
        payoffs: Array | None = None,
        **settings: Any,
    ) -> Problem:
        """Draw rows of a table; `payoffs` has the reward of each arm (column) for each class (row)."""
        return classification(
            self.name,
            table,
            self.arms,
            rounds,
            seed,
            standardize=standardize,
            replace=replace,
            rewards=payoffs,
            settings=settings,
        )

    def register(self, loader: L, module: str = "") -> L:
        """Register a loader under the name of the dataset."""
        registered = register(
            self.name, summary=self.summary, rounds=self.rounds, facts=self.facts, parse=self.read, module=module
        )
        return registered(loader)
