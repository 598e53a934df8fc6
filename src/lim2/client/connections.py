"""Pool of persistent connections, for threads."""

from __future__ import annotations

import http.client
import ssl
import threading
import weakref

from lim2.client.exchange import Address, Answer, Request

FAILURES = (OSError, http.client.HTTPException)  # a timeout is an OSError


class Connections:
    """Thread-safe pool of connections to one service."""

    failures = FAILURES

    def __init__(self, address: Address, headers: dict[str, str], tls: ssl.SSLContext | None, max_idle: int) -> None:
        self._address, self._headers, self._max_idle = address, headers, max_idle
        self._tls = (tls or ssl.create_default_context()) if address.secure else None
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)  # of a client that nobody has closed

    def exchange(self, request: Request, timeout: float) -> Answer:
        """Send a request and return its answer; raise one of ``failures`` if there is none."""
        connection = self._connection(timeout)
        try:
            path = self._address.prefix + request.path
            connection.request(request.method, path, request.content, self._headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException as error:
            connection.close()
            if isinstance(error, FAILURES):
                self.close()  # the other ones are probably broken, too
            raise
        if connection.sock is not None:  # the service keeps it open
            self._keep(connection)
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        with self._lock:
            _close(self._idle)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            connection.sock.settimeout(timeout)
            return connection
        _, host, port, _ = self._address
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < self._max_idle:
                self._idle.append(connection)
                return
        connection.close()


def _close(idle: list[http.client.HTTPConnection]) -> None:
    while idle:
        idle.pop().close()
