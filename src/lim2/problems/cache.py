"""Parsing once: tables are kept as Arrow columns, named by the checksum of the files they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lim2.problems.facts import Facts
from lim2.problems.files import (
    Folder,
    locate,
    remembered_sha256,
    unfinished,
    user_cache,
    writable,
)
from lim2.problems.sources import SOURCES

if TYPE_CHECKING:
    import polars as pl

Parser = Callable[[Sequence[Path]], "pl.DataFrame"]

# Part of the name of every kept table: a change in any parser makes it a new one.
FORMAT = 2
FOLDER = ".lim2-cache"


@dataclass(frozen=True)
class Table:
    """A parsed dataset."""

    codes: pl.DataFrame  # values of a fixed set as their numbers, which are read much faster
    schema: pl.DataFrame  # no rows; the true types of the columns, Enum for a fixed set of values
    paths: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pl.DataFrame, paths: tuple[Path, ...] = (), notes: tuple[str, ...] = ()) -> Table:
        """Return the table of a frame."""
        import polars as pl

        return cls(frame.with_columns(pl.col(pl.Enum).to_physical()), frame.clear(), paths, notes)

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.codes.height

    def take(self, rows: NDArray[np.int64] | None = None) -> pl.DataFrame:
        """Return some rows, or all, with columns of their true types."""
        import polars as pl

        drawn = self.codes if rows is None else self.codes[rows]
        return drawn.with_columns(
            dtype.categories.gather(drawn[name]).cast(dtype).alias(name)
            for name, dtype in self.schema.schema.items()
            if isinstance(dtype, pl.Enum)
        )


def parsed(
    name: str,
    facts: Facts,
    parse: Parser,
    *,
    data: Folder = None,
    verify: bool = True,
    files: Sequence[str] | None = None,
    again: bool = False,
) -> Table:
    """Return a dataset's table, parsed now or before."""
    files = facts.files if files is None else files
    paths = locate(name, files, data)
    sums = [remembered_sha256(path) for path in paths]
    key = hashlib.sha256(" ".join([str(FORMAT), *sums]).encode()).hexdigest()[:16]
    places = [folder / f"{name}-{key}.arrow" for folder in cache_folders(paths[0])]
    table = None if again else _first_readable(places)
    if table is None:
        table = Table.of(parse(paths))
        _store(table, places[0])
    notes = _identify(facts, table.codes, files, paths, sums, verify=verify)
    return replace(table, paths=tuple(paths), notes=notes)


def cache_folders(path: Path) -> list[Path]:
    """Return the folders for a cached table: that of the file if writable, and the user's cache."""
    beside = [path.parent / FOLDER] if writable(path.parent) else []
    return [*beside, user_cache() / "parsed"]


def _first_readable(places: Sequence[Path]) -> Table | None:
    import polars as pl

    for path in places:
        if path.is_file():
            try:
                return Table(pl.read_ipc(path), pl.read_ipc(_schema_of(path)))
            except (pl.exceptions.PolarsError, FileNotFoundError):
                continue  # a damaged table is as good as none: the source is there to be parsed again
    return None


def _schema_of(place: Path) -> Path:
    return place.with_suffix(".schema.arrow")


def _store(table: Table, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # The types first: a table that is there can then always be read.
    for frame, path in ((table.schema, _schema_of(place)), (table.codes, place)):
        with unfinished(path) as part:
            frame.write_ipc(part)


def _identify(
    facts: Facts,
    frame: pl.DataFrame,
    files: Sequence[str],
    paths: Sequence[Path],
    sums: Sequence[str],
    *,
    verify: bool,
) -> tuple[str, ...]:
    """Return notes on contents that are not the published ones; unknown ones are checked, or refused."""
    notes = []
    for file, path, digest in zip(files, paths, sums, strict=True):
        source = SOURCES.get(file)
        note = source.note(digest) if source else None
        if note is None and verify:
            if source is not None and source.sha256 is not None:
                raise source.difference(path)
            facts.check(frame, path)
            continue
        if note is None:
            notes.append(f"{path.name} is not a known file (SHA-256 {digest[:16]}...); used as it is")
        elif note:
            notes.append(f"{path.name}: {note}")
    return tuple(notes)
