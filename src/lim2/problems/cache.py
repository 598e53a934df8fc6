"""Parsing once: tables are kept as Arrow columns, named by the checksum of the files they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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

Parser = Callable[[list[Path]], "pl.DataFrame"]

# Part of the name of every kept table: a change in any parser makes it a new one.
FORMAT = 1
FOLDER = ".lim2-cache"


@dataclass(frozen=True)
class Table:
    """A parsed dataset.

    Parameters
    ----------
    frame
        Its columns, read from disk only as far as they are used.
    paths
        The files it came from.
    notes
        What is unusual about them.
    """

    frame: pl.DataFrame
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


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
    """Return a dataset's table, parsed now or before.

    Parameters
    ----------
    name
        The problem.
    facts
        What is documented of it.
    parse
        Makes the table from the files' paths, which may be compressed.
    data
        The folder with the files; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether contents that are not the published ones, nor known otherwise, are an error.
    files
        The files to read; None for those of `facts`.
    again
        Parse even if a kept table is there.
    """
    files = facts.files if files is None else files
    paths = locate(name, files, data)
    sums = [remembered_sha256(path) for path in paths]
    key = hashlib.sha256(" ".join([str(FORMAT), *sums]).encode()).hexdigest()[:16]
    kept = [folder / f"{name}-{key}.arrow" for folder in cache_folders(paths[0])]
    frame = None if again else _first_kept(kept)
    if frame is None:
        frame = parse(paths)
        _keep(frame, kept)
    return Table(frame, tuple(paths), _identify(facts, frame, files, paths, sums, verify=verify))


def cache_folders(path: Path) -> list[Path]:
    """Return where a file's table may be kept: beside it if that is writable, and the user's cache.

    Parameters
    ----------
    path
        A dataset's file.
    """
    beside = [path.parent / FOLDER] if writable(path.parent) else []
    return [*beside, user_cache() / "parsed"]


def _first_kept(places: Sequence[Path]) -> pl.DataFrame | None:
    import polars as pl

    for path in places:
        if path.is_file():
            try:
                return pl.read_ipc(path)
            except pl.exceptions.PolarsError:
                continue  # a damaged table is as good as none: the source is there to be parsed again
    return None


def _keep(frame: pl.DataFrame, places: Sequence[Path]) -> None:
    place = places[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(place) as part:
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
