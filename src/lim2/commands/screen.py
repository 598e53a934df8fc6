"""Output of commands: consoles, tables, numbers and JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from lim2.extras import MissingExtraError

ERRORS = (ValueError, OSError, MissingExtraError)  # wrong values, files, and missing extras

WIDEST = 10_000  # characters: more than any table needs

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def console() -> Console:
    """Return a console with the current width of the terminal."""
    return Console(highlight=False)


def note(text: str) -> None:
    """Print a remark to standard error."""
    Console(stderr=True, highlight=False).print(text, style="yellow", markup=False, soft_wrap=True)


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(as_plain(value), indent=indent, ensure_ascii=False, allow_nan=False))


def as_plain(value: Any) -> Any:
    """Return a value that JSON can hold: numbers that are not finite become None, unknown objects their repr.

    Examples
    --------
    >>> as_plain({"mean": np.float64("nan"), "arms": ("red", 1), 2: np.arange(2)})
    {'mean': None, 'arms': ['red', 1], '2': [0, 1]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(part) for part in value]
    return repr(value)


def show(title: str, table: Table, *remarks: str) -> None:
    """Print a title, a table, and remarks below it, which are not wrapped.

    Nothing is cut off. Without a terminal, as in a pipe, cells are not wrapped either, unless COLUMNS gives a width.
    """
    out = console()
    out.print(title, style="bold", markup=False, soft_wrap=True)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        needed = Measurement.get(out, out.options.update(width=WIDEST), table).maximum
        out.width = max(out.width, needed)
    out.print(table, crop=False)
    for text in remarks:
        out.print(text, style="dim", markup=False, soft_wrap=True)


def facts(rows: Mapping[str, Any]) -> Table:
    """Return a table with two columns, names and values."""
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, str(value))
    return table


def number(value: float | None) -> str:
    """Return a number as readable text.

    Examples
    --------
    >>> number(0.123456), number(12.0), number(1234567.0), number(None)
    ('0.1235', '12', '1.235e+06', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def moment(seconds: float) -> str:
    """Return a time as a date, in UTC.

    Examples
    --------
    >>> moment(1_800_000_000.0)
    '27-01-15 08:00:00'
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # the log may have a custom clock
        return number(seconds)


def span(seconds: float) -> str:
    """Return a duration as readable text.

    Examples
    --------
    >>> span(3.2), span(90), span(7200), span(3 * 86400)
    ('3.2 s', '1.5 min', '2 h', '3 d')
    """
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
