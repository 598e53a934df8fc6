"""Pool of persistent connections for coroutines: HTTP/1.1 over asyncio streams."""

from __future__ import annotations

import asyncio
import ssl

from lim2.client.exchange import Address, Answer, Request

FAILURES = (OSError, EOFError, asyncio.LimitOverrunError, ValueError)  # ValueError: the answer is not HTTP


class Streams:
    """Pool of connections to one service, for one event loop."""

    failures = FAILURES

    def __init__(self, address: Address, headers: dict[str, str], tls: ssl.SSLContext | None, limit: int) -> None:
        self._address = address
        self._tls = (tls or ssl.create_default_context()) if address.secure else None
        host = f"[{address.host}]" if ":" in address.host else address.host
        fields = {"Host": f"{host}:{address.port}", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._free = asyncio.Semaphore(limit)
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the first request

    async def exchange(self, request: Request, timeout: float) -> Answer:
        """Send a request and return its answer; raise one of ``failures`` if there is none."""
        self._loop = self._loop or asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("this AsyncClient belongs to another event loop: create one in each asyncio.run")
        async with asyncio.timeout(timeout), self._free:
            reader, writer = await self._connection()
            try:
                writer.write(self._message(request))
                await writer.drain()
                answer, is_persistent = await received(reader)
            except BaseException as error:
                writer.transport.abort()
                if isinstance(error, FAILURES):
                    self._drop()  # the others are likely to be broken as well
                raise
            if is_persistent:
                self._idle.append((reader, writer))
            else:
                writer.close()
            return answer

    async def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in idle), return_exceptions=True)

    def _drop(self) -> None:
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.transport.abort()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._idle:
            return self._idle.pop()
        return await asyncio.open_connection(self._address.host, self._address.port, ssl=self._tls)

    def _message(self, request: Request) -> bytes:
        content = request.content or b""
        length = f"Content-Length: {len(content)}\r\n" if request.content is not None else ""
        line = f"{request.method} {self._address.prefix}{request.path} HTTP/1.1\r\n"
        return f"{line}{self._head}{length}\r\n".encode("ascii") + content


async def received(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """Return the next answer on a connection, and whether the connection stays open."""
    status, headers = await _head(reader)
    while 100 <= status < 200:  # something is said before the answer
        status, headers = await _head(reader)
    is_persistent = headers.get("connection", "").lower() != "close"
    length = headers.get("content-length")
    if status in (204, 304):
        return Answer(status, headers, b""), is_persistent
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Answer(status, headers, await _chunks(reader)), is_persistent
    if length is not None:
        return Answer(status, headers, await reader.readexactly(int(length))), is_persistent
    return Answer(status, headers, await reader.read()), False  # until the service closes it


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if version != "HTTP/1.1":
        raise ValueError(f"the answer is not HTTP/1.1: {lines[0][:80]!r}")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).partition(b";")[0], 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    while (await reader.readline()).strip():  # trailers
        pass
    return b"".join(parts)
