"""What is documented of each dataset (the table `datasets/facts.toml`), and the check of a file's rows against it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lim2.problems.errors import DataError

if TYPE_CHECKING:
    import polars as pl

LABEL = "label"


@dataclass(frozen=True)
class Rows:
    """Number of rows of a source, in total and per class."""

    rows: int  # after those that are dropped
    balance: tuple[int, ...] = ()  # rows of each class, in the order of the arms


@dataclass(frozen=True)
class Facts:
    """Documented properties of a dataset."""

    title: str  # in the paper's tables
    files: tuple[str, ...]
    n_features: int
    n_arms: int
    paper_features: str  # the size of a context in the paper's table
    published: Rows | None  # None where that is not known
    preprocessing: str
    copies: tuple[Rows, ...] = ()  # other contents that are known
    difference: str = ""  # why n_features is not the paper's
    features_vary: bool = False  # with the part of the published file that is there
    alternatives: tuple[tuple[str, ...], ...] = ()  # other sets of files that it may be read from
    splits: Mapping[str, str] = field(default_factory=dict)  # the file of a value of the setting `split`
    n_item_features: int | None = None  # where the arms are items; n_arms is then the largest number of candidates
    n_rounds: int | None = None  # None: the number of rows

    @property
    def most_rounds(self) -> int | None:
        """Number of rounds without repetition; None if unknown."""
        if self.n_rounds is not None or self.published is None:
            return self.n_rounds
        return self.published.rows

    def check(self, frame: pl.DataFrame, path: Path) -> None:
        """Raise a `DataError` unless rows and classes are as documented."""
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
    """Return the number of rows of each class as text; empty without classes."""
    if LABEL not in frame.columns:
        return ()
    counts: dict[int, int] = dict(frame[LABEL].value_counts().iter_rows())
    return tuple(counts.get(arm, 0) for arm in range(n_arms))


def described(counts: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return class counts as a short text.

    Examples
    --------
    >>> described([3, 1000], ["no", "yes"])
    'no 3, yes 1,000'
    """
    if not names:
        return " / ".join(f"{count:,}" for count in counts)
    return ", ".join(f"{name} {count:,}" for name, count in zip(names, counts, strict=True))


def _facts(entry: dict[str, Any]) -> Facts:
    def rows(counts: Sequence[int]) -> Rows:
        return Rows(counts[0], tuple(counts[1:]))

    entry |= {"published": rows(entry["published"]), "files": tuple(entry["files"])}
    entry["copies"] = tuple(map(rows, entry.get("copies", ())))
    entry["alternatives"] = tuple(map(tuple, entry.get("alternatives", ())))
    return Facts(**{"paper_features": "", **entry})


_TABLE = Path(__file__).parent / "datasets" / "facts.toml"
FACTS = {name: _facts(entry) for name, entry in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items()}
