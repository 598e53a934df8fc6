"""Connections as uvicorn serves them, but the head of a request may be neither without end nor without a limit in time.

Of the two parsers that uvicorn uses, httptools takes heads of any length. With both, a client that does not finish a
head would keep its connection forever; here it has as long as a connection may be idle.
"""

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from lim2.serve.operations import AUTHENTICATED, WHOLE

CHUNKED = b"transfer-encoding: chunked\r\n\r\n"  # the end of the head of an answer that comes in parts
HEAD = 65_536  # bytes of a request line and its headers


class Joined:
    """What an answer is written to: its head waits for the first part of its body, and both are sent as one."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._head, self._begun = transport, b"", False

    def write(self, data: bytes) -> None:
        """Write; what comes first is the head, and waits if a body of known length follows."""
        if not self._begun:
            self._begun = True
            if not data.endswith(CHUNKED):
                self._head = data
                return
        if self._head:
            data, self._head = self._head + data, b""
        self._transport.write(data)

    def close(self) -> None:
        """Write what waits, and close the connection."""
        if self._head:
            self.write(b"")
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Guarded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of a client.

    A process has at most ``max_connections``. One more closes the one that is idle for the longest time, of those that
    have not sent a key if there are any; if all are busy, the new one is closed.
    """

    max_connections = 1000
    _timer: asyncio.TimerHandle | None = None
    _in_head, _size = False, 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            idle = [one for one in self.connections if one is not self and one.is_idle]
            last = min(idle, key=Guarded.precedence, default=self)
            last.transport.close()
        self._watch()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def precedence(self) -> tuple[bool, float]:
        """Return whether the latest request had a key, and when the wait for the next one ends."""
        timer = self._timer or self.timeout_keep_alive_task
        has_key = self.cycle is not None and AUTHENTICATED in self.cycle.scope
        return has_key, math.inf if timer is None else timer.when()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        super().data_received(data)
        self._size = self._size + len(data) if self._in_head else 0
        if self._size > HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have {HEAD} bytes.")
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._rest()

    def on_message_begin(self) -> None:
        """Note that a head begins; httptools says so, and h11 has a limit of its own."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that a head is there."""
        self._in_head, before = False, self.cycle
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is not before and not self.expect_100_continue and self.scope["method"] != "HEAD":
            cycle.transport = Joined(cycle.transport)

    def on_message_complete(self) -> None:
        """Note that all of a request is there: nobody needs a limit in time to read it."""
        self.scope[WHOLE] = True
        super().on_message_complete()

    def _watch(self) -> None:
        """Wait for the head of a request, unless one is being answered."""
        if not self.is_idle:
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _give_up(self) -> None:
        if self.is_idle:
            self.transport.close()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
