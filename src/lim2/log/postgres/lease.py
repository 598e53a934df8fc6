"""The lease of a log: an advisory lock that ends with its session, and a growing number.

One session of a process holds the locks of all its logs in a database. It says every few seconds that it is there. If
it does not, since the process stands still or the network is gone, the server ends it, and others get the locks.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

import psycopg

from lim2.log.postgres.connections import Address, Connection, connect, failure, is_quiet

LOCKS = 0x4C69  # the first half of the keys of these locks; the second is the number of the log
SILENCE = 10  # seconds after which the server ends a session that says nothing
BEAT = 2.5  # seconds between two signs of life


class PostgresLease:
    """The lock of a log; see `lim2.log.store.Lease`.

    Parameters
    ----------
    session
        Session that holds the lease.
    number
        Number of the log.
    epoch
        Number of the lease.
    """

    def __init__(self, session: Session, number: int, epoch: int) -> None:
        self._session, self._number, self.epoch = session, number, epoch

    @property
    def held(self) -> bool:
        """Whether the session has it, as far as this process knows without asking."""
        return self._session.has(self._number, self.epoch)

    def release(self) -> None:
        """Release the lease."""
        self._session.release(self._number, self.epoch)


class Session:
    """Separate session for the locks of all logs of a process in a database. It ends when the last lock is released.

    Parameters
    ----------
    address
        Address of a log in the database.
    """

    def __init__(self, address: Address) -> None:
        self._address, self._process, self._lock = address, os.getpid(), threading.Lock()
        self._connection: Connection | None = None
        self._held: dict[int, int] = {}  # number of a log -> epoch
        self._asked = 0.0  # when somebody last asked for a lock

    def lead(self, number: int) -> PostgresLease | None:
        """Return the right to learn from a log, None if somebody else has it.

        Parameters
        ----------
        number
            Number of the log.
        """
        with self._lock:
            if number in self._held and self._lives():
                return None  # a session could take its own lock once more
            try:
                connection = self._opened()
                got = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCKS, number)).fetchone()
                if got != (True,):
                    return None  # the session stays for a while: who stands by asks again
                row = connection.execute(
                    "UPDATE lim2.logs SET head = jsonb_set(head, '{epoch}', to_jsonb((head->>'epoch')::bigint + 1)) "
                    "WHERE log = %s RETURNING (head->>'epoch')::bigint",
                    (number,),
                ).fetchone()
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
        """Return whether the session is alive and holds a lock.

        Parameters
        ----------
        number
            Number of the log.
        epoch
            Number of the lease.
        """
        if self._process != os.getpid():  # the parent has it
            return False
        with self._lock:
            return self._lives() and self._held.get(number) == epoch

    def release(self, number: int, epoch: int) -> None:
        """Release a lock.

        Parameters
        ----------
        number
            Number of the log.
        epoch
            Number of the lease.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if self._lives() and self._held.get(number) == epoch:
                self._unlock(number)

    def _unlock(self, number: int) -> None:
        self._held.pop(number, None)
        try:
            if self._connection is not None and not self._connection.closed:  # at once: a closed session ends later
                self._connection.execute("SELECT pg_advisory_unlock(%s, %s)", (LOCKS, number))
        except psycopg.Error:
            self._end()
        if not self._held:
            self._end()

    def _opened(self) -> Connection:
        self._asked = time.monotonic()
        if self._connection is None or not self._lives():
            self._end()
            connection = self._connection = connect(self._address)
            with contextlib.suppress(psycopg.errors.UndefinedObject):  # before PostgreSQL 14
                connection.execute(f"SET idle_session_timeout = '{SILENCE}s'")
            threading.Thread(target=self._beat, args=(connection,), name="lim2-lease", daemon=True).start()
        return self._connection

    def _beat(self, connection: Connection) -> None:
        """Keep the session alive with regular statements."""
        wait = threading.Event()
        while not connection.closed:
            wait.wait(BEAT)
            with self._lock:
                if connection is not self._connection or not self._lives():
                    continue
                try:
                    connection.execute("SELECT 1")
                except psycopg.Error:
                    self._end()
                if not self._held and time.monotonic() - self._asked > BEAT:
                    self._end()

    def _lives(self) -> bool:
        connection = self._connection
        if connection is None:
            return False
        if not connection.closed and not is_quiet(connection):
            # Nothing is ever sent to this session that it has not asked for, but word of its end.
            try:
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection.close()
        return not connection.closed

    def _end(self) -> None:
        """Close the session; all locks are lost with it."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._held.clear()


_sessions: dict[str, Session] = {}
_lock = threading.Lock()
_inherited: list[Any] = []


def is_led(connection: Connection, number: int) -> bool:
    """Return whether any process holds the lease of a log.

    Parameters
    ----------
    connection
        Any connection to the database.
    number
        Number of the log.
    """
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = %s AND objid = %s)",
        (LOCKS, number),
    ).fetchone()
    return row == (True,)


def lead(address: Address, number: int) -> PostgresLease | None:
    """Return the right to learn from a log, None if somebody else has it.

    Parameters
    ----------
    address
        Address of the log.
    number
        Number of the log.
    """
    with _lock:
        session = _sessions.setdefault(address.conninfo, Session(address))
    return session.lead(number)


def _after_fork() -> None:
    global _sessions, _lock
    _inherited.append(_sessions)
    _sessions, _lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
