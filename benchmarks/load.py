"""A load on loopback: HTTP/1.1 over connections that stay open, in as little code as measures it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

END, LENGTH = b"\r\n\r\n", b"content-length: "


class Served(NamedTuple):
    """An answer: its status, its body, and the seconds that it took."""

    status: int
    body: bytes
    seconds: float


class Connection(asyncio.Protocol):
    """One request at a time, and its answer; bodies come with their length."""

    def __init__(self) -> None:
        self._buffer, self._answer = b"", asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Look whether the answer is complete."""
        self._buffer += data
        head = self._buffer.find(END)
        if head < 0:
            return
        at = self._buffer.find(LENGTH, 0, head)
        length = 0 if at < 0 else int(self._buffer[at + len(LENGTH) : self._buffer.index(b"\r\n", at)])
        if len(self._buffer) >= head + len(END) + length:
            answer, self._buffer = self._buffer, b""
            self._answer.set_result((int(answer[9:12]), answer[head + len(END) :]))

    def connection_lost(self, error: Exception | None) -> None:
        """Say so to whoever waits."""
        if not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server has closed the connection"))

    async def ask(self, message: bytes, since: float | None = None) -> Served:
        """Send a request and return its answer; its time counts from ``since``, or from now."""
        began = time.perf_counter() if since is None else since
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        status, body = await self._answer
        return Served(status, body, time.perf_counter() - began)

    def close(self) -> None:
        """Hang up."""
        if not self._answer.done():
            self._answer.cancel()
        self._transport.close()


def post(path: str, body: bytes, key: str) -> bytes:
    """Return the bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nOcp-Apim-Subscription-Key: {key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def opened(port: int, n: int) -> list[Connection]:
    """Return connections."""
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(n)]


async def closed_loop(port: int, messages: Iterator[bytes], requests: int, connections: int) -> list[Served]:
    """Return the answers to requests; each connection sends the next one when it has its answer."""
    served: list[Served] = []
    left = iter(range(requests))

    async def work(connection: Connection) -> None:
        served.extend([await connection.ask(next(messages)) for _ in left])
        connection.close()

    await asyncio.gather(*(work(connection) for connection in await opened(port, connections)))
    return served


async def open_loop(
    port: int, messages: Iterator[bytes], requests: int, rate: float, then: Callable[[bytes], bytes] | None
) -> list[Served]:
    """Return the answers to requests that come at a rate, whether or not the ones before were answered.

    Their times count from when they were due. ``then`` makes another request of each answer, which is sent at once and
    not timed.
    """
    served: list[Served] = []
    free = await opened(port, 8)
    everything, began = list(free), time.perf_counter()

    async def one(due: float) -> None:
        connection = free.pop() if free else (await opened(port, 1))[0]
        if connection not in everything:
            everything.append(connection)
        answer = await connection.ask(next(messages), due)
        served.append(answer)
        if then is not None:
            await connection.ask(then(answer.body))
        free.append(connection)

    tasks = []
    for number in range(requests):
        due = began + number / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    for connection in everything:
        connection.close()
    return served
