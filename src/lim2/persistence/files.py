"""Write files atomically."""

import os
import secrets
import stat
import time
from pathlib import Path

# Files that a killed process left half written are removed after this many seconds.
STALE = 3600.0


def write(path: Path, content: bytes) -> None:
    """Write a file atomically and flush it to disk; keep permissions and, if allowed, the owner of a replaced file."""
    path = path.resolve()  # a link goes on pointing to the file
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    replaced = _status(path)
    try:
        # Until it has the permissions of the file that it replaces, nobody else may read it.
        with open(os.open(part, _FLAGS, 0o666 if replaced is None else 0o600), "wb") as file:  # noqa: PTH123
            file.write(content)
            file.flush()
            if replaced is not None:
                _take_over(file.fileno(), replaced)
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)
    _remove_stale(path)


_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _take_over(opened: int, replaced: os.stat_result) -> None:
    """Copy permissions and, if allowed, the owner of a file to an open file."""
    if os.name != "posix":
        return
    current = os.fstat(opened)
    for owner, group in ((replaced.st_uid, -1), (-1, replaced.st_gid)):
        if (owner, group) not in ((current.st_uid, -1), (-1, current.st_gid)):
            try:
                os.fchown(opened, owner, group)
            except PermissionError:  # only the administrator may give files away
                continue
    os.fchmod(opened, stat.S_IMODE(replaced.st_mode))


def _sync_folder(folder: Path) -> None:
    """Flush a folder, so that a new name is on disk; only POSIX systems need this."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove_stale(path: Path) -> None:
    """Remove temporary files of processes that were killed while writing this file."""
    start = f".{path.name}."
    for entry in os.scandir(path.parent):
        if entry.name.startswith(start) and entry.name.endswith(".part"):
            try:
                if time.time() - entry.stat().st_mtime > STALE:
                    Path(entry.path).unlink()
            except FileNotFoundError:  # another process was quicker
                continue
