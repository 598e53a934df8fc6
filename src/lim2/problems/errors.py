"""Errors of dataset files."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """A file does not hold what it should.

    Parameters
    ----------
    what
        What is wrong, what was expected, and what to do.
    line
        The line, counted from 1, where one can be named.
    column
        The column, where one can be named.

    Examples
    --------
    >>> str(DataError(Path("shuttle.trn"), "'9' is not one of 1 .. 7", line=3, column="class"))
    "shuttle.trn, line 3, column class: '9' is not one of 1 .. 7"
    """

    def __init__(
        self, path: Path | str, what: str, *, line: int | None = None, column: str | int | None = None
    ) -> None:
        where = [str(path)]
        if line is not None:
            where.append(f"line {line}")
        if column is not None:
            where.append(f"column {column}")
        super().__init__(f"{', '.join(where)}: {what}")
        self.path, self.line, self.column = Path(path), line, column


class MissingDataError(FileNotFoundError):
    """A dataset's file is not on this machine."""


class FetchError(OSError):
    """A file could not be downloaded."""
