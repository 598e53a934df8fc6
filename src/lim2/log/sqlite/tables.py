"""The content of a log within a transaction that the caller holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from lim2.log.errors import taken
from lim2.log.ids import rivals
from lim2.log.sqlite import sql
from lim2.log.store import DecisionFilter, DecisionStatus, Event, Model, Row, StoredDecision

ROWS_PER_INSERT = 32
MAX_MODELS = 2


class SQLiteTables:
    """A connection that is in a transaction; see `lim2.log.store.Tables` for what the methods do.

    Between `expect` and `flush`, decisions are buffered and inserted by one statement, because each statement gives up
    the interpreter lock.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._buffer: list[Sequence[Any]] | None = None  # None: decisions are inserted at once

    def _execute(self, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        if self._buffer:
            self._insert_all(self._buffer)
        return self.connection.execute(statement, values)

    def _one(self, statement: str, *values: Any) -> Any:
        return self._execute(statement, values).fetchone()

    def _integer(self, statement: str, *values: Any) -> int | None:
        row = self._one(statement, *values)
        return None if row is None else int(row[0])

    def _all(self, statement: str, *values: Any) -> list[Any]:
        return self._execute(statement, values).fetchall()

    def begin(self) -> None:
        """Buffer nothing, whatever became of the transaction before."""
        self._buffer = None

    def expect(self, ids: Sequence[str]) -> None:  # noqa: ARG002
        """Buffer decisions from now on; read nothing in advance."""
        self._buffer = []

    def flush(self) -> None:
        """Insert what is buffered, and buffer no more."""
        if self._buffer:
            self._insert_all(self._buffer)
        self._buffer = None

    def _insert_all(self, rows: list[Sequence[Any]]) -> None:
        self._buffer = []
        for start in range(0, len(rows), ROWS_PER_INSERT):
            chunk = rows[start : start + ROWS_PER_INSERT]
            self.connection.execute(sql.insert(len(chunk)), [value for row in chunk for value in row])

    # Values of the log

    def get(self, name: str) -> Any:  # noqa: D102
        row = self._one(sql.GET, name)
        return None if row is None else row[0]

    def put(self, name: str, value: Any) -> None:  # noqa: D102
        if value is None:
            self._one(sql.REMOVE, name)
        else:
            self._one(sql.PUT, name, value)

    def counts(self) -> dict[str, int]:  # noqa: D102
        return {key.removeprefix("count "): value for key, value in self._all(sql.COUNTS)}

    # Decisions

    def insert(self, row: Row, position: int, name: str | None = None) -> None:  # noqa: D102
        if name is not None and self.taken(rivals(row[0], name)):
            raise taken(name)
        if self._buffer is None:
            self._one(sql.insert(1), *row, position)
        else:
            self._buffer.append((*row, position))

    def taken(self, ids: Sequence[str]) -> bool:  # noqa: D102
        return any(self._one(sql.TAKEN, id) for id in ids)

    def find(self, id: str) -> DecisionStatus | None:  # noqa: D102
        row = self._one(sql.FIND, id)
        return None if row is None else DecisionStatus(*row)

    def overdue(self, before: float) -> list[DecisionStatus]:  # noqa: D102
        return [DecisionStatus(*row) for row in self._all(sql.OVERDUE, before)]

    def oldest(self) -> float | None:  # noqa: D102
        row = self._one(sql.OLDEST)
        return None if row is None else float(row[0])

    def activate(self, seq: int) -> None:  # noqa: D102
        self._one(sql.ACTIVATE, seq)

    def decision(self, id: str) -> StoredDecision | None:  # noqa: D102
        row = self._one(sql.DECISION, id)
        return None if row is None else _decision(row)

    def decisions(self, filter: DecisionFilter, after: int, limit: int) -> list[StoredDecision]:  # noqa: D102
        return [_decision(row) for row in self._all(sql.DECISIONS[filter], after, limit)]

    def newest(self, count: int) -> int:  # noqa: D102
        return self._integer(sql.NEWEST, count) or 0

    def latest(self, key: str, since: float) -> str | None:  # noqa: D102
        row = self._one(sql.LATEST, key, since)
        return None if row is None else str(row[0])

    def unrewarded(self, after: int) -> int:  # noqa: D102
        return self._integer(sql.UNREWARDED, after) or 0

    # Rewards

    def add_reward(self, seq: int, time: float, reward: float, name: str | None) -> None:  # noqa: D102
        self._one(sql.ADD_REWARD, seq, time, reward, name)

    def rewards(self, seq: int) -> list[tuple[float, str | None]]:  # noqa: D102
        return self._all(sql.REWARDS, seq)

    # Events

    def append(self, time: float, kind: str, seq: int | None, reward: float | None, change: str | None = None) -> int:  # noqa: D102
        position = self._execute(sql.APPEND, (time, kind, seq, reward, change)).lastrowid
        assert position is not None
        if seq is not None:
            self._one(sql.SETTLE, position, seq)
        return position

    def relabel(self, position: int, kind: str) -> None:  # noqa: D102
        self._one(sql.RELABEL, kind, position)

    def event(self, position: int) -> Event | None:  # noqa: D102
        row = self._one(sql.EVENT, position)
        return None if row is None else Event(*row)

    def events(self, after: int, upto: int, limit: int) -> list[Event]:  # noqa: D102
        return [Event._make((*row[:5], row[5:])) for row in self._all(sql.EVENTS, after, upto, limit)]

    def changes(self, after: int = 0, before: int | None = None) -> list[tuple[str, str]]:  # noqa: D102
        return self._all(sql.CHANGES, after, before, before)

    def last(self) -> int:  # noqa: D102
        return self._integer(sql.LAST) or 0

    def first_after(self, position: int, time: float) -> int | None:  # noqa: D102
        return self._integer(sql.FIRST_AFTER, position, time)

    # Batches

    def next_batch(self, position: int) -> tuple[int | None, int | None]:  # noqa: D102
        row = self._one(sql.NEXT_BATCH, position)
        return (None, None) if row is None else tuple(row)

    def add_batch(self, position: int, end: int) -> None:  # noqa: D102
        self._one(sql.ADD_BATCH, position, end)

    # Models

    def add_model(self, position: int, time: float, data: bytes) -> int:  # noqa: D102
        # Old ones are deleted first, so that the new one takes their pages: half as much is written.
        self._one(sql.DELETE_OLD_MODELS, MAX_MODELS - 1)
        version = self._execute(sql.ADD_MODEL, (position, time, data)).lastrowid
        assert version is not None
        return version

    def published(self) -> int:  # noqa: D102
        return self._integer(sql.PUBLISHED) or 0

    def model(self, after: int) -> Model | None:  # noqa: D102
        row = self._one(sql.MODEL, after)
        return None if row is None else Model(*row)

    # Proofs

    def proofs(self) -> list[str]:  # noqa: D102
        return [name for (name,) in self._all(sql.PROOFS)]

    def proof(self, name: str) -> tuple[int, str] | None:  # noqa: D102
        row: tuple[int, str] | None = self._one(sql.PROOF, name)
        return row

    def put_proof(self, name: str, seq: int, sums: str) -> None:  # noqa: D102
        self._one(sql.PUT_PROOF, name, seq, sums)

    def count_after(self, seq: int) -> int:  # noqa: D102
        return self._integer(sql.COUNT_AFTER, seq) or 0

    # Deleting

    def prune(self, upto: int) -> None:  # noqa: D102
        for statement in sql.PRUNE:
            self._one(statement, upto)

    def erase(self, key: str) -> int:  # noqa: D102
        return [self._execute(statement, (key,)).rowcount for statement in sql.ERASE][-1]


def _decision(row: Any) -> StoredDecision:
    return StoredDecision._make((*row[:4], row[4:]))
