"""The whole content of a log in a file, to be copied; see `lim2.log.store.Copy`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from lim2.log.entries import COLUMNS
from lim2.log.errors import LogError
from lim2.log.store import Model, PlainEvent, Span, Whole

_N = len(COLUMNS.split(", "))
_COLUMNS = ", ".join(f"d.{column}" for column in COLUMNS.split(", "))
_COUNTERS = {"last": "events", "version": "models"}  # what AUTOINCREMENT has come to


class SQLiteCopy:
    """A connection that is in a transaction.

    Parameters
    ----------
    connection
        Of its own.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _all(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def meta(self) -> dict[str, Any]:  # noqa: D102
        counters = dict(self._all("SELECT name, seq FROM sqlite_sequence"))
        found = dict(self._all("SELECT key, value FROM meta WHERE key NOT LIKE 'count %'"))
        return found | {key: counters.get(table, 0) for key, table in _COUNTERS.items()}

    def wholes(self, after: int, limit: int) -> list[Whole]:  # noqa: D102
        query = (
            f"SELECT d.seq, d.position, e.position, e.time, e.kind, e.reward, e.change, e.token, {_COLUMNS} "
            "FROM decisions d LEFT JOIN events e ON e.position = d.settled WHERE d.seq > ? ORDER BY d.seq LIMIT ?"
        )
        kept = "SELECT time, reward, name FROM rewards WHERE decision = ? ORDER BY number"
        return [
            Whole(row[0], row[1], row[8:], None if row[2] is None else PlainEvent(*row[2:8]), self._all(kept, row[0]))
            for row in self._all(query, after, limit)
        ]

    def others(self, after: int, limit: int) -> list[PlainEvent]:  # noqa: D102
        query = (
            "SELECT position, time, kind, reward, change, token FROM events "
            "WHERE decision IS NULL AND position > ? ORDER BY position LIMIT ?"
        )
        return [PlainEvent(*row) for row in self._all(query, after, limit)]

    def span(self) -> Span | None:  # noqa: D102
        first, last = self._all("SELECT min(time), max(time) FROM events")[0]
        return None if first is None else (first, last)

    def batches(self) -> list[tuple[int, int]]:  # noqa: D102
        return self._all("SELECT after, last FROM batches ORDER BY after")

    def models(self) -> list[Model]:  # noqa: D102
        return [Model(*row) for row in self._all("SELECT version, position, time, data FROM models ORDER BY version")]

    def take(
        self,
        meta: dict[str, Any],
        wholes: Iterable[Whole],
        others: Iterable[PlainEvent],
        batches: Iterable[tuple[int, int]],
        models: Iterable[Model],
    ) -> None:
        """Write all of it into a log that is empty."""
        if any(self._all("SELECT seq FROM sqlite_sequence WHERE seq > 0")):
            raise LogError("the log is not empty: a copy never overwrites, name a new one")
        insert = f"INSERT INTO decisions ({COLUMNS}, position, settled) VALUES ({', '.join('?' * (_N + 2))})"
        for whole in wholes:
            settled = None if whole.event is None else whole.event.position
            seq = self._connection.execute(insert, (*whole.row, whole.learned, settled)).lastrowid
            if whole.event is not None:
                self._event(whole.event, seq)
            for reward in whole.rewards:
                self._all("INSERT INTO rewards (decision, time, reward, name) VALUES (?, ?, ?, ?)", seq, *reward)
        for event in others:
            self._event(event, None)
        self._connection.executemany("INSERT INTO batches VALUES (?, ?)", batches)
        self._connection.executemany("INSERT INTO models VALUES (?, ?, ?, ?)", models)
        for key, table in _COUNTERS.items():
            self._all("DELETE FROM sqlite_sequence WHERE name = ?", table)
            self._all("INSERT INTO sqlite_sequence VALUES (?, ?)", table, meta[key])
        rest = [pair for pair in meta.items() if pair[0] not in _COUNTERS]
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rest)

    def _event(self, event: PlainEvent, seq: int | None) -> None:
        self._all("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", *event[:3], seq, *event[3:])
