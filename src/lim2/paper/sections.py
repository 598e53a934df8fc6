"""What is reported of an experiment: claims that are checked, tables, figures, in a form that any page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from lim2.experiments.report.charts import Drawn
from lim2.experiments.tables import Tables


@dataclass(frozen=True)
class Claim:
    """What the paper says, or what is asked for here, and whether the runs show it.

    Parameters
    ----------
    text
        The claim in a sentence.
    holds
        Whether the runs show it; None where they are too few or too short, or where nothing was run that could.
    evidence
        The numbers behind the verdict.
    source
        Where the paper says it; empty for what is asked for here.
    shown
        What has the numbers, on the same page: ``"figure-NAME"``, ``"table-NAME"``.
    """

    text: str
    holds: bool | None
    evidence: str
    source: str = ""
    shown: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """A word for it, where the paper says it."""
        return {True: "reproduced", False: "not reproduced", None: "open"}[self.holds]

    @property
    def word(self) -> str:
        """A word for it, where it is asked for here."""
        return {True: "met", False: "not met", None: "open"}[self.holds]


SHORT = "not judged: these runs are shorter or fewer than the paper's"
LEAST_RUNS = 3  # of each method, to judge a claim


def judged(claims: Sequence[Claim], *, whole: bool) -> list[Claim]:
    """Return claims as they are where the experiment was carried out whole, else without a verdict.

    Parameters
    ----------
    claims
        With the verdicts that the runs would give.
    whole
        Whether the runs are as long as the paper's, and at least `LEAST_RUNS` of each method.

    Examples
    --------
    >>> [claim.verdict for claim in judged([Claim("LiM2 is best.", True, "4,800 > 4,700")], whole=False)]
    ['open']
    """
    return list(claims) if whole else [replace(claim, holds=None, evidence=SHORT) for claim in claims]


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

    @property
    def marked(self) -> bool:
        """Whether a cell is marked as better or worse."""
        return any(cell.mark in ("better", "worse") for row in self.rows for cell in row)


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
    criteria
        What is asked for here beyond that: our own thresholds, which do not count as claims of the paper.
    sheets, figures
        Its tables and figures.
    findings
        What was learned: plain sentences, from the numbers.
    notes
        What a reader should know before trusting it.
    made
        Versions and machine of the runs.
    tables
        The runs themselves, to be explored; None where there is nothing to explore.
    """

    name: str
    title: str
    setup: str
    claims: Sequence[Claim] = ()
    criteria: Sequence[Claim] = ()
    sheets: Sequence[Sheet] = ()
    figures: Sequence[Drawn] = ()
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    made: dict[str, list[str]] = field(default_factory=dict)
    tables: Tables | None = None
