"""The whole content of a log in a database, to be copied; see `lim2.log.store.Copy`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from psycopg.types.json import Jsonb

from lim2.log.entries import COLUMNS
from lim2.log.errors import LogError
from lim2.log.postgres.connections import Connection
from lim2.log.postgres.sql import OF_EVENTS, OF_PENDING
from lim2.log.postgres.tables import new_head
from lim2.log.store import CHUNK, Model, PlainEvent, Span, Whole

_KEPT = (
    "ARRAY(SELECT r.time FROM {0} ORDER BY r.number), ARRAY(SELECT r.reward FROM {0} ORDER BY r.number), "
    "ARRAY(SELECT r.name FROM {0} ORDER BY r.number)"
).format("lim2.rewards r WHERE r.log = d.log AND r.seq = d.seq")
_EVENT = "position, time, kind, reward, change, token"
_NONE = "NULL::bigint, NULL::float8, NULL, NULL::float8, NULL, NULL"


class PostgresCopy:
    """Copy interface over a connection in a transaction.

    Parameters
    ----------
    connection
        Separate connection.
    log
        The number of the log.
    """

    def __init__(self, connection: Connection, log: int) -> None:
        self._connection, self._log = connection, log

    def _all(self, query: str, **values: Any) -> list[Any]:
        return self._connection.execute(query, {"log": self._log, **values}, binary=True).fetchall()

    def meta(self) -> dict[str, Any]:  # noqa: D102
        ((last, pruned, head),) = self._all("SELECT last, pruned, head FROM lim2.logs WHERE log = %(log)s")
        found = {key: value for key, value in head.items() if not key.startswith("count ")}
        return found | {"last": last, "pruned": pruned}

    def wholes(self, after: int, limit: int) -> list[Whole]:  # noqa: D102
        where = "WHERE d.log = %(log)s AND d.seq > %(after)s"
        tail = "ORDER BY d.seq LIMIT %(limit)s"
        settled = ", ".join(f"d.{name}" for name in _EVENT.split(", "))
        query = (
            f"(SELECT d.seq, d.learned, {_NONE}, {_KEPT}, {OF_PENDING} FROM lim2.pending d {where} {tail}) UNION ALL "
            f"(SELECT d.seq, d.learned, {settled}, {_KEPT}, {OF_EVENTS} FROM lim2.events d {where} "
            f"AND d.position > (SELECT pruned FROM lim2.logs WHERE log = %(log)s) {tail}) ORDER BY seq LIMIT %(limit)s"
        )
        return [
            Whole(
                row[0], row[1], row[11:], None if row[2] is None else PlainEvent(*row[2:8]),
                list(zip(*row[8:11], strict=True)),
            )
            for row in self._all(query, after=after, limit=limit)
        ]  # fmt: skip

    def others(self, after: int, limit: int) -> list[PlainEvent]:  # noqa: D102
        query = (
            f"(SELECT {_EVENT} FROM lim2.events WHERE log = %(log)s AND seq IS NULL AND position > greatest(%(after)s, "
            "(SELECT pruned FROM lim2.logs WHERE log = %(log)s)) ORDER BY position LIMIT %(limit)s) UNION ALL "
            "(SELECT position, time, kind, NULL::float8, change, token FROM lim2.changes WHERE log = %(log)s AND "
            "position > %(after)s AND position <= (SELECT pruned FROM lim2.logs WHERE log = %(log)s) "
            "ORDER BY position LIMIT %(limit)s) ORDER BY position LIMIT %(limit)s"
        )
        return [PlainEvent(*row) for row in self._all(query, after=after, limit=limit)]

    def span(self) -> Span | None:  # noqa: D102
        query = (
            "SELECT min(time), max(time) FROM lim2.events WHERE log = %(log)s AND "
            "position > (SELECT pruned FROM lim2.logs WHERE log = %(log)s)"
        )
        ((first, last),) = self._all(query)
        return None if first is None else (first, last)

    def batches(self) -> list[tuple[int, int]]:  # noqa: D102
        return self._all("SELECT after, last FROM lim2.batches WHERE log = %(log)s ORDER BY after")

    def models(self) -> list[Model]:  # noqa: D102
        query = "SELECT version, position, time, data FROM lim2.models WHERE log = %(log)s ORDER BY version"
        return [Model(*row) for row in self._all(query)]

    def take(
        self,
        meta: dict[str, Any],
        wholes: Iterable[Whole],
        others: Iterable[PlainEvent],
        batches: Iterable[tuple[int, int]],
        models: Iterable[Model],
    ) -> None:
        """Write all of it into a log that is empty."""
        ((last, head),) = self._all("SELECT last, head FROM lim2.logs WHERE log = %(log)s FOR UPDATE")
        if last or head["version"] or self._all("SELECT FROM lim2.pending WHERE log = %(log)s LIMIT 1"):
            raise LogError("the target log is not empty, and a copy never overwrites: name a new log")
        counts: dict[str, int] = {}
        rest, pending = iter(wholes), f"(log, seq, learned, {COLUMNS})"
        settled = f"(log, seq, learned, {_EVENT}, {OF_EVENTS.replace('d.', '')})"
        while some := list(islice(rest, CHUNK)):
            numbers = self._all("SELECT nextval('lim2.decisions') FROM generate_series(1, %(n)s)", n=len(some))
            rows = [(self._log, seq, whole) for (seq,), whole in zip(numbers, some, strict=True)]
            self._many("pending", pending, [(*key, w.learned, *w.row) for *key, w in rows if w.event is None])
            self._many("events", settled, [(*key, w.learned, *w.event, *w.row) for *key, w in rows if w.event])
            self._many("rewards", "(log, seq, time, reward, name)", [(*k, *r) for *k, w in rows for r in w.rewards])
            _count(counts, [whole.event for whole in some if whole.event is not None])
        for event in others:
            if event.position > meta["pruned"]:
                self._many("events", f"(log, {_EVENT})", [(self._log, *event)])
                _count(counts, [event])
            if event.change is not None:
                own = (self._log, *event[:3], *event[4:])
                self._many("changes", "(log, position, time, kind, change, token)", [own])
        self._many("batches", "(log, after, last)", [(self._log, *batch) for batch in batches])
        self._many("models", "(log, version, position, time, data)", [(self._log, *model) for model in models])
        kinds = {key: counts.get(key.removeprefix("count "), 0) for key in head if key.startswith("count ")}
        values = new_head("") | {key: value for key, value in meta.items() if key not in ("last", "pruned")} | kinds
        query = "UPDATE lim2.logs SET last = %(last)s, pruned = %(pruned)s, head = %(head)s WHERE log = %(log)s"
        values_now = {"last": meta["last"], "pruned": meta["pruned"], "head": Jsonb(values), "log": self._log}
        self._connection.execute(query, values_now)

    def _many(self, table: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            values = ", ".join(["%s"] * len(rows[0]))
            with self._connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO lim2.{table} {columns} VALUES ({values})", rows)


def _count(counts: dict[str, int], events: list[PlainEvent]) -> None:
    for event in events:
        counts[event.kind] = counts.get(event.kind, 0) + 1
