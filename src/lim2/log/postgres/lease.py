"""The lease of a log: an advisory lock that ends with its session, and a growing number.

One session of a process holds the locks of all its logs in a database and sends a statement every few seconds. If none
arrives, because the process is suspended or the network is down, the server ends the session and frees the locks.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

import psycopg

from lim2.log.postgres import sql
from lim2.log.postgres.connections import Address, Connection, PerProcess, connect, failure, is_quiet

LOCKS = 0x4C69  # the first half of the keys of these locks; the second half is the number of the log
SESSION_TIMEOUT_SECONDS = 10  # after which the server ends an idle session
HEARTBEAT_SECONDS = 2.5


class PostgresLease:
    """The lease of a log, held by a session; see `lim2.log.store.Lease`."""

    def __init__(self, session: Session, number: int, epoch: int) -> None:
        self._session, self._number, self.epoch = session, number, epoch

    @property
    def held(self) -> bool:
        """Whether the session holds the lease, as far as this process knows without a query."""
        return self._session.has(self._number, self.epoch)

    def release(self) -> None:
        """Release the lease."""
        self._session.release(self._number, self.epoch)


class Session:
    """Separate session for the locks of all logs of a process in a database. It ends when the last lock is released."""

    def __init__(self, address: Address) -> None:
        self._address, self._process, self._lock = address, os.getpid(), threading.Lock()
        self._connection: Connection | None = None
        self._held: dict[int, int] = {}  # number of a log -> epoch
        self._requested_at = 0.0  # when a lock was last requested

    def lead(self, number: int) -> PostgresLease | None:
        """Return the lease of a log; None if another process holds it."""
        with self._lock:
            if number in self._held and self._lives():
                return None  # the session could take the same lock once more
            try:
                connection = self._opened()
                locked = connection.execute(sql.TRY_LEASE, (LOCKS, number)).fetchone()
                if locked != (True,):
                    return None  # the session stays for a while: a standby asks again
                row = connection.execute(sql.NEXT_EPOCH, (number,)).fetchone()
            except psycopg.Error as error:
                self._end()
                raise failure(self._address, error) from error
            except BaseException:
                self._end()
                raise
            if row is None:  # the log was deleted
                self._unlock(number)
                return None
            self._held[number] = int(row[0])
            return PostgresLease(self, number, self._held[number])

    def has(self, number: int, epoch: int) -> bool:
        """Return whether the session is alive and holds a lock."""
        if self._process != os.getpid():  # the parent holds it
            return False
        with self._lock:
            return self._lives() and self._held.get(number) == epoch

    def release(self, number: int, epoch: int) -> None:
        """Release a lock."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._lives() and self._held.get(number) == epoch:
                self._unlock(number)

    def _unlock(self, number: int) -> None:
        self._held.pop(number, None)
        try:
            if self._connection is not None and not self._connection.closed:  # at once: a closed session ends later
                self._connection.execute(sql.RELEASE_LEASE, (LOCKS, number))
        except psycopg.Error:
            self._end()
        if not self._held:
            self._end()

    def _opened(self) -> Connection:
        self._requested_at = time.monotonic()
        if self._connection is None or not self._lives():
            self._end()
            connection = self._connection = connect(self._address)
            with contextlib.suppress(psycopg.errors.UndefinedObject):  # before PostgreSQL 14
                connection.execute(sql.SET_SESSION_TIMEOUT.format(SESSION_TIMEOUT_SECONDS))
            threading.Thread(target=self._beat, args=(connection,), name="lim2-lease", daemon=True).start()
        return self._connection

    def _beat(self, connection: Connection) -> None:
        """Keep the session alive with regular statements."""
        wait = threading.Event()
        while not connection.closed:
            wait.wait(HEARTBEAT_SECONDS)
            with self._lock:
                if connection is not self._connection or not self._lives():
                    continue
                try:
                    connection.execute(sql.HEARTBEAT)
                except psycopg.Error:
                    self._end()
                if not self._held and time.monotonic() - self._requested_at > HEARTBEAT_SECONDS:
                    self._end()

    def _lives(self) -> bool:
        connection = self._connection
        if connection is None:
            return False
        if not connection.closed and not is_quiet(connection):
            # The server sends nothing to this session unasked, except when it ends it.
            try:
                connection.execute(sql.HEARTBEAT)
            except psycopg.Error:
                connection.close()
        return not connection.closed

    def _end(self) -> None:
        """Close the session; all locks are lost with it."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._held.clear()


_sessions = PerProcess(Session)


def is_led(connection: Connection, number: int) -> bool:
    """Return whether any process holds the lease of a log."""
    return connection.execute(sql.IS_LEASED, (LOCKS, number)).fetchone() == (True,)


def lead(address: Address, number: int) -> PostgresLease | None:
    """Return the lease of a log; None if another process holds it."""
    return _sessions.get(address).lead(number)
