"""The whole content of a log in a database, to be copied; see `lim2.log.store.Copy`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from psycopg.types.json import Jsonb

from lim2.log.errors import LogError
from lim2.log.new_seqs import NewSeqs
from lim2.log.postgres import sql
from lim2.log.postgres.connections import Connection
from lim2.log.postgres.tables import new_head
from lim2.log.store import ROWS_PER_READ, DecisionRecord, KeptProof, Model, PlainEvent, Span


class PostgresCopy:
    """The content of a log behind a separate connection that is in a transaction."""

    def __init__(self, connection: Connection, log: int) -> None:
        self._connection, self._log = connection, log

    def _all(self, query: str, **values: Any) -> list[Any]:
        return self._connection.execute(query, {"log": self._log, **values}, binary=True).fetchall()

    def meta(self) -> dict[str, Any]:  # noqa: D102
        last, pruned, head = self._connection.execute(sql.HEAD, (self._log,), binary=True).fetchall()[0]
        values = {key: value for key, value in head.items() if not key.startswith("count ")}
        return values | {"last": last, "pruned": pruned}

    def decisions(self, after: int, limit: int) -> list[DecisionRecord]:  # noqa: D102
        return [
            DecisionRecord(
                row[0], row[1], row[11:], None if row[2] is None else PlainEvent(*row[2:8]),
                list(zip(*row[8:11], strict=True)),
            )
            for row in self._all(sql.COPIED_DECISIONS, after=after, limit=limit)
        ]  # fmt: skip

    def events(self, after: int, limit: int) -> list[PlainEvent]:  # noqa: D102
        return [PlainEvent(*row) for row in self._all(sql.COPIED_EVENTS, after=after, limit=limit)]

    def span(self) -> Span | None:  # noqa: D102
        ((first, last),) = self._all(sql.SPAN)
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
        ((last, head),) = self._all(sql.COPY_TARGET)
        if last or head["version"] or self._all(sql.HAS_PENDING):
            raise LogError("the target log is not empty, and a copy never overwrites: name a new log")
        log, counts, iterator, seqs = self._log, Counter[str](), iter(decisions), NewSeqs(proofs)
        while page := list(islice(iterator, ROWS_PER_READ)):
            drawn = self._all(sql.DRAW_SEQS, n=len(page))
            rows = [(log, seq, record) for (seq,), record in zip(drawn, page, strict=True)]
            for _, seq, record in rows:
                seqs.add(record.seq, seq)
            pending = [(*key, record.learned, *record.row) for *key, record in rows if record.event is None]
            settled = [(*key, record.learned, *record.event, *record.row) for *key, record in rows if record.event]
            self._many(sql.COPY_PENDING, pending)
            self._many(sql.COPY_SETTLED, settled)
            self._many(sql.COPY_REWARD, [(*key, *reward) for *key, record in rows for reward in record.rewards])
            counts.update(record.event.kind for record in page if record.event is not None)
        for event in events:
            if event.position > meta["pruned"]:
                self._many(sql.COPY_EVENT, [(log, *event)])
                counts[event.kind] += 1
            if event.change is not None:
                self._many(sql.ADD_CHANGE, [(log, *event[:3], *event[4:])])
        self._many(sql.ADD_BATCH, [(log, *batch) for batch in batches])
        self._many(sql.ADD_MODEL, [(log, *model) for model in models])
        self._many(sql.PUT_PROOF, [(log, *proof) for proof in seqs.proofs()])
        kinds = {key: counts[key.removeprefix("count ")] for key in head if key.startswith("count ")}
        values = new_head("") | {key: value for key, value in meta.items() if key not in ("last", "pruned")} | kinds
        self._connection.execute(sql.SET_HEAD, (meta["last"], meta["pruned"], Jsonb(values), log))

    def _many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(statement, rows)
