"""The content of a log within a transaction that the caller holds.

Each query costs a round trip while others wait for the lock of the log. So writes are buffered and sent together before
a read that they could change and at the end (`flush`). Expected decisions are read in one query and cached.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb

from lim2.log.errors import GoneLogError, taken
from lim2.log.ids import rivals
from lim2.log.postgres import sql
from lim2.log.postgres.connections import Connection
from lim2.log.store import DecisionFilter, DecisionStatus, Event, Model, Row, StoredDecision

MAX_MODELS = 2


@dataclass
class _CachedDecision:
    status: DecisionStatus
    rewards: list[tuple[float, str | None]] = field(default_factory=list)


class PostgresTables:
    """A connection that is in a transaction; see `lim2.log.store.Tables` for what the methods do."""

    def __init__(self, connection: Connection, log: int, locks: bool) -> None:
        self.connection, self.log = connection, log
        self.locks = locks  # whether the log is locked before anything is read; only `insert` needs no lock
        self.news = False  # whether subscribers should be notified
        self._values: dict[str, Any] | None = None  # of the log, as they will be
        self._changed = False
        self._inserts: list[tuple[Row, int, str | None]] = []
        self._appends: list[tuple[int, int, float, str, float | None, str]] = []
        self._by_id: dict[str, _CachedDecision | None] = {}
        self._by_seq: dict[int, _CachedDecision] = {}
        self._events: dict[int, Event] = {}  # that settled cached decisions
        self._oldest: float | None = None  # no pending decision is older; None: unknown

    def _execute(self, statement: str, values: Any = ()) -> Any:
        return self.connection.execute(statement, values, binary=True)

    def _read(self, query: str, values: Any = ()) -> Any:
        """Return the answer to a query; a transaction that writes locks the log first."""
        if self.locks:
            self._head()
        self.flush()
        return self._execute(query, values)

    def _one(self, query: str, values: Any = ()) -> Any:
        return self._read(query, values).fetchone()

    def _integer(self, query: str, values: Any = ()) -> int | None:
        row = self._one(query, values)
        return None if row is None else int(row[0])

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"log": self.log, "pruned": self.get("pruned"), **values}

    def _all(self, query: str, values: Any = ()) -> list[Any]:
        rows: list[Any] = self._read(query, values).fetchall()
        return rows

    def _write(self, statement: str, values: Any) -> None:
        """Send a statement, and do not wait for it."""
        self._head()
        self._execute(statement, values)

    # Batches of statements

    def expect(self, ids: Sequence[str]) -> None:  # noqa: D102
        missing = [id for id in dict.fromkeys(ids) if id not in self._by_id]
        if not missing:
            return
        self.flush()
        head = self._send_head()  # three queries, one round trip
        pending = self._execute(sql.FIND, (self.log, missing))
        oldest = self._execute(sql.OLDEST, (self.log,)) if self._oldest is None else None
        self._receive_head(head)
        if oldest is not None:
            row = oldest.fetchone()
            self._oldest = math.inf if row is None else row[0]
        for row in pending.fetchall():
            self._cache(row)
        settled = [id for id in missing if id not in self._by_id]
        if settled:
            for row in self._all(sql.FIND_SETTLED, (self.log, self.get("pruned"), settled)):
                position, *event = row[6:]
                self._cache(row, position)
                self._events[position] = Event(position, *event)
        for id in settled:
            self._by_id.setdefault(id, None)

    def _cache(self, row: Any, settled: int | None = None) -> DecisionStatus:
        id, seq, time, active, rewards, names = row[:6]
        if settled is None and self._oldest is not None:
            self._oldest = min(self._oldest, time)
        status = DecisionStatus(seq, time, settled, bool(active))
        decision = _CachedDecision(status, list(zip(rewards or [], names or [], strict=True)))
        self._by_id[id] = self._by_seq[seq] = decision
        return status

    def _clear_cache(self) -> None:
        self.flush()
        self._by_id.clear()
        self._by_seq.clear()
        self._events.clear()
        self._oldest = None

    def flush(self) -> None:  # noqa: D102
        if self._inserts:
            inserts, self._inserts = self._inserts, []
            self._insert_all(inserts)
        if self._appends:
            appends, self._appends = self._appends, []
            self.connection.cursor().executemany(sql.SETTLE, [(self.log, *append) for append in appends])
        if self._changed:
            self._changed = False
            head = dict(self._values or {})
            last, pruned = head.pop("last"), head.pop("pruned")
            self._execute(sql.SET_HEAD, (last, pruned, Jsonb(head), self.log))

    def _insert_all(self, inserts: list[tuple[Row, int, str | None]]) -> None:
        """Insert decisions; raise a TakenIdError if one of their names is taken, a GoneLogError if the log was deleted.

        Inserting before looking for settled decisions of the same ID closes the race with other processes. Without the
        lock of the log, the log may have been deleted.
        """
        inserted = self.connection.cursor()
        inserted.executemany(sql.INSERT, [(self.log, position, *row) for row, position, _ in inserts], returning=True)
        names = {row[0]: name for row, _, name in inserts if name is not None}
        if names:
            others = [rivals(id, name)[1] for id, name in names.items()]
            conflicts = self._execute(sql.TAKEN, {"log": self.log, "settled": [*names, *others], "pending": others})
        exists = self._execute(sql.LOG_EXISTS, (self.log,))
        if exists.fetchone() is None:
            raise _gone()
        for row, _, name in inserts:  # a result for each
            if inserted.fetchone() is None:
                raise taken(name or row[0])
            inserted.nextset()
        for (conflict,) in conflicts.fetchall() if names else ():
            raise taken(next(name for id, name in names.items() if conflict in rivals(id, name)))

    # Values of the log

    def _head(self) -> dict[str, Any]:
        """Return the log's values; a transaction that writes locks them."""
        return self._receive_head(self._send_head())

    def _send_head(self) -> Any:
        if self._values is not None:
            return None
        return self._execute(sql.LOCKED_HEAD if self.locks else sql.HEAD, (self.log,))

    def _receive_head(self, answer: Any) -> dict[str, Any]:
        if self._values is None:
            row = answer.fetchone()
            if row is None:
                raise _gone()
            self._values = {"last": row[0], "pruned": row[1], **row[2]}
        return self._values

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
        pending = self._integer(sql.COUNT_PENDING, (self.log,)) or 0
        kinds = {key.removeprefix("count "): value for key, value in head.items() if key.startswith("count ")}
        return {"pending": pending, **kinds}

    def nbytes(self) -> int:
        """Return the size of all tables, of all logs together."""
        return self._integer(sql.SIZE) or 0

    # Decisions

    def insert(self, row: Row, position: int, name: str | None = None) -> None:  # noqa: D102
        self._inserts.append((row, position, name))

    def taken(self, ids: Sequence[str]) -> bool:  # noqa: D102
        self.flush()
        values = {"log": self.log, "settled": list(ids), "pending": list(ids)}
        return self._execute(sql.TAKEN, values).fetchone() is not None  # without the lock

    def find(self, id: str) -> DecisionStatus | None:  # noqa: D102
        self.expect([id])
        decision = self._by_id[id]
        return None if decision is None else decision.status

    def overdue(self, before: float) -> list[DecisionStatus]:  # noqa: D102
        if self._oldest is not None and self._oldest > before:
            return []
        overdue = [self._cache(row) for row in self._all(sql.OVERDUE, (self.log, before))]
        self._oldest = math.nextafter(before, math.inf)  # the caller settles them
        return overdue

    def oldest(self) -> float | None:  # noqa: D102
        row = self._one(sql.OLDEST, (self.log,))
        return None if row is None else float(row[0])

    def activate(self, seq: int) -> None:  # noqa: D102
        self._clear_cache()
        self._write(sql.ACTIVATE, (self.log, seq))

    def decision(self, id: str) -> StoredDecision | None:  # noqa: D102
        pruned = self.get("pruned")
        row = self._one(sql.PENDING_DECISION, (self.log, id))
        row = row or self._one(sql.SETTLED_DECISION, (self.log, id, pruned))
        return None if row is None else _decision(row)

    def decisions(self, filter: DecisionFilter, after: int, limit: int) -> list[StoredDecision]:  # noqa: D102
        rows = self._all(sql.DECISIONS[filter], self._named(after=after, limit=limit))
        return [_decision(row) for row in rows]

    def newest(self, count: int) -> int:  # noqa: D102
        return self._integer(sql.NEWEST, self._named(count=count, limit=count + 1)) or 0

    def latest(self, key: str, since: float) -> str | None:  # noqa: D102
        row = self._one(sql.LATEST, self._named(key=key, since=since))
        return None if row is None else str(row[0])

    def unrewarded(self, after: int) -> int:  # noqa: D102
        return self._integer(sql.UNREWARDED, self._named(after=after)) or 0

    # Rewards

    def add_reward(self, seq: int, time: float, reward: float, name: str | None) -> None:  # noqa: D102
        self._write(sql.ADD_REWARD, (self.log, seq, time, reward, name))
        if seq in self._by_seq:
            self._by_seq[seq].rewards.append((reward, name))

    def rewards(self, seq: int) -> list[tuple[float, str | None]]:  # noqa: D102
        if seq in self._by_seq:
            return list(self._by_seq[seq].rewards)
        return self._all(sql.REWARDS, (self.log, seq))

    # Events

    def append(self, time: float, kind: str, seq: int | None, reward: float | None, change: str | None = None) -> int:  # noqa: D102
        position, token = int(self.get("last")) + 1, secrets.token_hex(8)
        self.put("last", position)
        self._count(kind, 1)
        self.news = True
        if seq is None:
            values = (self.log, position, time, kind, change, token)
            self._execute(sql.APPEND, values)
            if change is not None:
                self._execute(sql.ADD_CHANGE, values)
            return position
        self._appends.append((seq, position, time, kind, reward, token))
        if seq in self._by_seq:
            decision = self._by_seq[seq]
            decision.status = decision.status._replace(settled=position)
            self._events[position] = Event(position, kind, reward, None, token)
        return position

    def relabel(self, position: int, kind: str) -> None:  # noqa: D102
        self._clear_cache()
        (before,) = self._one(sql.KIND, (self.log, position))
        self._write(sql.RELABEL, (kind, self.log, position))
        self._count(before, -1)
        self._count(kind, 1)

    def event(self, position: int) -> Event | None:  # noqa: D102
        if position in self._events:
            return self._events[position]
        row = self._one(sql.EVENT, (self.log, position)) if position > self.get("pruned") else None
        return None if row is None else Event(*row)

    def events(self, after: int, upto: int, limit: int) -> list[Event]:  # noqa: D102
        rows = self._all(sql.EVENTS, (self.log, max(after, self.get("pruned")), upto, limit))
        return [Event._make((*row[:5], row[5:])) for row in rows]

    def changes(self, after: int = 0, before: int | None = None) -> list[tuple[str, str]]:  # noqa: D102
        return self._all(sql.CHANGES, (self.log, after, before, before))

    def last(self) -> int:  # noqa: D102
        return int(self.get("last"))

    def first_after(self, position: int, time: float) -> int | None:  # noqa: D102
        return self._integer(sql.FIRST_AFTER, (self.log, max(position, self.get("pruned")), time))

    # Batches

    def next_batch(self, position: int) -> tuple[int | None, int | None]:  # noqa: D102
        batch: tuple[int, int] | None = self._one(sql.NEXT_BATCH, (self.log, position))
        return batch or (None, None)

    def add_batch(self, position: int, end: int) -> None:  # noqa: D102
        self._write(sql.ADD_BATCH, (self.log, position, end))

    # Models

    def add_model(self, position: int, time: float, data: bytes) -> int:  # noqa: D102
        version = int(self.get("version")) + 1
        self.put("version", version)
        self.put("published", position)
        self._write(sql.ADD_MODEL, (self.log, version, position, time, data))
        self._write(sql.DELETE_MODELS, (self.log, version - MAX_MODELS))
        self.news = True
        return version

    def published(self) -> int:  # noqa: D102
        return int(self.get("published") or 0)

    def model(self, after: int) -> Model | None:  # noqa: D102
        row = self._one(sql.MODEL, (self.log, after))
        return None if row is None else Model(*row)

    # Proofs

    def proofs(self) -> list[str]:  # noqa: D102
        return [name for (name,) in self._all(sql.PROOFS, (self.log,))]

    def proof(self, name: str) -> tuple[int, str] | None:  # noqa: D102
        row: tuple[int, str] | None = self._one(sql.PROOF, (self.log, name))
        return row

    def put_proof(self, name: str, seq: int, sums: str) -> None:  # noqa: D102
        self._write(sql.PUT_PROOF, (self.log, name, seq, sums))

    def count_after(self, seq: int) -> int:  # noqa: D102
        return self._integer(sql.COUNT_AFTER, self._named(after=seq)) or 0

    # Deleting

    def prune(self, upto: int) -> None:
        """Delete the events up to a position: no reader sees them from now on, and `partitions` deletes their rows."""
        self._clear_cache()
        values = self._named(upto=upto)
        for kind, count in self._all(sql.PRUNED_KINDS, values):
            self._count(kind, -count)
        for statement in sql.PRUNE:
            self._write(statement, values)
        self.put("pruned", upto)

    def erase(self, key: str) -> int:  # noqa: D102
        self._clear_cache()
        values = self._named(key=key)
        for statement in sql.ERASE_REWARDS:
            self._write(statement, values)
        kinds = self._all(sql.ERASED_KINDS, values)
        self._write(sql.ERASE_EVENTS, values)
        for kind, count in kinds:
            self._count(kind, -count)
            self._count("erased", count)
        return (self._integer(sql.ERASE_PENDING, values) or 0) + sum(int(count) for _, count in kinds)


def new_head(id: str) -> dict[str, Any]:
    """Return the initial values of a new log."""
    kinds = ("reward", "default", "dropped", "discarded", "erased")
    return {"id": id, "late": 0, "epoch": 0, "version": 0, **{f"count {kind}": 0 for kind in kinds}}


def _gone() -> GoneLogError:
    return GoneLogError("the log was deleted from the database while it was open")


def _decision(row: Any) -> StoredDecision:
    return StoredDecision._make((*row[:4], row[4:]))
