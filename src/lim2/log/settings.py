"""Settings on which all who use a log must agree: they are in its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from lim2.log.errors import LogError

if TYPE_CHECKING:
    import sqlite3


class Settings(NamedTuple):
    """When decisions expire, and what they earn then; see `DecisionLog`."""

    expire_after: float | None = None
    default_reward: float | None = None

    def __str__(self) -> str:
        return f"expire_after={self.expire_after}, default_reward={self.default_reward}"


def read_settings(file: sqlite3.Connection) -> Settings:
    """Return the settings of a log; nobody has set any: decisions do not expire.

    Parameters
    ----------
    file
        The log's.
    """
    row = file.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
    return Settings() if row is None else Settings(*json.loads(row[0]))


def write_settings(file: sqlite3.Connection, settings: Settings) -> None:
    """Set them for everybody.

    Parameters
    ----------
    file
        The log's, within a transaction.
    settings
        The new ones.
    """
    file.execute("INSERT OR REPLACE INTO meta VALUES ('settings', ?)", (json.dumps(settings),))


def agree(file: sqlite3.Connection, given: Settings) -> None:
    """Set settings that nobody has set; raise LogError if somebody has set others.

    Parameters
    ----------
    file
        The log's, within a transaction.
    given
        Of one who opens it; without `expire_after`, those of the file hold.
    """
    known = read_settings(file)
    if given.expire_after is None or given == known:
        return
    if known.expire_after is not None:
        raise LogError(
            f"the log is opened with {given}, but others use it with {known}: leave these out to use it as it is, or "
            f"change them for everybody by log.configure(...)"
        )
    write_settings(file, given)
