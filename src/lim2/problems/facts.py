"""Documented properties of a dataset, and the check of a table against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lim2.problems.errors import DataError

if TYPE_CHECKING:
    import polars as pl

LABEL = "label"


@dataclass(frozen=True)
class Rows:
    """Number of rows of a source, in total and per class.

    Parameters
    ----------
    rows
        The number of rows after those that are dropped.
    balance
        The number of rows of each arm's class, in the order of the arms; empty where there are no classes.
    """

    rows: int
    balance: tuple[int, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Documented properties of a dataset.

    Parameters
    ----------
    title
        Name in the paper's tables.
    files
        The files it is read from; the details are in `lim2.problems.sources`.
    n_features, n_arms
        The size of a context and the number of arms, as loaded by default.
    paper_features
        The size of a context in the paper's table.
    published
        Rows and classes of the published files; None where that is not known.
    copies
        Rows and classes of other contents that are known.
    preprocessing
        Preprocessing from the files to contexts and rewards.
    difference
        Why `n_features` is not the paper's.
    features_vary
        Whether the size of a context depends on which part of the published file is there.
    alternatives
        Other sets of files that it may be read from.
    n_item_features
        The size of an item, where the arms are items; `n_arms` is then the largest number of candidates.
    n_rounds
        Number of rounds in the published files; None: the number of rows.
    """

    title: str
    files: tuple[str, ...]
    n_features: int
    n_arms: int
    paper_features: str
    published: Rows | None
    preprocessing: str
    copies: tuple[Rows, ...] = ()
    difference: str = ""
    features_vary: bool = False
    alternatives: tuple[tuple[str, ...], ...] = ()
    n_item_features: int | None = None
    n_rounds: int | None = None

    @property
    def most_rounds(self) -> int | None:
        """Number of rounds without repetition; None if unknown."""
        if self.n_rounds is not None or self.published is None:
            return self.n_rounds
        return self.published.rows

    def check(self, frame: pl.DataFrame, path: Path) -> None:
        """Raise a `DataError` unless rows and classes are as documented.

        Parameters
        ----------
        frame
            The parsed table.
        path
            The file to name.
        """
        known = [rows for rows in (self.published, *self.copies) if rows is not None]
        found = Rows(frame.height, balance(frame, self.n_arms))
        if not known or any(_agree(found, rows) for rows in known):
            return
        hint = "Download the file again, or pass verify=False to use it as it is"
        if all(found.rows != rows.rows for rows in known):
            documented = " or ".join(str(rows.rows) for rows in known)
            raise DataError(
                path,
                f"the file ends after {found.rows} rows, documented are {documented}; it is truncated, or "
                f"only a part. {hint}",
                line=found.rows + 1,
            )
        raise DataError(
            path,
            f"the classes have {list(found.balance)} rows, documented are {list(known[0].balance)}; the "
            f"labels are not the published ones. {hint}",
            column=LABEL,
        )


def _agree(found: Rows, documented: Rows) -> bool:
    return found.rows == documented.rows and documented.balance in ((), found.balance)


def balance(frame: pl.DataFrame, n_arms: int) -> tuple[int, ...]:
    """Return the number of rows of each class as text; empty without classes.

    Parameters
    ----------
    frame
        A table, with or without a column of labels 0 .. n_arms - 1.
    n_arms
        The number of classes.
    """
    if LABEL not in frame.columns:
        return ()
    counts: dict[int, int] = dict(frame[LABEL].value_counts().iter_rows())
    return tuple(counts.get(arm, 0) for arm in range(n_arms))


def described(counts: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return class counts as a short text.

    Parameters
    ----------
    counts
        Rows of each class.
    names
        The classes.

    Examples
    --------
    >>> described([3, 1000], ["no", "yes"])
    'no 3, yes 1,000'
    """
    if not names:
        return " / ".join(f"{count:,}" for count in counts)
    return ", ".join(f"{name} {count:,}" for name, count in zip(names, counts, strict=True))
