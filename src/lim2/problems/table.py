"""Strict reading of tables with a declared layout; errors name line and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.errors import DataError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Column:
    """Expected content of a column."""

    name: str
    kind: Literal["int", "float", "text"] = "float"
    low: float = -math.inf
    high: float = math.inf
    values: tuple[str, ...] | None = None  # the only values allowed, as written in the file
    missing: str | None = None  # text that stands for a missing value; None: values must not be missing
    role: Literal["number", "category", "label", "unused"] = "number"

    @property
    def may_be_empty(self) -> bool:
        """Whether polars reports no fault where a line ends before this column."""
        return self.missing is not None or (self.kind == "text" and self.values is None)

    def complaint(self, field: str) -> str | None:
        """Return the error of one field of a file, or None.

        Examples
        --------
        >>> Column("class", "int", 1, 7).complaint("9")
        "'9' is not in 1 .. 7"
        >>> Column("class", "int", 1, 7).complaint("3") is None
        True
        """
        if self.missing is not None and field == self.missing:
            return None
        if self.values is not None:
            return None if field in self.values else f"{field!r} is not one of {', '.join(self.values)}"
        if self.kind == "text":
            return None
        try:
            number = int(field) if self.kind == "int" else float(field)
        except ValueError:
            return f"{field!r} is not a {'whole number' if self.kind == 'int' else 'number'}"
        if not math.isfinite(number):
            return f"{field!r} is not a finite number"
        if not self.low <= number <= self.high:
            return f"{field!r} is not in {self.low:g} .. {self.high:g}"
        return None


@dataclass(frozen=True)
class Layout:
    """Layout of a file."""

    columns: tuple[Column, ...]
    separator: str = ","
    header: bool = False
    skip: int = 0  # lines before the header
    spaces: bool = False  # whether fields have spaces around them

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]


def read(path: Path, layout: Layout, *, shown: Path | None = None) -> pl.DataFrame:
    """Read a text file as a table; anything that the layout doesn't allow is a `DataError`."""
    import polars as pl

    shown = shown or path
    if path.stat().st_size == 0:
        raise DataError(shown, f"the file is empty; expected {len(layout.columns)} columns. Download it again", line=1)
    if layout.header:
        _check_header(path, layout, shown)
    if layout.columns[-1].may_be_empty:
        _check_counts(path, layout, shown)
    try:
        frame = pl.read_csv(
            path,
            has_header=False,
            skip_rows=layout.skip + layout.header,
            separator=layout.separator,
            schema=_schema(layout),
            null_values=_null_values(layout),
            # With fewer rows in hand at a time, the largest file stays far below the memory that is allowed.
            low_memory=True,
        )
        frame = _tidied(frame, layout)
        fault = not _allowed(frame, layout)
    except pl.exceptions.PolarsError as error:
        _blame(path, layout, shown)
        raise DataError(shown, f"the file cannot be read as a table: {error}") from error
    if fault:
        _blame(path, layout, shown)
        raise DataError(shown, "the file holds something that its layout does not allow")
    return frame


def _schema(layout: Layout) -> dict[str, pl.DataType]:
    import polars as pl

    if layout.spaces:
        return {column.name: pl.String() for column in layout.columns}
    return {column.name: _dtype(column) for column in layout.columns}


def _dtype(column: Column) -> pl.DataType:
    import polars as pl

    if column.kind == "int":
        # Bounds keep the largest file small in memory; what exceeds them doesn't parse, and is then named.
        small = column.low >= -(2**15) and column.high < 2**15
        return pl.Int16() if small else pl.Int64()
    return pl.Float64() if column.kind == "float" else pl.String()


def _null_values(layout: Layout) -> dict[str, str] | None:
    if layout.spaces:
        return None
    marks = {column.name: column.missing for column in layout.columns if column.missing is not None}
    return marks or None


def _tidied(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    import polars as pl

    if not layout.spaces:
        # Free text may be empty; polars calls that missing.
        free = [c.name for c in layout.columns if c.kind == "text" and c.values is None and c.missing is None]
        return frame.with_columns(pl.col(free).fill_null("")) if free else frame
    # Blank lines, such as the last one of adult.data, come as rows whose first field alone is there.
    frame = frame.with_columns(pl.all().str.strip_chars())
    first, second = layout.names[:2]
    frame = frame.filter(~((pl.col(first).fill_null("") == "") & (pl.col(second).fill_null("") == "")))
    kinds = {"int": pl.Int64, "float": pl.Float64, "text": pl.String}
    return frame.with_columns(
        (
            pl.col(c.name)
            if c.missing is None
            else pl.when(pl.col(c.name) != c.missing).then(pl.col(c.name)).otherwise(None)
        ).cast(kinds[c.kind])
        for c in layout.columns
    )


def _allowed(frame: pl.DataFrame, layout: Layout) -> bool:
    """Return whether every value is allowed, for all columns at once, because checking line by line takes minutes."""
    import polars as pl

    if frame.height == 0:
        return False
    checks = []
    for c in layout.columns:
        column = pl.col(c.name)
        if c.missing is None:
            checks.append(column.is_not_null().all())
        if c.values is not None:
            checks.append(column.cast(pl.String).is_in(list(c.values)).all())
        if c.kind == "float":
            checks.append(column.is_finite().all())
        if c.kind != "text" and (math.isfinite(c.low) or math.isfinite(c.high)):
            checks.append(column.is_between(c.low, c.high).all())
    return all(frame.select(check.alias(str(i)) for i, check in enumerate(checks)).row(0))


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with every whole number in the smallest type that holds its column."""
    whole = {name for name, dtype in frame.schema.items() if dtype.is_integer()}
    return frame.with_columns(column.shrink_dtype() for column in frame.iter_columns() if column.name in whole)


def coded(frame: pl.DataFrame, column: str, values: Sequence[str]) -> pl.DataFrame:
    """Return a table with one column as the type Enum of the given values."""
    import polars as pl

    return frame.with_columns(pl.col(column).cast(pl.String).cast(pl.Enum(list(values))))


def occurring(frame: pl.DataFrame, column: str) -> list[str]:
    """Return the values that a column has anywhere, in order: numbers as numbers, text as text."""
    return [str(value) for value in frame[column].drop_nulls().unique().sort()]


def _check_header(path: Path, layout: Layout, shown: Path) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for _ in range(layout.skip):
            file.readline()
        found = next(csv.reader([file.readline()], delimiter=layout.separator), [])
    compare_names(found, layout.names, shown, line=layout.skip + 1)


def compare_names(found: Sequence[str], expected: Sequence[str], shown: Path, *, line: int) -> None:
    """Raise a `DataError` that names the first column which is not the expected one."""
    for number, (name, wanted) in enumerate(zip(found, expected, strict=False), start=1):
        if name.strip() != wanted:
            raise DataError(
                shown,
                f"the header has {name.strip()!r} where {wanted!r} belongs; the columns are reordered, or "
                "this is another file",
                line=line,
                column=number,
            )
    if len(found) != len(expected):
        raise DataError(
            shown,
            f"the header has {len(found)} columns, expected {len(expected)}; download the file again",
            line=line,
        )


def _check_counts(path: Path, layout: Layout, shown: Path) -> None:
    """Raise an error for the first line that has too few or too many fields."""
    for line, fields in _lines(path, layout):
        if len(fields) != len(layout.columns):
            raise DataError(
                shown,
                f"{len(fields)} fields, expected {len(layout.columns)}; the file is truncated or damaged "
                "here. Download it again",
                line=line,
            )


def _blame(path: Path, layout: Layout, shown: Path) -> None:
    """Raise the error for the first line at fault. Slow, and therefore only run once a fault is known."""
    rows = 0
    for line, fields in _lines(path, layout):
        rows += 1
        if len(fields) != len(layout.columns):
            _check_counts(path, layout, shown)
        for column, field in zip(layout.columns, fields, strict=True):
            complaint = column.complaint(field.strip() if layout.spaces else field)
            if complaint:
                raise DataError(
                    shown,
                    f"{complaint}; the file is damaged or its columns are reordered",
                    line=line,
                    column=column.name,
                )
    if rows == 0:
        first = layout.skip + layout.header
        raise DataError(shown, "no rows follow; the file is truncated. Download it again", line=first + 1)


def _lines(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Go through the rows of a file; a row whose fields hold line breaks has the number of its last line."""
    first = layout.skip + layout.header
    # Bytes that are no text must not hide the line which they are in.
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for _ in range(first):
            file.readline()
        reader = csv.reader(file, delimiter=layout.separator)
        for fields in reader:
            if any(field.strip() for field in fields):
                yield first + reader.line_num, fields
