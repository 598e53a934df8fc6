"""What goes wrong with a decision log, said so that it can be put right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

# What to do about SQLite's errors, by how their names begin.
ADVICE = {
    "SQLITE_FULL": "the disk is full. Make room, and call again: nothing of this call was written.",
    "SQLITE_CORRUPT": "the file is damaged. Go on with a backup (log.backup), or save what `sqlite3 .recover` finds.",
    "SQLITE_NOTADB": "the file is no SQLite database, or damaged. Give another path, or go on with a backup.",
    "SQLITE_READONLY": "it is read-only: read_only=True opens a log to evaluate and to replay, not to write.",
    "SQLITE_CANTOPEN": "the file or its folder is not there, or may not be read or written. read_only=True opens a log "
    "that may only be read.",
    "SQLITE_BUSY": "another process has written for a minute. Look for one that hangs, and call again.",
    "SQLITE_LOCKED": "another process has written for a minute. Look for one that hangs, and call again.",
    "SQLITE_IOERR": "the disk failed. Look at it, and call again: nothing of this call was written.",
}


class LogError(ValueError):
    """The log and what was asked of it do not go together."""


class LogFileError(LogError):
    """The file cannot be opened, read or written."""


class TakenIdError(LogError):
    """An id belongs to an earlier decision. `log.get(id)` returns that."""


class UnknownDecisionError(LogError):
    """No decision of this id is in the log."""


class ConflictingRewardError(LogError):
    """A decision that has a reward was given a different one."""


class PrunedLogError(LogError):
    """What is needed has been deleted, as `keep` said."""


def file_error(path: Path, error: sqlite3.Error, what: str = "cannot be used") -> LogFileError:
    """Return SQLite's error as one that names the file and says what to do.

    Parameters
    ----------
    path
        The log's file.
    error
        What SQLite has raised.
    what
        What cannot be done.
    """
    name = getattr(error, "sqlite_errorname", "") or ""
    advice = next((text for begin, text in ADVICE.items() if name.startswith(begin)), "see the error above.")
    return LogFileError(f"the log {path} {what}: {error}; {advice}")
