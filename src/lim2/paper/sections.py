"""What is reported of an experiment: claims that are checked, tables, figures, in a form that any page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from lim2.experiments.report.charts import Drawn
from lim2.experiments.tables import Tables


@dataclass(frozen=True)
class Claim:
    """What the paper says, or what is asked for here, and whether the runs show it."""

    text: str
    holds: bool | None  # None where the runs are too few, too short or absent
    evidence: str
    source: str = ""  # empty for what is asked for here
    shown: Sequence[str] = ()  # "figure-NAME" or "table-NAME" on the same page
    cause: str = ""  # what a failure is attributed to

    @property
    def verdict(self) -> str:
        """A word for it, where the paper says it."""
        return {True: "reproduced", False: "not reproduced", None: "open"}[self.holds]

    @property
    def attributed(self) -> str:
        """The verdict, with what a failure is attributed to."""
        return f"{self.verdict}: {self.cause}" if self.holds is False and self.cause else self.verdict

    @property
    def word(self) -> str:
        """A word for it, where it is asked for here."""
        return {True: "met", False: "not met", None: "open"}[self.holds]


SHORT = "not judged: these runs are shorter or fewer than the paper's"
LEAST_RUNS = 3  # of each method, to judge a claim


def judged(claims: Sequence[Claim], *, whole: bool) -> list[Claim]:
    """Return claims as they are where the experiment was carried out whole, else without a verdict.

    Examples
    --------
    >>> [claim.verdict for claim in judged([Claim("LiM2 is best.", True, "4,800 > 4,700")], whole=False)]
    ['open']
    """
    return list(claims) if whole else [replace(claim, holds=None, evidence=SHORT) for claim in claims]


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    below: str = ""  # a second line, small
    mark: str = ""  # "better", "worse", "same" or "": against what is published or a baseline
    bold: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table."""

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    data: pl.DataFrame  # tidy numbers, for a file
    left: int = 1  # columns of text

    @property
    def marked(self) -> bool:
        """Whether a cell is marked as better or worse."""
        return any(cell.mark in ("better", "worse") for row in self.rows for cell in row)


@dataclass(frozen=True)
class Section:
    """All that is reported of an experiment."""

    name: str
    title: str
    setup: str
    claims: Sequence[Claim] = ()
    criteria: Sequence[Claim] = ()  # this project's thresholds, which are no claims of the paper
    sheets: Sequence[Sheet] = ()
    figures: Sequence[Drawn] = ()
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    provenance: dict[str, list[str]] = field(default_factory=dict)
    tables: Tables | None = None
