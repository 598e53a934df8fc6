"""Bandits in a PostgreSQL database, beside their logs. For processes of any number of machines."""

import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg

from lim2.log import DecisionLog, LogFileError
from lim2.log.postgres.connections import MAX_CONNECTIONS, Connection, check_sessions, failure, parsed, release, shared
from lim2.log.postgres.listening import notify
from lim2.log.postgres.migrating import migrate
from lim2.log.postgres.removing import remove_log
from lim2.log.postgres.sql import STATE
from lim2.log.postgres.states import state_of
from lim2.log.store import Result
from lim2.serve.catalog.base import Added, Listed, NoBanditError, no_bandit
from lim2.serve.catalog.logs import new_log
from lim2.serve.catalog.postgres_board import PostgresBoard
from lim2.serve.outage import GuardedStore, Outage
from lim2.serve.spec import Stored, kept_for, read_stored

_WAITING = """
SELECT b.name, b.stamp FROM lim2.bandits b JOIN lim2.logs l ON l.name = b.log
WHERE b.stamp > b.looked OR l.last > coalesce((l.head ->> 'published')::bigint, 0) OR EXISTS (
    SELECT FROM lim2.pending p
    WHERE p.log = l.log AND p.time <= %s - ((l.head ->> 'settings')::jsonb ->> 0)::double precision
)
ORDER BY b.name
"""

_AGED = """
SELECT b.name FROM unnest(%s::text[], %s::float8[]) AS given (name, until)
JOIN lim2.bandits b ON b.name = given.name JOIN lim2.logs l ON l.name = b.log
WHERE until >= (
    SELECT e.time FROM lim2.events e WHERE e.log = l.log AND e.position > l.pruned ORDER BY e.position LIMIT 1
)
ORDER BY b.name
"""

_PAGE = f"""
SELECT b.name, b.description, coalesce(s.position, 0), {STATE} FROM lim2.bandits b
JOIN lim2.logs l ON l.name = b.log LEFT JOIN lim2.snapshots s ON s.bandit = b.name
WHERE b.name > %s ORDER BY b.name LIMIT %s
"""

TOKEN = 4  # bytes that tell a log from an earlier one of a bandit of the same name


class PostgresCatalog:
    """The bandits of a database."""

    shared = True

    def __init__(self, url: str, outage: Outage, synchronous: str = "full") -> None:
        if "#" in url:
            raise ValueError("the address of a store names a database, not a log in it: leave out what follows the #")
        self._url, self._synchronous, self.outage = url, synchronous, outage
        own = parsed(url)
        self._address = own._replace(masked=own.masked.partition("#")[0])
        self._connections = shared(self._address, synchronous)
        self.board = PostgresBoard(self._address, self._run, self._with)
        self._migrated = False
        # Who changes a description has a connection, and may need another one: some are left for that.
        self._changing = threading.Semaphore(MAX_CONNECTIONS // 4)

    @property
    def name(self) -> str:  # noqa: D102
        return self._address.masked

    def ping(self) -> None:  # noqa: D102
        self._run(lambda connection: connection.execute("SELECT 1"))

    def _run(self, work: Callable[[Connection], Result]) -> Result:
        """Return what some work does within a transaction."""

        def within(connection: Connection) -> Result:
            with connection.transaction():
                return work(connection)

        return self._with(within)

    def _with(self, work: Callable[[Connection], Result]) -> Result:
        connection = self._connections.take()
        try:
            if not self._migrated:
                check_sessions(connection, self._address)
                migrate(connection, self._address)
                self._migrated = True
            return work(connection)
        except psycopg.Error as error:
            raise failure(self._address, error) from error
        finally:
            self._connections.give_back(connection)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._run(lambda connection: connection.execute(query, values).fetchall())

    def key(self) -> str:  # noqa: D102
        return self.agreed_key(secrets.token_urlsafe(32))

    def agreed_key(self, new: str) -> str:
        """Return the key that the database keeps, which is a new one if it has none."""
        self._rows("INSERT INTO lim2.service VALUES ('api key', %s) ON CONFLICT DO NOTHING RETURNING 1", new)
        return str(self._rows("SELECT value FROM lim2.service WHERE name = 'api key'")[0][0])

    # Descriptions

    def names(self) -> list[str]:  # noqa: D102
        return [name for (name,) in self._rows("SELECT name FROM lim2.bandits ORDER BY name")]

    def count(self) -> int:  # noqa: D102
        return int(self._rows("SELECT count(*) FROM lim2.bandits")[0][0])

    def page(self, after: str, limit: int, logs: Mapping[str, DecisionLog]) -> list[Listed]:  # noqa: ARG002, D102
        now, rows = time.time(), self._rows(_PAGE, after, limit)
        return [_listed(name, text, position, state, now) for name, text, position, *state in rows]

    def stamp(self, name: str) -> Hashable:  # noqa: D102
        rows = self._rows("SELECT stamp FROM lim2.bandits WHERE name = %s", name)
        if not rows:
            raise no_bandit(name)
        return int(rows[0][0])

    def read(self, name: str) -> Stored:  # noqa: D102
        return self._run(lambda connection: _read(connection, name))

    def create(self, name: str, stored: Stored) -> Stored | None:  # noqa: D102
        new_log(self.address_of(stored.log), stored, self._synchronous).close()
        made = False
        try:
            made = self.adopt(name, stored)
        finally:
            if not made:
                self.delete_log(name, stored.log)
        return None if made else self.read(name)

    def adopt(self, name: str, stored: Stored, documents: Sequence[tuple[str, str, bytes]] = ()) -> bool:
        """Make a bandit whose log is there already; return False if the name is taken."""

        def adopted(connection: Connection) -> bool:
            query = "INSERT INTO lim2.bandits (name, description, log) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            if not connection.execute(query, (name, _text(stored), stored.log)).rowcount:
                return False
            for kind, id, content in documents:
                PostgresDocuments(lambda work: work(connection), name, kind).put(id, content)
            return True

        return self._run(adopted)

    def change(self, name: str, work: Callable[[Stored], Stored]) -> Stored:  # noqa: D102
        def changed(connection: Connection) -> tuple[str, Stored]:
            before = _read(connection, name, " FOR UPDATE")
            new = work(before)
            connection.execute(
                "UPDATE lim2.bandits SET description = %s, log = %s, stamp = nextval('lim2.stamps') WHERE name = %s",
                (_text(new), new.log, name),
            )
            return before.log, new

        with self._changing:
            log, new = self._run(changed)
        self._tell(log)  # the one that others have open, also if the bandit has begun another
        return new

    def delete(self, name: str) -> None:  # noqa: D102
        def deleted(connection: Connection) -> Stored:
            stored = _read(connection, name, " FOR UPDATE")
            connection.execute("DELETE FROM lim2.bandits WHERE name = %s", (name,))
            connection.execute("DELETE FROM lim2.documents WHERE bandit = %s", (name,))
            connection.execute("DELETE FROM lim2.snapshots WHERE bandit = %s", (name,))
            return stored

        stored = self._run(deleted)
        self._tell(stored.log)  # those who have it open look, and let go of it
        self.delete_log(name, stored.log)

    def _tell(self, log: str) -> None:
        for (number,) in self._rows("SELECT log FROM lim2.logs WHERE name = %s", log):
            for own in (number, -number):  # learners, and deciders
                self._with(lambda connection: notify(connection, own))  # noqa: B023

    # Which bandits have something to learn, without opening them

    def waiting(self, now: float) -> dict[str, int]:
        """Return the bandits with events after their latest model, with decisions that are overdue, or changed."""
        return dict(self._rows(_WAITING, now))

    def aged(self, now: float) -> list[str]:
        """Return the bandits with events that are kept for longer than their descriptions say."""
        limits = {}
        for name, text in self._rows("SELECT name, description FROM lim2.bandits"):
            with contextlib.suppress(LogFileError):  # the learner says so when it has something to learn
                keep = kept_for(_stored(name, text))
                if keep is not None:
                    limits[name] = now - keep.total_seconds()
        return [name for (name,) in self._rows(_AGED, list(limits), list(limits.values()))]

    def looked(self, stamps: Mapping[str, int]) -> None:
        """Note that the one who learns has looked at descriptions: they are not waiting because of these any more."""
        query = (
            "UPDATE lim2.bandits b SET looked = given.stamp "
            "FROM unnest(%s::text[], %s::bigint[]) AS given (name, stamp) "
            "WHERE b.name = given.name AND b.looked < given.stamp RETURNING 1"
        )
        if stamps:
            self._rows(query, list(stamps), list(stamps.values()))

    # Logs

    def log_name(self, name: str, revision: int) -> str:
        """Return a name that no log has had: who still has an earlier one open must not meet this one."""
        return f"{name}/{revision}-{secrets.token_hex(TOKEN)}"

    def open_log(self, name: str, stored: Stored) -> DecisionLog:  # noqa: D102
        address = self.address_of(stored.log)
        if self._rows("SELECT 1 FROM lim2.logs WHERE name = %s", stored.log):
            log = DecisionLog(address, keep=None, synchronous=self._synchronous)
        elif self.read(name).log == stored.log:
            log = new_log(address, stored, self._synchronous)
        else:
            raise NoBanditError(f"the log of the bandit {name!r} was deleted meanwhile")
        log.store = GuardedStore(log.store, self.outage)
        return log

    def delete_log(self, name: str, log: str) -> None:  # noqa: ARG002, D102
        self._run(lambda connection: remove_log(connection, log))

    def address_of(self, log: str) -> str:
        """Return the address of a log, for `lim2.DecisionLog`."""
        return f"{self._url}#{quote(log)}"

    # Documents

    def documents(self, name: str, kind: str) -> "PostgresDocuments":  # noqa: D102
        return PostgresDocuments(self._run, name, kind)

    def close(self) -> None:  # noqa: D102
        release(self._connections)


class PostgresDocuments:
    """A row per document."""

    def __init__(self, run: Callable[[Callable[[Connection], Any]], Any], bandit: str, kind: str) -> None:
        self._run, self._bandit, self._kind = run, bandit, kind

    def all(self) -> list[bytes]:  # noqa: D102
        query = "SELECT content FROM lim2.documents WHERE bandit = %s AND kind = %s"
        return [bytes(content) for (content,) in self._rows(query, self._bandit, self._kind)]

    def get(self, id: str) -> bytes | None:  # noqa: D102
        query = "SELECT content FROM lim2.documents WHERE bandit = %s AND kind = %s AND id = %s"
        rows = self._rows(query, *self._key(id))
        return bytes(rows[0][0]) if rows else None

    def put(self, id: str, content: bytes) -> None:  # noqa: D102
        query = (
            "INSERT INTO lim2.documents VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (bandit, kind, id) DO UPDATE SET content = excluded.content RETURNING 1"
        )
        self._rows(query, *self._key(id), content)

    def add(self, id: str, content: bytes, most: int) -> Added:  # noqa: D102
        def added(connection: Connection) -> Added:
            # Nobody adds another one meanwhile.
            connection.execute("SELECT FROM lim2.bandits WHERE name = %s FOR UPDATE", (self._bandit,))
            own = (self._bandit, self._kind)
            count = "SELECT count(*) FROM lim2.documents WHERE bandit = %s AND kind = %s"
            there = connection.execute(f"{count} AND id = %s", self._key(id)).fetchone()
            if there != (0,):
                return "taken"
            found = connection.execute(count, own).fetchone()
            if found is not None and found[0] >= most:
                return "full"
            connection.execute("INSERT INTO lim2.documents VALUES (%s, %s, %s, %s)", (*self._key(id), content))
            return "added"

        result: Added = self._run(added)
        return result

    def replace(self, id: str, content: bytes) -> None:  # noqa: D102
        query = "UPDATE lim2.documents SET content = %s WHERE bandit = %s AND kind = %s AND id = %s RETURNING 1"
        self._rows(query, content, *self._key(id))

    def delete(self, id: str) -> None:  # noqa: D102
        query = "DELETE FROM lim2.documents WHERE bandit = %s AND kind = %s AND id = %s RETURNING 1"
        self._rows(query, *self._key(id))

    def _key(self, id: str) -> tuple[str, str, str]:
        name = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()  # an id may have a zero byte
        return self._bandit, self._kind, name

    def _rows(self, query: str, *values: Any) -> list[Any]:
        found: list[Any] = self._run(lambda connection: connection.execute(query, values).fetchall())
        return found


def _read(connection: Connection, name: str, lock: str = "") -> Stored:
    row = connection.execute(f"SELECT description FROM lim2.bandits WHERE name = %s{lock}", (name,)).fetchone()
    if row is None:
        raise no_bandit(name)
    return _stored(name, row[0])


def _stored(name: str, text: str) -> Stored:
    try:
        return read_stored(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise LogFileError(
            f"the description of the bandit {name!r} cannot be read: {error}. A newer lim2 may have written it"
        ) from error


def _listed(name: str, text: str, position: int, row: Sequence[Any], now: float) -> Listed:
    try:
        state, saved = state_of(row, now)
        return Listed(name, _stored(name, text), state, max(position, saved))
    except LogFileError as error:
        return Listed(name, failure=str(error))


def _text(stored: Stored) -> str:
    return msgspec.json.encode(stored).decode()
