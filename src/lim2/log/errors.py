"""Errors of the decision log."""

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
    """The call does not fit the log."""


class LogFileError(LogError):
    """The file or database cannot be opened, read or written."""


class GoneLogError(LogFileError):
    """The log was closed, deleted or replaced while it was in use, so this call is not acknowledged."""


class StoreUnavailableError(LogFileError):
    """The database cannot be reached, or the connection was lost. The next call connects again.

    Nothing was written, unless the message says that this is unknown because the connection was lost during the commit.
    In that case repeat the call with the same ID: if the first one was written, a decision raises a TakenIdError, and a
    reward is a duplicate.

    Attributes
    ----------
    unknown
        Whether it is unknown if the data was written.
    """

    unknown = False


class LostLeaseError(LogError):
    """The lease was lost, so nothing was written."""


class TakenIdError(LogError):
    """The ID belongs to an earlier decision, which `log.get(id)` returns."""


class UnknownDecisionError(LogError):
    """The log has no decision with this ID."""


class ConflictingRewardError(LogError):
    """The decision already has a different reward."""


class PrunedLogError(LogError):
    """The events that are needed have been deleted, because of `keep`."""


def taken(id: str) -> TakenIdError:
    """Return the error for an ID that is already taken."""
    return TakenIdError(f"the id {id!r} is taken by an earlier decision: decision ids must be unique")


def file_error(path: Path, error: sqlite3.Error, label: str = "cannot be used") -> LogFileError:
    """Return SQLite's error as one that names the file and the remedy."""
    name = getattr(error, "sqlite_errorname", "") or ""
    advice = next((text for begin, text in ADVICE.items() if name.startswith(begin)), "see the error above.")
    return LogFileError(f"the log {path} {label}: {error}; {advice}")
