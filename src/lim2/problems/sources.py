"""Where the files of the datasets come from, their licences and checksums: the table is `sources.toml`."""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lim2.problems.errors import DataError
from lim2.problems.files import opened


@dataclass(frozen=True)
class Remote:
    """One place from which a file can be had."""

    url: str
    members: tuple[str, ...] = ()  # for a .zip: name of the file in it, or path through nested zips


@dataclass(frozen=True)
class Source:
    """One file of a dataset."""

    file: str  # without .gz or .xz
    page: str
    licence: str
    size: int | None = None  # bytes, uncompressed
    sha256: str | None = None  # uncompressed; None if unknown: rows and classes are then checked
    md5: str | None = None  # where a publisher gives this one
    marks: str = ""  # CRC-32 of its first 1, 4, 16, 64 ... lines: they tell where a changed file starts to differ
    copies: Mapping[str, str] = field(default_factory=dict)  # other known contents by SHA-256
    mirrors: tuple[Remote, ...] = ()  # empty if a download needs an account or was never published

    def note(self, sha256: str) -> str | None:
        """Return a description of known content of this file: "" for the published one, None if unknown."""
        return "" if sha256 == self.sha256 else self.copies.get(sha256)

    def difference(self, path: Path) -> DataError:
        """Return the error for a file that is not the published one, naming the lines where they part."""
        crc, lines, agreed = 0, 0, 0
        marks = [int(mark, 16) for mark in self.marks.split()]
        expected = {4**k: mark for k, mark in enumerate(marks)}
        parted: int | None = None
        with opened(path) as file:
            for line in file:
                crc = zlib.crc32(line, crc)
                lines += 1
                if parted is None and lines in expected:
                    if crc == expected[lines]:
                        agreed = lines
                    else:
                        parted = lines
        last = parted if parted is not None else lines
        return DataError(
            path,
            f"the file is not the published {self.file}: it starts to differ between lines {agreed + 1} and "
            f"{last} "
            "(rows reordered, missing, added or changed). Download it again, or pass verify=False to use it "
            "as it is",
            line=agreed + 1,
        )


def _read(text: str) -> dict[str, Source]:
    """Return the sources of the table `sources.toml`, by file."""
    table = tomllib.loads(text)
    mirrors = {
        file: tuple(Remote(url, tuple(members)) for url, *members in e.pop("mirrors", ())) for file, e in table.items()
    }
    return {file: Source(file, mirrors=mirrors[file], **entry) for file, entry in table.items()}


SOURCES = _read(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
