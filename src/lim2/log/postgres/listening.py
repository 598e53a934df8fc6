"""Word of other processes: one session of this process listens, for all of its logs in a database.

Who appends events or publishes a model says so by NOTIFY, with the number of the log, once that is committed, and in a
transaction of its own: NOTIFY lets those who commit with it wait for one another, in all of the server.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from lim2.log.errors import LogFileError
from lim2.log.postgres.connections import Address, Connection, connect

CHANNEL = "lim2"
RETRY = 1.0  # seconds from one attempt to connect to the next
Wake = Callable[[], None]


class Listener:
    """Thread that listens to notifications of a database. It ends with its last subscriber.

    Parameters
    ----------
    address
        Address of a log in the database.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._wakes: dict[int, list[Wake]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def add(self, number: int, wake: Wake) -> Callable[[], None]:
        """Call a function whenever there is word of a log; return what ends it.

        Parameters
        ----------
        number
            Number of the log.
        wake
            Function to call in this thread.
        """
        with self._lock:
            self._wakes.setdefault(number, []).append(wake)
            if self._thread is None:
                self._stopping = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._stopping,), name="lim2-listen", daemon=True
                )
                self._thread.start()

        def stop() -> None:
            with self._lock:
                own = self._wakes.get(number, [])
                if wake in own:
                    own.remove(wake)
                if not own:
                    self._wakes.pop(number, None)
                if not self._wakes and self._thread is not None:
                    self._stopping.set()
                    self._thread = None

        return stop

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                connection = connect(self._address)
            except LogFileError:
                stopping.wait(RETRY)
                continue
            try:
                self._hear(connection, stopping)
            except psycopg.Error:
                stopping.wait(RETRY)  # the database went away: connect anew
            finally:
                connection.close()

    def _hear(self, connection: Connection, stopping: threading.Event) -> None:
        connection.execute(f"LISTEN {CHANNEL}")
        self._wake(None)  # something may have been missed before
        while not stopping.is_set():
            for notice in connection.notifies(timeout=RETRY, stop_after=1):
                if notice.payload.isdecimal():  # the channel is open to all users of the database
                    self._wake(int(notice.payload))

    def _wake(self, number: int | None) -> None:
        with self._lock:
            wakes = [wake for key, own in self._wakes.items() if number in (None, key) for wake in own]
        for wake in wakes:
            wake()


_listeners: dict[str, Listener] = {}
_lock = threading.Lock()
_inherited: list[Any] = []


def listen(address: Address, number: int, wake: Wake) -> Callable[[], None]:
    """Call a function whenever there is word of a log; return what ends it.

    Parameters
    ----------
    address
        Address of the log.
    number
        Number of the log.
    wake
        Function to call, as for `lim2.log.store.Store.listen`.
    """
    with _lock:
        listener = _listeners.setdefault(address.conninfo, Listener(address))
    return listener.add(number, wake)


def tell(connection: Connection, number: int) -> None:
    """Notify subscribers of a log.

    Parameters
    ----------
    connection
        Connection outside of a transaction.
    number
        Number of the log.
    """
    with connection.pipeline():
        connection.execute("BEGIN")
        connection.execute("SET LOCAL synchronous_commit = off")  # it need not survive a crash
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(number)))
        connection.execute("COMMIT")


def _after_fork() -> None:
    global _listeners, _lock
    _inherited.append(_listeners)
    _listeners, _lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
