"""Connections as uvicorn serves them, but the head of a request may be neither without end nor without a limit in time.

Of the two parsers that uvicorn uses, httptools takes heads of any length. With both, a client that does not finish a
head would keep its connection forever; here it has as long as a connection may be idle.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD = 65_536  # bytes of a request line and its headers


class Guarded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of a client."""

    _timer: asyncio.TimerHandle | None = None
    _in_head, _size = False, 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

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
        self._in_head = False
        super().on_headers_complete()

    def _watch(self) -> None:
        """Wait for the head of a request, unless one is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
