"""The whole content of a log in a file, to be copied; see `lim2.log.store.Copy`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from lim2.log.errors import LogError
from lim2.log.new_seqs import NewSeqs
from lim2.log.sqlite import sql
from lim2.log.store import DecisionRecord, KeptProof, Model, PlainEvent, Span

_COUNTERS = {"last": "events", "version": "models"}  # value of the log -> table whose AUTOINCREMENT counts it


class SQLiteCopy:
    """The content of a log behind a separate connection that is in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _all(self, statement: str, *values: Any) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def meta(self) -> dict[str, Any]:  # noqa: D102
        counters = dict(self._all(sql.SEQUENCES))
        return dict(self._all(sql.ALL_VALUES)) | {key: counters.get(table, 0) for key, table in _COUNTERS.items()}

    def decisions(self, after: int, limit: int) -> list[DecisionRecord]:  # noqa: D102
        return [
            DecisionRecord(
                row[0], row[1], row[8:], None if row[2] is None else PlainEvent(*row[2:8]),
                self._all(sql.COPIED_REWARDS, row[0]),
            )
            for row in self._all(sql.COPIED_DECISIONS, after, limit)
        ]  # fmt: skip

    def events(self, after: int, limit: int) -> list[PlainEvent]:  # noqa: D102
        return [PlainEvent(*row) for row in self._all(sql.COPIED_EVENTS, after, limit)]

    def span(self) -> Span | None:  # noqa: D102
        first, last = self._all(sql.SPAN)[0]
        return None if first is None else (first, last)

    def batches(self) -> list[tuple[int, int]]:  # noqa: D102
        return self._all(sql.BATCHES)

    def models(self) -> list[Model]:  # noqa: D102
        return [Model(*row) for row in self._all(sql.MODELS)]

    def proofs(self) -> list[KeptProof]:  # noqa: D102
        return [KeptProof(*row) for row in self._all(sql.ALL_PROOFS)]

    def take(
        self,
        meta: dict[str, Any],
        decisions: Iterable[DecisionRecord],
        events: Iterable[PlainEvent],
        batches: Iterable[tuple[int, int]],
        models: Iterable[Model],
        proofs: Iterable[KeptProof],
    ) -> None:
        """Write the content into an empty log."""
        if self._all(sql.WRITTEN):
            raise LogError("the log is not empty: a copy never overwrites, name a new one")
        insert, seqs = sql.insert(1, "position, settled"), NewSeqs(proofs)
        for record in decisions:
            settled = None if record.event is None else record.event.position
            seq = self._connection.execute(insert, (*record.row, record.learned, settled)).lastrowid
            assert seq is not None
            seqs.add(record.seq, seq)
            if record.event is not None:
                self._add_event(record.event, seq)
            for reward in record.rewards:
                self._all(sql.ADD_REWARD, seq, *reward)
        for event in events:
            self._add_event(event, None)
        self._connection.executemany(sql.ADD_BATCH, batches)
        self._connection.executemany(sql.COPY_MODEL, models)
        self._connection.executemany(sql.PUT_PROOF, seqs.proofs())
        for key, table in _COUNTERS.items():
            self._all(sql.REMOVE_SEQUENCE, table)
            self._all(sql.ADD_SEQUENCE, table, meta[key])
        self._connection.executemany(sql.PUT, [pair for pair in meta.items() if pair[0] not in _COUNTERS])

    def _add_event(self, event: PlainEvent, seq: int | None) -> None:
        self._all(sql.COPY_EVENT, *event[:3], seq, *event[3:])
