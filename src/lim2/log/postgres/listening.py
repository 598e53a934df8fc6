"""Notifications of other processes: one session of this process listens, for all of its logs in a database.

A process that has appended events or published a model sends NOTIFY with the number of the log after the commit, in a
separate transaction: transactions with NOTIFY commit one after another in the whole server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from lim2.log.errors import LogFileError
from lim2.log.postgres import sql
from lim2.log.postgres.connections import Address, Connection, PerProcess, connect

CHANNEL = "lim2"
RETRY_SECONDS = 1.0  # between two attempts to connect
Wake = Callable[[], None]


class Listener:
    """Thread that listens to notifications of a database. It ends with its last subscriber."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._wakes: dict[int, list[Wake]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def add(self, number: int, wake: Wake) -> Callable[[], None]:
        """Call a function at each notification of a log; return the function that ends this."""
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
                wakes = self._wakes.get(number, [])
                if wake in wakes:
                    wakes.remove(wake)
                if not wakes:
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
                stopping.wait(RETRY_SECONDS)
                continue
            try:
                self._receive(connection, stopping)
            except psycopg.Error:
                stopping.wait(RETRY_SECONDS)  # the connection was lost: connect again
            finally:
                connection.close()

    def _receive(self, connection: Connection, stopping: threading.Event) -> None:
        connection.execute(sql.LISTEN.format(CHANNEL))
        self._wake(None)  # notifications may have been missed before
        while not stopping.is_set():
            for notice in connection.notifies(timeout=RETRY_SECONDS, stop_after=1):
                if notice.payload.removeprefix("-").isdecimal():  # the channel is open to all users of the database
                    self._wake(int(notice.payload))

    def _wake(self, number: int | None) -> None:
        with self._lock:
            wakes = [wake for key, functions in self._wakes.items() if number in (None, key) for wake in functions]
        for wake in wakes:
            wake()


_listeners = PerProcess(Listener)


def listen(address: Address, number: int, wake: Wake) -> Callable[[], None]:
    """Call a function at each notification of a log, or of minus its number; return the function that ends this."""
    return _listeners.get(address).add(number, wake)


def notify(connection: Connection, number: int) -> None:
    """Notify subscribers of a log; minus its number is that of its snapshots."""
    with connection.pipeline():
        connection.execute("BEGIN")
        connection.execute(sql.SET_ASYNCHRONOUS)
        connection.execute(sql.NOTIFY, (CHANNEL, str(number)))
        connection.execute("COMMIT")
