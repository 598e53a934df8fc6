"""Find, open and fingerprint the files of datasets."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import secrets
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lim2.extras import needs
from lim2.problems.errors import DataError, MissingDataError

Folder = str | os.PathLike[str] | None

ENDINGS = ("", ".gz", ".xz")
_CHUNK = 1 << 20


def user_cache() -> Path:
    """Return the user's folder for downloads and parsed tables: `LIM2_CACHE`, else the system's choice."""
    chosen = os.environ.get("LIM2_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    with needs("the user's folder of datasets", "data"):
        import pooch  # here, because importing lim2.problems must stay light

    return Path(pooch.os_cache("lim2"))


def folders(data: Folder = None) -> list[Path]:
    """Return the folders in which datasets are looked for, the first first."""
    if data is not None:
        return [Path(data).expanduser()]
    chosen = os.environ.get("LIM2_DATA")
    return [*([Path(chosen).expanduser()] if chosen else []), user_cache() / "data"]


def find(file: str, data: Folder = None) -> Path | None:
    """Return the path of a dataset's file, plain or compressed, or None if it is nowhere."""
    for folder in folders(data):
        for ending in ENDINGS:
            path = folder / f"{file}{ending}"
            if path.is_file():
                return path
    return None


def locate(problem: str, files: Sequence[str], data: Folder = None) -> list[Path]:
    """Return the paths of all the files of a dataset, or tell which one to put where."""
    found = {file: find(file, data) for file in files}
    missing = [file for file, path in found.items() if path is None]
    if missing:
        looked = ", ".join(str(folder) for folder in folders(data))
        hint = "" if data is not None or os.environ.get("LIM2_DATA") else " LIM2_DATA is not set."
        raise MissingDataError(
            f"{problem} needs {' and '.join(missing)} (or the same with .gz or .xz), which is not in "
            f"{looked}.{hint} Download with `lim2 data fetch {problem}`, or put the file there, or name its "
            "folder in LIM2_DATA."
        )
    return [path for path in found.values() if path is not None]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressing by its ending; a truncated or damaged one is a `DataError`."""
    openers = {".gz": gzip.open, ".xz": lzma.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:  # type: ignore[operator]
            yield file
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataError(
            path, f"the compressed file is truncated or damaged ({error}); delete it and download it again"
        ) from error


@contextmanager
def plain(path: Path) -> Iterator[Path]:
    """Yield the path of the uncompressed file: the file itself, or a temporary copy.

    Parsers read from disk, so that memory never holds both the text and the table.
    """
    if path.suffix not in ENDINGS[1:]:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="lim2-") as folder:
        copy = Path(folder) / path.stem
        with opened(path) as source, copy.open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
        yield copy


def digest(path: Path, kind: str = "sha256") -> str:
    """Return a checksum of a file's content, decompressed."""
    checksum = hashlib.new(kind, usedforsecurity=False)
    with opened(path) as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    return checksum.hexdigest()


def remembered_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, from memory while its size and time of change are the same."""
    stat = path.stat()
    whole = str(path.resolve())
    state = [whole, stat.st_size, stat.st_mtime_ns]
    name = hashlib.sha256(whole.encode()).hexdigest()[:16]
    note = user_cache() / "checksums" / f"{name}.json"
    if note.is_file():
        recorded = json.loads(note.read_text())
        if recorded["state"] == state:
            return str(recorded["sha256"])
    found = digest(path)
    note.parent.mkdir(parents=True, exist_ok=True)
    write_whole(note, json.dumps({"state": state, "sha256": found}).encode())
    return found


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that another process sees either all of it or the one before."""
    with unfinished(path) as part:
        part.write_bytes(content)


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Yield a path to write to, and move the file to `path` on success."""
    # Not mkstemp: its files are closed to everybody else, and a cache beside shared data is to be shared.
    part = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def writable(folder: Path) -> bool:
    """Return whether a folder is writable.

    A folder whose permissions allow writing to nobody was made so on purpose. The system lets root write
    there all the same; lim2 does not.
    """
    return os.access(folder, os.W_OK | os.X_OK) and bool(folder.stat().st_mode & 0o222)
