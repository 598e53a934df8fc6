"""Reading ARFF, the format of OpenML's files: numbers, names, text and dates; dense or sparse; `?` is missing.

SciPy's reader refuses text and sparse files, which OpenML has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.errors import DataError
from lim2.problems.files import opened

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["numeric", "nominal", "string", "date"]

KINDS: dict[str, Kind] = {
    "numeric": "numeric", "real": "numeric", "integer": "numeric", "string": "string", "date": "date",
}  # fmt: skip

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_FIELD = re.compile(rf"\s*({_QUOTED}|[^,]*?)\s*(,|$)")
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|\S+)\s+(.+)", re.IGNORECASE)
_CELL = re.compile(rf"\s*(\d+)\s+({_QUOTED}|[^,]*?)\s*(,|$)")
_ESCAPE = re.compile(r"\\(.)")
_SPECIAL = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Attribute:
    """A column of an ARFF file."""

    name: str
    kind: Kind
    values: tuple[str, ...] = ()  # of a nominal column

    @property
    def zero(self) -> str | None:
        """Default value of a sparse row: 0, or the first name."""
        return self.values[0] if self.kind == "nominal" else "0" if self.kind == "numeric" else None


def read_arff(path: Path) -> tuple[pl.DataFrame, tuple[Attribute, ...]]:
    """Return the table of an ARFF file, and its columns.

    Columns of numbers are Float64, all others text; missing values are null.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "weather.arff")
    >>> _ = path.write_text('''@relation weather
    ... @attribute wind numeric
    ... @attribute 'the sky' {sunny, 'very grey'}
    ... @data
    ... 3.5, sunny
    ... ?, 'very grey'
    ... ''')
    >>> table, columns = read_arff(path)
    >>> table.rows()
    [(3.5, 'sunny'), (None, 'very grey')]
    >>> columns[1].name, columns[1].values
    ('the sky', ('sunny', 'very grey'))
    """
    import polars as pl

    with opened(path) as file:
        content = file.read()
    lines = content.decode("utf-8", errors="replace").split("\n")
    attributes, first = _header(path, lines)
    body = b"\n".join(content.split(b"\n")[first:])
    simple = not any(mark in body for mark in (b"'", b'"', b"{", b"%", b"\\"))
    text = _quickly(body, attributes) if simple else None
    if text is None:  # with quotes, sparse, or with a fault that is to be named
        rows = list(_rows(path, lines, first, attributes))
        columns = zip(*rows, strict=True) if rows else ([] for _ in attributes)
        text = pl.DataFrame(
            [pl.Series(a.name, list(column), dtype=pl.String) for a, column in zip(attributes, columns, strict=True)]
        )
    if text.height == 0:
        raise DataError(path, "there are no rows after @data", line=first)
    return pl.DataFrame([_typed(path, text[a.name], a) for a in attributes]), attributes


def _header(path: Path, lines: Sequence[str]) -> tuple[tuple[Attribute, ...], int]:
    """Return the columns, and the number of lines up to and including ``@data``."""
    attributes: list[Attribute] = []
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        word = line.split(None, 1)[0].lower() if line else ""
        if word == "@attribute":
            attribute = _attribute(path, line, number)
            if any(attribute.name == other.name for other in attributes):
                raise DataError(path, f"two columns are called {attribute.name!r}", line=number)
            attributes.append(attribute)
        elif word == "@data":
            if not attributes:
                raise DataError(path, "@data comes before any @attribute", line=number)
            return tuple(attributes), number
        elif line and not line.startswith("%") and word != "@relation":
            raise DataError(path, f"expected @attribute, @data or a comment, not {line[:40]!r}", line=number)
    raise DataError(path, "there is no line @data: the file is truncated, or is not ARFF", line=len(lines))


def _attribute(path: Path, line: str, number: int) -> Attribute:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise DataError(path, f"expected @attribute NAME TYPE, not {line[:40]!r}", line=number)
    name, kind = _plain(match[1]), match[2].strip()
    if kind.startswith("{"):
        inside, brace, _ = kind[1:].rpartition("}")
        values = _fields(inside) if brace else None
        if not values or values == [""]:
            raise DataError(path, f"the values of {name!r} are not {{one, two, ...}}", line=number)
        return Attribute(name, "nominal", tuple("?" if value is None else value for value in values))
    word = kind.split(None, 1)[0].lower()
    if word not in KINDS:
        raise DataError(path, f"{name!r} is of the unknown type {word!r}; known: {', '.join(KINDS)}", line=number)
    return Attribute(name, KINDS[word])


def _plain(field: str) -> str:
    r"""Return a field without its quotes and escapes.

    >>> _plain(r"'it\'s'"), _plain("bare")
    ("it's", 'bare')
    """
    if len(field) > 1 and field[0] in "'\"" and field[-1] == field[0]:
        return _ESCAPE.sub(lambda match: _SPECIAL.get(match[1], match[1]), field[1:-1])
    return field


def _fields(line: str) -> list[str | None] | None:
    """Return the fields of a line, None for a missing one; None where it cannot be read.

    >>> _fields("1, 'a, b' ,?, '?'")
    ['1', 'a, b', None, '?']
    """
    if "'" not in line and '"' not in line:
        return [None if field == "?" else field for field in map(str.strip, line.split(","))]
    fields: list[str | None] = []
    at = 0
    while True:
        match = _FIELD.match(line, at)
        if match is None:
            return None
        fields.append(None if match[1] == "?" else _plain(match[1]))
        if not match[2]:
            return fields
        at = match.end()


def _sparse(line: str, attributes: Sequence[Attribute]) -> list[str | None] | None:
    """Return the fields of a row such as ``{0 5.1, 3 yes}``; None where it cannot be read."""
    fields = [attribute.zero for attribute in attributes]
    inside, brace, _ = line[1:].rpartition("}")
    if not brace:
        return None
    at = 0
    while inside.strip() and at < len(inside):
        match = _CELL.match(inside, at)
        if match is None or int(match[1]) >= len(fields):
            return None
        fields[int(match[1])] = None if match[2] == "?" else _plain(match[2])
        at = match.end()
    return fields


def _rows(path: Path, lines: Sequence[str], first: int, attributes: Sequence[Attribute]) -> Iterator[list[str | None]]:
    for number, line in enumerate(lines[first:], start=first + 1):
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        fields = _sparse(line, attributes) if line.startswith("{") else _fields(line)
        if fields is None:
            raise DataError(path, f"the row cannot be read: {line[:60]!r}", line=number)
        if len(fields) != len(attributes):
            raise DataError(path, f"{len(fields)} fields, but there are {len(attributes)} columns", line=number)
        yield fields


def _quickly(body: bytes, attributes: Sequence[Attribute]) -> pl.DataFrame | None:
    """Read rows without quotes as text; None where something is wrong with them."""
    import polars as pl

    schema = {attribute.name: pl.String() for attribute in attributes}
    rows = [line for line in body.split(b"\n") if line.strip()]
    if not rows or any(line.count(b",") != len(attributes) - 1 for line in rows):
        return None
    frame = pl.read_csv(BytesIO(b"\n".join(rows)), has_header=False, schema=schema, quote_char=None)
    stripped = frame.with_columns(pl.all().str.strip_chars())
    return stripped.with_columns(pl.when(pl.all() != "?").then(pl.all()))


def _typed(path: Path, column: pl.Series, attribute: Attribute) -> pl.Series:
    import polars as pl

    if attribute.kind == "numeric":
        numbers = column.cast(pl.Float64, strict=False)
        wrong = (numbers.is_null() & column.is_not_null()).arg_true()
        expected = "a number"
        typed = numbers.fill_nan(None)
    else:
        known = attribute.kind != "nominal"
        wrong = pl.Series([], dtype=pl.UInt32) if known else (~column.is_in(list(attribute.values))).arg_true()
        expected = f"one of {', '.join(attribute.values[:10])}"
        typed = column
    if len(wrong):
        row = int(wrong[0])
        raise DataError(path, f"{column[row]!r} in row {row + 1} after @data is not {expected}", column=attribute.name)
    return typed
