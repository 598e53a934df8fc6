"""The board of snapshots in a PostgreSQL database: a table, and notifications."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from lim2.log.postgres.connections import Address, Connection
from lim2.log.postgres.listening import listen, notify
from lim2.serve.snapshots import Snapshot

Run = Callable[[Callable[[Connection], Any]], Any]

_POST = """INSERT INTO lim2.snapshots AS s (bandit, version, position, content) VALUES (%s, %s, %s, %s)
    ON CONFLICT (bandit) DO UPDATE
    SET version = excluded.version, position = excluded.position, content = excluded.content
    WHERE s.version < excluded.version"""
_FAIL = """INSERT INTO lim2.snapshots AS s (bandit, failure) VALUES (%s, %s)
    ON CONFLICT (bandit) DO UPDATE SET failure = excluded.failure WHERE s.failure IS DISTINCT FROM excluded.failure"""
_CLEAR = "UPDATE lim2.snapshots SET failure = NULL WHERE bandit = %s AND failure IS NOT NULL"
_NUMBER = "SELECT l.log FROM lim2.bandits b JOIN lim2.logs l ON l.name = b.log WHERE b.name = %s"


class PostgresBoard:
    """A row per bandit. A notification of minus the number of a log says that there is a new snapshot."""

    seconds_per_byte = 1 / 20e6  # of network and disk

    def __init__(self, address: Address, run: Run, connected: Run) -> None:
        self._address, self._run, self._connected = address, run, connected
        self._news, self._changed = set[str](), threading.Condition()
        self._woken = False

    def post(self, name: str, snapshot: Snapshot) -> None:  # noqa: D102
        content = msgspec.msgpack.encode(snapshot)
        self._write(name, _POST, (name, snapshot.version, snapshot.position, content))

    def _write(self, name: str, query: str, values: tuple[Any, ...]) -> None:
        def work(connection: Connection) -> Any:
            changed = connection.execute(query, values).rowcount
            return connection.execute(_NUMBER, (name,)).fetchone() if changed else None

        row = self._run(work)
        if row is not None:
            self._connected(lambda connection: notify(connection, -row[0]))

    def latest(self, name: str, after: int) -> Snapshot | None:  # noqa: D102
        query = "SELECT content FROM lim2.snapshots WHERE bandit = %s AND version > %s AND content IS NOT NULL"
        row = self._run(lambda connection: connection.execute(query, (name, after)).fetchone())
        try:
            return None if row is None else msgspec.msgpack.decode(row[0], type=Snapshot)
        except msgspec.DecodeError as error:
            raise ValueError(f"the snapshot of the bandit {name!r} is damaged: {error}") from error

    def fail(self, name: str, reason: str | None) -> None:  # noqa: D102
        if reason is None:
            self._write(name, _CLEAR, (name,))
        else:
            self._write(name, _FAIL, (name, reason.replace("\0", "")))

    def failures(self) -> dict[str, str]:  # noqa: D102
        query = "SELECT bandit, failure FROM lim2.snapshots WHERE failure IS NOT NULL"
        return dict(self._run(lambda connection: connection.execute(query).fetchall()))

    def forget(self, name: str) -> None:
        """Delete the snapshot of a bandit that is deleted."""
        self._run(lambda connection: connection.execute("DELETE FROM lim2.snapshots WHERE bandit = %s", (name,)))

    def follow(self, name: str, log: Any) -> Callable[[], None]:  # noqa: D102
        return listen(self._address, -log.store.inner.number, lambda: self.notice(name))

    def tell(self, name: str) -> None:
        """Do nothing: whoever writes to a log notifies others."""

    def notice(self, name: str) -> None:  # noqa: D102
        with self._changed:
            self._news.add(name)
            self._changed.notify_all()

    def wait(self, seconds: float) -> set[str]:  # noqa: D102
        with self._changed:
            self._changed.wait_for(lambda: self._news or self._woken, max(seconds, 0.0))
            found, self._news, self._woken = self._news, set(), False
            return found

    def wake(self) -> None:  # noqa: D102
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        """Do nothing: the connections are the catalog's."""
