"""The content of a log as SQL, within a transaction that the caller holds."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Sequence
from typing import Any

from lim2.log.entries import COLUMNS
from lim2.log.errors import taken
from lim2.log.sqlite.schema import TOKEN
from lim2.log.store import Event, Found, Model, Row, Stored, Which, rivals

_N = len(COLUMNS.split(", "))
_OF_DECISION = ", ".join(f"d.{column}" for column in COLUMNS.split(", "))
_AT_ONCE = 32  # decisions in one statement
_STORED = (
    f"SELECT d.seq, d.position, coalesce(e.kind, 'pending'), e.reward, {_OF_DECISION} FROM decisions d "
    "LEFT JOIN events e ON e.position = d.settled"
)
_WHICH = {
    "pending": "d.settled IS NULL",
    "rewarded": "d.slot <= 1 AND coalesce(e.kind, '') IN ('reward', 'default')",
    "all": "d.slot <= 1",
}
_MODELS_KEPT = 2


class SQLiteTables:
    """A connection that is in a transaction; see `lim2.log.store.Tables` for what the methods do.

    Between `expect` and `flush`, decisions are kept back until something else is done, and are then written by one
    statement: each one lets other threads of Python run, and has to wait for them afterwards.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._kept: list[Sequence[Any]] | None = None  # None: nothing is kept back

    def _execute(self, query: str, values: Sequence[Any]) -> sqlite3.Cursor:
        if self._kept:
            self._write_kept(self._kept)
        return self.connection.execute(query, values)

    def _one(self, query: str, *values: Any) -> Any:
        return self._execute(query, values).fetchone()

    def _all(self, query: str, *values: Any) -> list[Any]:
        return self._execute(query, values).fetchall()

    def begin(self) -> None:
        """Keep nothing back, whatever became of the transaction before."""
        self._kept = None

    def expect(self, ids: Sequence[str]) -> None:  # noqa: ARG002
        """Keep decisions back from now on; read nothing in advance."""
        self._kept = []

    def flush(self) -> None:
        """Write what is kept back, and keep back no more."""
        if self._kept:
            self._write_kept(self._kept)
        self._kept = None

    def _write_kept(self, rows: list[Sequence[Any]]) -> None:
        self._kept = []
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            self.connection.execute(_insert(len(some)), [value for row in some for value in row])

    # What belongs to the whole log

    def get(self, name: str) -> Any:  # noqa: D102
        row = self._one("SELECT value FROM meta WHERE key = ?", name)
        return None if row is None else row[0]

    def put(self, name: str, value: Any) -> None:  # noqa: D102
        if value is None:
            self._one("DELETE FROM meta WHERE key = ?", name)
        else:
            self._one("INSERT OR REPLACE INTO meta VALUES (?, ?)", name, value)

    def counts(self) -> dict[str, int]:  # noqa: D102
        rows = self._all("SELECT key, value FROM meta WHERE key LIKE 'count %'")
        return {key.removeprefix("count "): value for key, value in rows}

    # Decisions

    def insert(self, row: Row, position: int, name: str | None = None) -> None:  # noqa: D102
        if name is not None and self.taken(rivals(row[0], name)):
            raise taken(name)
        if self._kept is None:
            self._one(_insert(1), *row, position)
        else:
            self._kept.append((*row, position))

    def taken(self, ids: Sequence[str]) -> bool:  # noqa: D102
        return any(self._one("SELECT 1 FROM decisions WHERE id = ?", id) for id in ids)

    def find(self, id: str) -> Found | None:  # noqa: D102
        row = self._one("SELECT seq, time, settled, active FROM decisions WHERE id = ?", id)
        return None if row is None else Found(*row)

    def overdue(self, before: float) -> list[Found]:  # noqa: D102
        query = (
            "SELECT seq, time, settled, active FROM decisions WHERE settled IS NULL AND time <= ? ORDER BY time, seq"
        )
        return [Found(*row) for row in self._all(query, before)]

    def oldest(self) -> float | None:  # noqa: D102
        row = self._one("SELECT time FROM decisions WHERE settled IS NULL ORDER BY time LIMIT 1")
        return None if row is None else row[0]

    def activate(self, seq: int) -> None:  # noqa: D102
        self._one("UPDATE decisions SET active = 1 WHERE seq = ?", seq)

    def decision(self, id: str) -> Stored | None:  # noqa: D102
        row = self._one(f"{_STORED} WHERE d.id = ?", id)
        return None if row is None else _stored(row)

    def decisions(self, which: Which, after: int, limit: int) -> list[Stored]:  # noqa: D102
        rows = self._all(f"{_STORED} WHERE d.seq > ? AND {_WHICH[which]} ORDER BY d.seq LIMIT ?", after, limit)
        return [_stored(row) for row in rows]

    def newest(self, count: int) -> int:  # noqa: D102
        row = self._one("SELECT seq FROM decisions ORDER BY seq DESC LIMIT 1 OFFSET ?", count)
        return 0 if row is None else int(row[0])

    def unrewarded(self, after: int) -> int:  # noqa: D102
        query = (
            "SELECT count(*) FROM decisions d LEFT JOIN events e ON e.position = d.settled "
            "WHERE d.seq > ? AND d.slot <= 1 AND coalesce(e.kind, 'pending') IN ('pending', 'dropped')"
        )
        return int(self._one(query, after)[0])

    # Rewards

    def add_reward(self, seq: int, time: float, reward: float, name: str | None) -> None:  # noqa: D102
        self._one("INSERT INTO rewards (decision, time, reward, name) VALUES (?, ?, ?, ?)", seq, time, reward, name)

    def rewards(self, seq: int) -> list[tuple[float, str | None]]:  # noqa: D102
        return self._all("SELECT reward, name FROM rewards WHERE decision = ? ORDER BY number", seq)

    # Events

    def append(self, time: float, kind: str, seq: int | None, reward: float | None, change: str | None = None) -> int:  # noqa: D102
        query = f"INSERT INTO events (time, kind, decision, reward, change, token) VALUES (?, ?, ?, ?, ?, {TOKEN})"
        position = self._execute(query, (time, kind, seq, reward, change)).lastrowid
        assert position is not None
        if seq is not None:
            self._one("UPDATE decisions SET settled = ? WHERE seq = ?", position, seq)
        return position

    def relabel(self, position: int, kind: str) -> None:  # noqa: D102
        self._one("UPDATE events SET kind = ? WHERE position = ?", kind, position)

    def event(self, position: int) -> Event | None:  # noqa: D102
        row = self._one("SELECT position, kind, reward, change, token FROM events WHERE position = ?", position)
        return None if row is None else Event(*row)

    def events(self, after: int, upto: int, limit: int) -> list[Event]:  # noqa: D102
        query = (
            f"SELECT e.position, e.kind, e.reward, e.change, e.token, {_OF_DECISION} FROM events e LEFT JOIN decisions "
            "d ON d.seq = e.decision WHERE e.position > ? AND e.position <= ? ORDER BY e.position LIMIT ?"
        )
        return [Event._make((*row[:5], row[5:])) for row in self._all(query, after, upto, limit)]

    def changes(self, after: int = 0, before: int | None = None) -> list[tuple[str, str]]:  # noqa: D102
        query = (
            "SELECT kind, change FROM events WHERE change IS NOT NULL AND position > ? "
            "AND (? IS NULL OR position < ?) ORDER BY position"
        )
        return self._all(query, after, before, before)

    def last(self) -> int:  # noqa: D102
        row = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'events'")  # AUTOINCREMENT's counter
        return 0 if row is None else int(row[0])

    def first_after(self, position: int, time: float) -> int | None:  # noqa: D102
        query = "SELECT position FROM events WHERE position > ? AND time > ? ORDER BY position LIMIT 1"
        row = self._one(query, position, time)
        return None if row is None else row[0]

    # Batches

    def next_batch(self, position: int) -> tuple[int | None, int | None]:  # noqa: D102
        row = self._one("SELECT after, last FROM batches WHERE after >= ? ORDER BY after LIMIT 1", position)
        return (None, None) if row is None else tuple(row)

    def add_batch(self, position: int, end: int) -> None:  # noqa: D102
        self._one("INSERT INTO batches VALUES (?, ?)", position, end)

    # Models

    def add_model(self, position: int, time: float, data: bytes) -> int:  # noqa: D102
        old = "DELETE FROM models WHERE version <= (SELECT max(version) FROM models) - ?"
        self._one(old, _MODELS_KEPT - 1)  # first, so that the new one takes their pages: half as much is written
        query = "INSERT INTO models (position, time, data) VALUES (?, ?, ?)"
        version = self._execute(query, (position, time, data)).lastrowid
        assert version is not None
        return version

    def model(self, after: int) -> Model | None:  # noqa: D102
        query = "SELECT version, position, time, data FROM models WHERE version > ? ORDER BY version DESC LIMIT 1"
        row = self._one(query, after)
        return None if row is None else Model(*row)

    # Deleting

    def prune(self, upto: int) -> None:  # noqa: D102
        gone = "SELECT decision FROM events WHERE position <= ? AND decision IS NOT NULL"
        self._one(f"DELETE FROM rewards WHERE decision IN ({gone})", upto)
        self._one(f"DELETE FROM decisions WHERE seq IN ({gone})", upto)
        self._one("DELETE FROM events WHERE position <= ? AND change IS NULL", upto)
        self._one("DELETE FROM batches WHERE last <= ?", upto)

    def erase(self, key: str) -> int:  # noqa: D102
        own = "SELECT seq FROM decisions WHERE key = ?"
        self._one(f"DELETE FROM rewards WHERE decision IN ({own})", key)
        self._one(f"UPDATE events SET kind = 'erased', decision = NULL, reward = NULL WHERE decision IN ({own})", key)
        return self._execute("DELETE FROM decisions WHERE key = ?", (key,)).rowcount


@functools.cache
def _insert(count: int) -> str:
    """Return the statement that writes so many decisions."""
    rows = ", ".join([f"({', '.join('?' * (_N + 1))})"] * count)
    return f"INSERT INTO decisions ({COLUMNS}, position) VALUES {rows}"


def _stored(row: Any) -> Stored:
    return Stored._make((*row[:4], row[4:]))
