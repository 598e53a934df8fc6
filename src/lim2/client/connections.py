"""Pool of persistent connections, for threads."""

from __future__ import annotations

import http.client
import ssl
import threading
import weakref

from lim2.client.exchange import Address, Answer, Request

FAILURES = (OSError, http.client.HTTPException)  # a timeout is an OSError


class Connections:
    """Thread-safe pool of connections to one service.

    Parameters
    ----------
    address
        Address of the service.
    headers
        Headers of every request.
    tls
        SSL context for HTTPS; None: trust the system's certificates.
    idle
        Number of idle connections that are kept open.
    """

    failures = FAILURES

    def __init__(self, address: Address, headers: dict[str, str], tls: ssl.SSLContext | None, idle: int) -> None:
        self._address, self._headers, self._most = address, headers, idle
        self._tls = (tls or ssl.create_default_context()) if address.secure else None
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)  # of a client that nobody has closed

    def exchange(self, request: Request, timeout: float) -> Answer:
        """Send a request and return its answer; raise one of ``failures`` if there is none.

        Parameters
        ----------
        request
            The request.
        timeout
            Seconds for each step: connect, send, receive.
        """
        connection = self._taken(timeout)
        try:
            path = self._address.prefix + request.path
            connection.request(request.method, path, request.content, self._headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException as error:
            connection.close()
            if isinstance(error, FAILURES):
                self.close()  # the others are likely to be broken as well
            raise
        if connection.sock is not None:  # the service keeps it open
            self._keep(connection)
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        with self._lock:
            _close(self._idle)

    def _taken(self, timeout: float) -> http.client.HTTPConnection:
        with self._lock:
            found = self._idle.pop() if self._idle else None
        if found is not None:
            found.sock.settimeout(timeout)
            return found
        _, host, port, _ = self._address
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < self._most:
                self._idle.append(connection)
                return
        connection.close()


def _close(idle: list[http.client.HTTPConnection]) -> None:
    while idle:
        idle.pop().close()
