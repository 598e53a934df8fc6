"""An answer in one packet: uvicorn writes its head and its body one after the other, and each would be sent alone."""

import asyncio
from typing import Any

END = b"\r\n\r\n"


class Joining:
    """A transport whose heads wait for what is written next, if that comes in the same pass of the event loop.

    Parameters
    ----------
    transport
        Sends what is written.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        """Send data, or keep a head.

        Parameters
        ----------
        data
            Of an answer.
        """
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(END):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what is kept, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            data, self._head = self._head, b""
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
