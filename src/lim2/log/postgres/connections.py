"""Connections to a database, shared by the logs of a process, and the errors when they are lost.

Threads borrow a connection for one transaction. If one fails, it and all idle ones are closed, and the next call
connects again: it fails at once, with the reason, while the database is unreachable, and works as soon as it is back.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lim2.log.errors import LogFileError, StoreUnavailableError
from lim2.log.postgres import sql

MAX_CONNECTIONS = 16  # of a process to one database, beside those of leases and notifications
MAINTENANCE_SECONDS = 3600.0  # after which a process maintains the partitions of a database again
TIMEOUT_SECONDS = 60  # for which another process may hold a lock, or be suspended within a transaction
Connection = psycopg.Connection[Any]
T = TypeVar("T")

# Defaults of the address. A lost network is noticed in seconds, not in hours as by libpq; and a writer does not connect
# to a standby, which the server may be for a while after a failover.
DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "client_encoding": "utf8",
    "fallback_application_name": "lim2",
    "target_session_attrs": "read-write",
}
VARIABLES = {
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}  # take precedence, too

SECRETS = ("password", "sslpassword")  # parameters of an address that no message shows

# The server has ended the session, or refuses one: it stops or starts, the session was idle, or there are too many.
ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300")
POOLER = "a pooler such as PgBouncer must run in session mode, since locks and notifications belong to a session."
ADVICE = {
    **dict.fromkeys(("26000", "42P05"), POOLER),  # a prepared statement of another session
    "25006": "the database is read-only: read_only=True opens a log to evaluate and to replay; or it is a standby.",
    "3D000": "make the database first: createdb.",
    "42501": "the user may not do that: grant it, or let the owner of the schema lim2 open the log once.",
    "53100": "the disk is full. Make room, and call again: nothing of this call was written.",
    "55P03": "another process has written for a minute. Look for one that hangs, and call again.",
}


class Address(NamedTuple):
    """Address of a log."""

    conninfo: str  # for libpq
    log: str  # its name within the database
    masked: str  # without the password


def parsed(text: str, read_only: bool = False) -> Address:
    """Return a parsed address; with ``read_only``, a server that takes no writes will do.

    Examples
    --------
    >>> parsed("postgresql://ann:secret@db.example/shop#clicks")[1:]
    ('clicks', 'postgresql://ann@db.example/shop#clicks')
    >>> parsed("postgresql://ann@db.example/shop?sslkey=a.pem&sslpassword=secret").masked
    'postgresql://ann@db.example/shop?sslkey=a.pem#default'
    """
    url, _, fragment = text.partition("#")
    name = unquote(fragment) or "default"
    try:
        options = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise ValueError(f"{_without_password(url)} is not a valid database address: {error}") from error
    if read_only:
        options.setdefault("target_session_attrs", "any")
    defaults = {
        key: value for key, value in DEFAULTS.items() if key not in options and VARIABLES.get(key, "") not in os.environ
    }
    return Address(make_conninfo(url, **defaults), name, f"{_without_password(url)}#{name}")


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(part for part in parts.query.split("&") if part.partition("=")[0] not in SECRETS)
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}{'?' if query else ''}{query}"


def connect(address: Address, synchronous: str = "full") -> Connection:
    """Return a new connection, in which every statement is a transaction unless one is begun."""
    try:
        connection: Connection = psycopg.connect(address.conninfo, autocommit=True)
    except psycopg.Error as error:
        raise failure(address, error) from error
    _alive.add(connection)
    try:
        commit = "on" if synchronous == "full" else "off"
        connection.execute(sql.SET_SESSION.format(synchronous=commit, timeout=TIMEOUT_SECONDS))
    except BaseException as error:
        connection.close()
        if isinstance(error, psycopg.Error):
            raise failure(address, error) from error
        raise
    return connection


def check_sessions(connection: Connection, address: Address) -> None:
    """Raise a LogFileError if a pooler lets several connections share a session."""
    session = connection.execute(sql.SESSION).fetchone()
    if session == (connection.info.backend_pid,):  # there is no pooler
        return
    second = connect(address)
    try:
        is_current = second.execute(sql.SESSION).fetchone() == session
    finally:
        second.close()
    if is_current:
        raise LogFileError(f"the database {address.masked} cannot be used: connections share a session; {POOLER}")


def is_quiet(connection: Connection) -> bool:
    """Return whether an idle connection is usable: the server sends nothing unasked, except when it ends."""
    return not connection.closed and not select.select([connection.fileno()], [], [], 0.0)[0]


def is_lost(error: BaseException | None) -> bool:
    """Return whether an error means that the database is unreachable, not that a statement was wrong."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate[:2] == "08" or error.sqlstate in ENDED


def failure(address: Address, error: psycopg.Error, committing: bool = False) -> LogFileError:
    """Return a database error as one that names the log and the remedy."""
    text = " ".join(str(error).split())
    if is_lost(error):
        if "session is read-only" in text:  # what libpq says when it finds no server that takes writes
            return StoreUnavailableError(f"the database {address.masked} cannot be written: {text}; {ADVICE['25006']}")
        advice = "it is unknown whether this call was written: give it the same id again" if committing else "try again"
        lost = StoreUnavailableError(f"the database {address.masked} cannot be reached: {text}; {advice}")
        lost.unknown = committing
        return lost
    remedy = ADVICE.get(error.sqlstate or "", "nothing of this call was written.")
    return LogFileError(f"the log {address.masked} cannot be used: {text}; {remedy}")


class Connections:
    """The connections of this process to one database."""

    def __init__(self, address: Address, synchronous: str) -> None:
        self._address, self._synchronous = address, synchronous
        self._room = threading.Semaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self.users = 0  # logs that are open
        self.maintain_at = time.monotonic() + MAINTENANCE_SECONDS

    def take(self) -> Connection:
        """Return a connection; raise a StoreUnavailableError if none is available."""
        if not self._room.acquire(timeout=TIMEOUT_SECONDS):
            raise StoreUnavailableError(
                f"the log {self._address.masked} cannot be reached: all {MAX_CONNECTIONS} connections of this process "
                f"have been in use for a minute"
            )
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if is_quiet(connection):
                return connection
            connection.close()
        try:
            return connect(self._address, self._synchronous)
        except BaseException:
            self._room.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Return a connection to the pool; close a failed one and all idle ones."""
        dropped: list[Connection] = []
        with self._lock:
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE and self.users:
                self._idle.append(connection)
            else:
                dropped = [connection, *self._idle]
                self._idle.clear()
        self._room.release()
        for idle in dropped:
            idle.close()

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """Yield a connection; roll back a transaction that is left open, or close a connection that cannot."""
        connection = self.take()
        try:
            yield connection
        finally:
            try:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
            except psycopg.Error:
                connection.close()
            self.give_back(connection)

    def close_idle(self) -> None:
        """Close the idle connections."""
        with self._lock:
            dropped, self._idle = self._idle, []
        for connection in dropped:
            connection.close()


class PerProcess(Generic[T]):
    """An object for each database, shared by the logs of a process; a forked process begins with none."""

    def __init__(self, create: Callable[[Address], T]) -> None:
        self._create, self._inherited = create, list[dict[str, T]]()  # the parent's, which nobody may use or close
        self._objects: dict[str, T] = {}
        self._lock = threading.Lock()
        _at_fork(self._forget)

    def get(self, address: Address) -> T:
        """Return the object for the database of a log."""
        with self._lock:
            return self._objects.setdefault(address.conninfo, self._create(address))

    def _forget(self) -> None:
        self._inherited.append(self._objects)
        self._objects, self._lock = {}, threading.Lock()


def _at_fork(call: Callable[[], None]) -> None:
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=call)


_alive: weakref.WeakSet[Connection] = weakref.WeakSet()  # all connections of this process
_opened: dict[tuple[str, str], Connections] = {}
_opening = threading.Lock()
_inherited: list[Any] = []  # connections that a fork has copied, and nobody may use


def shared(address: Address, synchronous: str) -> Connections:
    """Return the connections of this process to a database, for one more user."""
    key = (address.conninfo, synchronous)
    with _opening:
        connections = _opened.setdefault(key, Connections(address, synchronous))
        connections.users += 1
        return connections


def release(connections: Connections) -> None:
    """Release connections from `shared`; the last user closes them."""
    with _opening:
        connections.users -= 1
        if connections.users:
            return
        for key in [key for key, value in _opened.items() if value is connections]:
            del _opened[key]
    connections.close_idle()


def _after_fork() -> None:
    """Drop the parent's connections in a child process, where they would outlive it with their locks."""
    global _opened, _opening, _alive
    _inherited.append((_opened, list(_alive)))
    for connection in _alive:
        if not connection.closed:
            os.close(connection.fileno())
    _opened, _opening, _alive = {}, threading.Lock(), weakref.WeakSet()


_at_fork(_after_fork)
