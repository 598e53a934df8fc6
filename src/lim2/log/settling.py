"""How decisions are settled: a reward, a default reward, or none. All within a transaction that the caller holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from lim2.checks import LARGEST, shown
from lim2.log.errors import ConflictingRewardError, UnknownDecisionError
from lim2.log.schema import TOKEN
from lim2.log.settings import read_settings
from lim2.log.slates import row_id

if TYPE_CHECKING:
    import sqlite3

Outcome = Literal["recorded", "duplicate", "late"]


def settle(file: sqlite3.Connection, events: list[tuple[float, str, int, float | None]]) -> None:
    """Append events, and point the decisions to them.

    Parameters
    ----------
    file
        The log's.
    events
        (time, kind, decision, reward)
    """
    for event in events:
        row = file.execute(
            f"INSERT INTO events (time, kind, decision, reward, token) VALUES (?, ?, ?, ?, {TOKEN})", event
        )
        file.execute("UPDATE decisions SET settled = ? WHERE seq = ?", (row.lastrowid, event[2]))


def reward_one(file: sqlite3.Connection, id: str, reward: float, now: float) -> Outcome:
    """Record a reward, unless the decision has been settled.

    Parameters
    ----------
    file
        The log's.
    id, reward
        Of the decision.
    now
        The time.
    """
    seq, settled = find(file, id)
    if settled is None:
        settle(file, [(now, "reward", seq, reward)])
        return "recorded"
    kind, known = file.execute("SELECT kind, reward FROM events WHERE position = ?", (settled,)).fetchone()
    if kind != "reward":
        file.execute("UPDATE meta SET value = value + 1 WHERE key = 'late'")
        return "late"
    if known != reward:
        raise ConflictingRewardError(
            f"decision {id!r} has the reward {known!r}, and now {reward!r} is given: a decision has one reward. "
            f"Nothing has changed."
        )
    return "duplicate"


def expire(file: sqlite3.Connection, now: float) -> int:
    """Settle what is overdue by the log's settings; return how many.

    Parameters
    ----------
    file
        The log's.
    now
        The time.
    """
    after, default = read_settings(file)
    if after is None:
        return 0
    query = "SELECT seq, time FROM decisions WHERE settled IS NULL AND time <= ? ORDER BY time, seq"
    overdue = file.execute(query, (now - after,)).fetchall()
    kind = "dropped" if default is None else "default"
    settle(file, [(made + after, kind, seq, default) for seq, made in overdue])
    return len(overdue)


def found(file: sqlite3.Connection, id: str) -> Any:
    """Return (seq, settled) of a decision, None if it is not there.

    Parameters
    ----------
    file
        The log's.
    id
        Of the decision.
    """
    return file.execute("SELECT seq, settled FROM decisions WHERE id = ?", (id,)).fetchone()


def find(file: sqlite3.Connection, id: str) -> tuple[int, int | None]:
    """Return (seq, settled) of a decision, or say that it is not there.

    Parameters
    ----------
    file
        The log's.
    id
        Of the decision.
    """
    row = found(file, id)
    if row is None:
        raise unknown(id, is_slate=found(file, row_id(id, 1)) is not None)
    return row[0], row[1]


def unknown(id: str, is_slate: bool = False) -> UnknownDecisionError:
    """Return the error for an id that is not in the log.

    Parameters
    ----------
    id
        Of a decision.
    is_slate
        Whether it is the id of a slate.
    """
    if is_slate:
        return UnknownDecisionError(
            f"{id!r} is a slate: give its rewards by position, such as {{2: 1.0}}; its decisions are "
            f"{row_id(id, 1)!r}, {row_id(id, 2)!r}, ..."
        )
    return UnknownDecisionError(
        f"no decision {id!r} is in the log: it was never recorded, or it was settled and has been deleted since (keep)"
    )


def checked_id(id: str) -> str:
    """Return an id, or say what is wrong with it.

    Parameters
    ----------
    id
        A string that is not empty.
    """
    if not isinstance(id, str) or not id:
        raise ValueError(f"an id must be a string that is not empty, got {id!r}")
    return id


def checked_reward(reward: float) -> float:
    """Return a reward as a float, or say what is wrong with it.

    Parameters
    ----------
    reward
        One number.
    """
    try:
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) < LARGEST or isinstance(reward, str):
        raise ValueError(f"a reward must be one number, finite and smaller than {LARGEST:g}, got {shown(reward)}")
    return value
