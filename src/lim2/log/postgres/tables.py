"""The content of a log as SQL, within a transaction that the caller holds.

A database is asked as rarely as possible, since each question costs a journey over the network, while others wait for
the lock of the log. What is written is kept back and sent together, before something is read that it could change, and
at the end (`flush`). Decisions that are expected are read at once, and what is done to them is remembered.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb

from lim2.log.errors import GoneLogError, taken
from lim2.log.postgres.connections import Connection
from lim2.log.postgres.sql import (
    FIND,
    FIND_SETTLED,
    INSERT,
    OF_EVENTS,
    OLDEST,
    SETTLE,
    SETTLED,
    SIZE,
    TAKEN,
    THERE,
    WAITING,
)
from lim2.log.store import Event, Found, Model, Row, Stored, Which, rivals

_MODELS_KEPT = 2


@dataclass
class _Known:
    """A decision as this transaction knows it."""

    id: str
    found: Found
    kept: list[tuple[float, str | None]] = field(default_factory=list)


class PostgresTables:
    """A connection that is in a transaction; see `lim2.log.store.Tables` for what the methods do.

    Parameters
    ----------
    connection
        The connection.
    log
        The number of the log.
    locks
        Whether the transaction writes: then the log's row is locked before anything is read. Only `insert` does not.
    """

    def __init__(self, connection: Connection, log: int, locks: bool) -> None:
        self.connection, self.log, self.locks = connection, log, locks
        self.news = False  # whether others will want to know
        self._row: dict[str, Any] | None = None  # the log's, as it will be
        self._changed = False
        self._inserts: list[tuple[Row, int, str | None]] = []
        self._appends: list[tuple[int, int, float, str, float | None, str]] = []
        self._known: dict[str, _Known | None] = {}
        self._by_seq: dict[int, _Known] = {}
        self._settling: dict[int, Event] = {}  # events of decisions that are known
        self._oldest: float | None = None  # no pending decision is older; None: unknown

    def _execute(self, query: str, values: Any = ()) -> Any:
        return self.connection.execute(query, values, binary=True)

    def _read(self, query: str, values: Any = ()) -> Any:
        """Return the answer to a query; who writes has the lock first."""
        if self.locks:
            self._head()
        self.flush()
        return self._execute(query, values)

    def _one(self, query: str, values: Any = ()) -> Any:
        return self._read(query, values).fetchone()

    def _all(self, query: str, values: Any = ()) -> list[Any]:
        found: list[Any] = self._read(query, values).fetchall()
        return found

    def _write(self, query: str, values: Any) -> None:
        """Send a statement that changes something, and do not wait for it."""
        self._head()
        self._execute(query, values)

    # How much is done at once

    def expect(self, ids: Sequence[str]) -> None:  # noqa: D102
        missing = [id for id in dict.fromkeys(ids) if id not in self._known]
        if not missing:
            return
        self.flush()
        head = self._asked()  # three questions, one journey
        waiting = self._execute(f"{FIND} AND d.id = ANY(%s)", (self.log, missing))
        oldest = self._execute(OLDEST, (self.log,)) if self._oldest is None else None
        self._answered(head)
        if oldest is not None:
            row = oldest.fetchone()
            self._oldest = math.inf if row is None else row[0]
        for row in waiting.fetchall():
            self._know(row)
        settled = [id for id in missing if id not in self._known]
        if settled:
            for row in self._all(FIND_SETTLED, (self.log, self.get("pruned"), settled)):
                position, *event = row[6:]
                self._know(row, position)
                self._settling[position] = Event(position, *event)
        for id in settled:
            self._known.setdefault(id, None)

    def _know(self, row: Any, settled: int | None = None) -> Found:
        id, seq, time, active, rewards, names = row[:6]
        if settled is None and self._oldest is not None:
            self._oldest = min(self._oldest, time)
        found = Found(seq, time, settled, bool(active))
        known = _Known(id, found, list(zip(rewards or [], names or [], strict=True)))
        self._known[id] = self._by_seq[seq] = known
        return found

    def flush(self) -> None:  # noqa: D102
        if self._inserts:
            inserts, self._inserts = self._inserts, []
            self._insert_all(inserts)
        if self._appends:
            appends, self._appends = self._appends, []
            self.connection.cursor().executemany(SETTLE, [(self.log, *append) for append in appends])
        if self._changed:
            self._changed = False
            head = dict(self._row or {})
            last, pruned = head.pop("last"), head.pop("pruned")
            query = "UPDATE lim2.logs SET last = %s, pruned = %s, head = %s WHERE log = %s"
            self._execute(query, (last, pruned, Jsonb(head), self.log))

    def _insert_all(self, inserts: list[tuple[Row, int, str | None]]) -> None:
        """Insert decisions; raise TakenIdError if one of their names is taken, GoneLogError if the log was deleted.

        They are inserted first, and then looked for among the settled ones: nobody else can insert the same id from
        then on, and what was inserted and settled before is seen. This transaction has no lock of the log, so whether
        the log is still there is looked up as well.
        """
        written = self.connection.cursor()
        written.executemany(INSERT, [(self.log, position, *row) for row, position, _ in inserts], returning=True)
        named = {row[0]: name for row, _, name in inserts if name is not None}
        if named:
            others = [rivals(id, name)[1] for id, name in named.items()]
            values = {"log": self.log, "ids": [*named, *others], "others": others}
            found = self._execute(TAKEN, values)
        there = self._execute(THERE, (self.log,))
        if there.fetchone() is None:
            raise _gone()
        for row, _, name in inserts:  # a result for each
            if written.fetchone() is None:
                raise taken(name or row[0])
            written.nextset()
        for (id,) in found.fetchall() if named else ():
            raise taken(next(name for own, name in named.items() if id in rivals(own, name)))

    # What belongs to the whole log

    def _head(self) -> dict[str, Any]:
        """Return the log's row, which is locked if the transaction writes."""
        return self._answered(self._asked())

    def _asked(self) -> Any:
        """Read the log's row, unless it is cached."""
        if self._row is not None:
            return None
        lock = " FOR NO KEY UPDATE" if self.locks else ""
        return self._execute(f"SELECT last, pruned, head FROM lim2.logs WHERE log = %s{lock}", (self.log,))

    def _answered(self, asked: Any) -> dict[str, Any]:
        if self._row is None:
            row = asked.fetchone()
            if row is None:
                raise _gone()
            self._row = {"last": row[0], "pruned": row[1], **row[2]}
        return self._row

    def get(self, name: str) -> Any:  # noqa: D102
        return self._head().get(name)

    def put(self, name: str, value: Any) -> None:  # noqa: D102
        if value is None:
            self._head().pop(name, None)
        else:
            self._head()[name] = value
        self._changed = True

    def _count(self, kind: str, change: int) -> None:
        key = f"count {kind}"
        if key in self._head():
            self.put(key, self.get(key) + change)

    def counts(self) -> dict[str, int]:  # noqa: D102
        head = self._head()
        waiting = self._one("SELECT count(*) FROM lim2.pending WHERE log = %s", (self.log,))[0]
        kinds = {key.removeprefix("count "): value for key, value in head.items() if key.startswith("count ")}
        return {"pending": waiting, **kinds}

    def nbytes(self) -> int:
        """Return the size of all tables, of whichever log."""
        return int(self._one(SIZE)[0])

    # Decisions

    def insert(self, row: Row, position: int, name: str | None = None) -> None:  # noqa: D102
        self._inserts.append((row, position, name))

    def taken(self, ids: Sequence[str]) -> bool:  # noqa: D102
        self.flush()
        found = self._execute(TAKEN, {"log": self.log, "ids": list(ids), "others": list(ids)})  # without the lock
        return found.fetchone() is not None

    def find(self, id: str) -> Found | None:  # noqa: D102
        self.expect([id])
        known = self._known[id]
        return None if known is None else known.found

    def overdue(self, before: float) -> list[Found]:  # noqa: D102
        if self._oldest is not None and self._oldest > before:
            return []
        rows = self._all(f"{FIND} AND d.time <= %s ORDER BY d.time, d.seq", (self.log, before))
        found = [self._know(row) for row in rows]
        self._oldest = math.nextafter(before, math.inf)  # who asks settles them
        return found

    def oldest(self) -> float | None:  # noqa: D102
        row = self._one(OLDEST, (self.log,))
        return None if row is None else float(row[0])

    def activate(self, seq: int) -> None:  # noqa: D102
        self._forget()
        self._write("UPDATE lim2.pending SET active = 1 WHERE log = %s AND seq = %s", (self.log, seq))

    def decision(self, id: str) -> Stored | None:  # noqa: D102
        pruned = self.get("pruned")
        row = self._one(f"{WAITING} WHERE d.log = %s AND d.id = %s", (self.log, id)) or self._one(
            f"{SETTLED} WHERE d.log = %s AND d.id = %s AND d.position > %s", (self.log, id, pruned)
        )
        return None if row is None else _stored(row)

    def decisions(self, which: Which, after: int, limit: int) -> list[Stored]:  # noqa: D102
        values = {"log": self.log, "pruned": self.get("pruned"), "after": after, "limit": limit}
        tail = "ORDER BY d.seq LIMIT %(limit)s"
        waiting = f"({WAITING} WHERE d.log = %(log)s AND d.seq > %(after)s"
        settled = f"({SETTLED} WHERE d.log = %(log)s AND d.seq > %(after)s AND d.position > %(pruned)s"
        query = {
            "pending": f"{waiting} {tail})",
            "rewarded": f"{settled} AND d.slot <= 1 AND d.kind IN ('reward', 'default') {tail})",
            "all": f"{waiting} AND d.slot <= 1 {tail}) UNION ALL {settled} AND d.slot <= 1 {tail}) "
            "ORDER BY seq LIMIT %(limit)s",
        }[which]
        return [_stored(row) for row in self._all(query, values)]

    def newest(self, count: int) -> int:  # noqa: D102
        values = {"log": self.log, "pruned": self.get("pruned"), "count": count, "limit": count + 1}
        query = (
            "SELECT seq FROM ((SELECT seq FROM lim2.pending WHERE log = %(log)s ORDER BY seq DESC LIMIT %(limit)s) "
            "UNION ALL (SELECT seq FROM lim2.events WHERE log = %(log)s AND seq IS NOT NULL AND position > %(pruned)s "
            "ORDER BY seq DESC LIMIT %(limit)s)) d ORDER BY seq DESC OFFSET %(count)s LIMIT 1"
        )
        row = self._one(query, values)
        return 0 if row is None else int(row[0])

    def unrewarded(self, after: int) -> int:  # noqa: D102
        values = {"log": self.log, "pruned": self.get("pruned"), "after": after}
        query = (
            "SELECT (SELECT count(*) FROM lim2.pending WHERE log = %(log)s AND seq > %(after)s AND slot <= 1) + "
            "(SELECT count(*) FROM lim2.events WHERE log = %(log)s AND seq > %(after)s AND slot <= 1 "
            "AND kind = 'dropped' AND position > %(pruned)s)"
        )
        return int(self._one(query, values)[0])

    # Rewards

    def add_reward(self, seq: int, time: float, reward: float, name: str | None) -> None:  # noqa: D102
        query = "INSERT INTO lim2.rewards (log, seq, time, reward, name) VALUES (%s, %s, %s, %s, %s)"
        self._write(query, (self.log, seq, time, reward, name))
        if seq in self._by_seq:
            self._by_seq[seq].kept.append((reward, name))

    def rewards(self, seq: int) -> list[tuple[float, str | None]]:  # noqa: D102
        if seq in self._by_seq:
            return list(self._by_seq[seq].kept)
        query = "SELECT reward, name FROM lim2.rewards WHERE log = %s AND seq = %s ORDER BY number"
        return self._all(query, (self.log, seq))

    # Events

    def append(self, time: float, kind: str, seq: int | None, reward: float | None, change: str | None = None) -> int:  # noqa: D102
        position, token = int(self.get("last")) + 1, secrets.token_hex(8)
        self.put("last", position)
        self._count(kind, 1)
        self.news = True
        if seq is None:
            values = (self.log, position, time, kind, change, token)
            columns = "(log, position, time, kind, change, token) VALUES (%s, %s, %s, %s, %s, %s)"
            self._execute(f"INSERT INTO lim2.events {columns}", values)
            if change is not None:
                self._execute(f"INSERT INTO lim2.changes {columns}", values)
            return position
        self._appends.append((seq, position, time, kind, reward, token))
        if seq in self._by_seq:
            known = self._by_seq[seq]
            known.found = known.found._replace(settled=position)
            self._settling[position] = Event(position, kind, reward, None, token)
        return position

    def relabel(self, position: int, kind: str) -> None:  # noqa: D102
        self._forget()
        (before,) = self._one("SELECT kind FROM lim2.events WHERE log = %s AND position = %s", (self.log, position))
        self._write("UPDATE lim2.events SET kind = %s WHERE log = %s AND position = %s", (kind, self.log, position))
        self._count(before, -1)
        self._count(kind, 1)

    def event(self, position: int) -> Event | None:  # noqa: D102
        if position in self._settling:
            return self._settling[position]
        pruned = self.get("pruned")
        query = "SELECT position, kind, reward, change, token FROM lim2.events WHERE log = %s AND position = %s"
        row = self._one(query, (self.log, position)) if position > pruned else None
        return None if row is None else Event(*row)

    def events(self, after: int, upto: int, limit: int) -> list[Event]:  # noqa: D102
        query = (
            f"SELECT d.position, d.kind, d.reward, d.change, d.token, {OF_EVENTS} FROM lim2.events d "
            "WHERE d.log = %s AND d.position > %s AND d.position <= %s ORDER BY d.position LIMIT %s"
        )
        rows = self._all(query, (self.log, max(after, self.get("pruned")), upto, limit))
        return [Event._make((*row[:5], row[5:])) for row in rows]

    def changes(self, after: int = 0, before: int | None = None) -> list[tuple[str, str]]:  # noqa: D102
        query = (
            "SELECT kind, change FROM lim2.changes WHERE log = %s AND position > %s "
            "AND (%s::bigint IS NULL OR position < %s) ORDER BY position"
        )
        return self._all(query, (self.log, after, before, before))

    def last(self) -> int:  # noqa: D102
        return int(self.get("last"))

    def first_after(self, position: int, time: float) -> int | None:  # noqa: D102
        query = (
            "SELECT position FROM lim2.events WHERE log = %s AND position > %s AND time > %s ORDER BY position LIMIT 1"
        )
        row = self._one(query, (self.log, max(position, self.get("pruned")), time))
        return None if row is None else int(row[0])

    # Batches

    def next_batch(self, position: int) -> tuple[int | None, int | None]:  # noqa: D102
        query = "SELECT after, last FROM lim2.batches WHERE log = %s AND after >= %s ORDER BY after LIMIT 1"
        found: tuple[int, int] | None = self._one(query, (self.log, position))
        return found or (None, None)

    def add_batch(self, position: int, end: int) -> None:  # noqa: D102
        self._write("INSERT INTO lim2.batches VALUES (%s, %s, %s)", (self.log, position, end))

    # Models

    def add_model(self, position: int, time: float, data: bytes) -> int:  # noqa: D102
        version = int(self.get("version")) + 1
        self.put("version", version)
        self.put("published", position)
        self._write("INSERT INTO lim2.models VALUES (%s, %s, %s, %s, %s)", (self.log, version, position, time, data))
        self._write("DELETE FROM lim2.models WHERE log = %s AND version <= %s", (self.log, version - _MODELS_KEPT))
        self.news = True
        return version

    def model(self, after: int) -> Model | None:  # noqa: D102
        query = (
            "SELECT version, position, time, data FROM lim2.models WHERE log = %s AND version > %s "
            "ORDER BY version DESC LIMIT 1"
        )
        row = self._one(query, (self.log, after))
        return None if row is None else Model(*row)

    # Deleting

    def prune(self, upto: int) -> None:
        """Delete the events up to a position: they are no longer found, and their rows go later (`partitions`)."""
        self._forget()
        values = {"log": self.log, "pruned": self.get("pruned"), "upto": upto}
        gone = "FROM lim2.events WHERE log = %(log)s AND position > %(pruned)s AND position <= %(upto)s"
        for kind, count in self._all(f"SELECT kind, count(*) {gone} AND change IS NULL GROUP BY kind", values):
            self._count(kind, -count)
        self._write(
            f"DELETE FROM lim2.rewards WHERE log = %(log)s AND seq IN (SELECT seq {gone} AND seq IS NOT NULL)", values
        )
        self._write("DELETE FROM lim2.batches WHERE log = %(log)s AND last <= %(upto)s", values)
        self.put("pruned", upto)

    def erase(self, key: str) -> int:  # noqa: D102
        self._forget()
        values = {"log": self.log, "key": key, "pruned": self.get("pruned")}
        own = "WHERE log = %(log)s AND key = %(key)s"
        for table in ("pending", "events"):
            self._write(
                f"DELETE FROM lim2.rewards WHERE log = %(log)s AND seq IN (SELECT seq FROM lim2.{table} {own})", values
            )
        kinds = self._all(
            f"SELECT kind, count(*) FROM lim2.events {own} AND position > %(pruned)s GROUP BY kind", values
        )
        empty = ", ".join(f"{name.removeprefix('d.')} = NULL" for name in OF_EVENTS.split(", "))
        self._write(
            f"UPDATE lim2.events SET kind = 'erased', reward = NULL, seq = NULL, learned = NULL, {empty} {own}", values
        )
        for kind, count in kinds:
            self._count(kind, -count)
            self._count("erased", count)
        query = f"WITH gone AS (DELETE FROM lim2.pending {own} RETURNING 1) SELECT count(*) FROM gone"
        return int(self._one(query, values)[0]) + sum(int(count) for _, count in kinds)

    def _forget(self) -> None:
        """Keep nothing in mind that is about to change."""
        self.flush()
        self._known.clear()
        self._by_seq.clear()
        self._settling.clear()
        self._oldest = None


def new_head(id: str) -> dict[str, Any]:
    """Return the initial values of a new log.

    Parameters
    ----------
    id
        ID of the log.
    """
    kinds: Iterable[str] = ("reward", "default", "dropped", "discarded", "erased")
    return {"id": id, "late": 0, "epoch": 0, "version": 0, **{f"count {kind}": 0 for kind in kinds}}


def _gone() -> GoneLogError:
    return GoneLogError("the log was deleted from the database while it was open")


def _stored(row: Any) -> Stored:
    return Stored._make((*row[:4], row[4:]))
