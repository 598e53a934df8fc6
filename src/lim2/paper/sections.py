"""What is reported of an experiment: claims that are checked, tables, figures, in a form that any page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from lim2.experiments.report.figures import Drawn


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether it was reproduced here.

    Parameters
    ----------
    text
        The paper's claim in a sentence.
    holds
        Whether the runs show it; None where they are too few.
    evidence
        The numbers behind the verdict.
    """

    text: str
    holds: bool | None
    evidence: str

    @property
    def verdict(self) -> str:
        """A word for it."""
        return {True: "reproduced", False: "not reproduced", None: "open"}[self.holds]


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Parameters
    ----------
    text
        What it shows.
    below
        A second line, small.
    mark
        ``"better"``, ``"worse"``, ``"same"`` or nothing: how it compares with what is published or with a baseline.
    bold
        Whether it is the best of its row.
    """

    text: str
    below: str = ""
    mark: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table.

    Parameters
    ----------
    name
        Of its files.
    caption
        What it shows, and how to read it.
    head
        Names of the columns.
    rows
        Its cells, one list per row.
    data
        The numbers behind it, tidy, for a file.
    left
        How many columns are text.
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    data: pl.DataFrame
    left: int = 1


@dataclass(frozen=True)
class Section:
    """All that is reported of an experiment.

    Parameters
    ----------
    name, title
        Of the experiment.
    setup
        What was run, in a paragraph.
    claims
        What the paper says, checked.
    sheets, figures
        Its tables and figures.
    findings
        What was learned: plain sentences, from the numbers.
    notes
        What a reader should know before trusting it.
    made
        Versions and machine of the runs.
    """

    name: str
    title: str
    setup: str
    claims: Sequence[Claim] = ()
    sheets: Sequence[Sheet] = ()
    figures: Sequence[Drawn] = ()
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    made: dict[str, list[str]] = field(default_factory=dict)
