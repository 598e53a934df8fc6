"""Heads of requests that are too long, or never end: the connection is closed, and others do not notice.

And heads of answers, which are written together with their bodies.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from lim2.serve.connections import HEAD, Guarded
from lim2.serve.operations import AUTHENTICATED, WHOLE

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connection(patience: float) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config: Any = uvicorn.Config(application, http=Guarded, lifespan="off")
    config.timeout_keep_alive = patience
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Guarded(config, ServerState(), {}, loop), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        server.close()


def run(work: Callable[[Any, Any], Awaitable[None]], patience: float) -> None:
    async def connected() -> None:
        async with connection(patience) as (reader, writer):
            await work(reader, writer)

    asyncio.run(asyncio.wait_for(connected(), 30))


@pytest.mark.parametrize("first", [b"", GET + b"\r\n"], ids=["the first", "a later one"])
@pytest.mark.parametrize("more", [b"a", b"X: y\r\n"], ids=["one header", "many headers"])
def test_a_head_without_end_is_refused(first: bytes, more: bytes) -> None:
    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first:
            writer.write(first)
            assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(GET + b"X: ")
        for _ in range(10):
            writer.write(more * (HEAD // len(more) // 5))
            await asyncio.sleep(0)
        with suppress(ConnectionResetError):  # by what was still on its way
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")  # and the connection is closed

    run(work, patience=60)


@pytest.mark.parametrize("sent", [b"", GET], ids=["nothing", "half a head"])
@pytest.mark.parametrize("first", [b"", GET + b"\r\n"], ids=["the first", "a later one"])
def test_a_head_that_does_not_come_is_not_waited_for(first: bytes, sent: bytes) -> None:
    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first + sent)
        assert (await reader.read()).count(b" 204 ") == bool(first)  # until the service closes the connection

    run(work, patience=0.05)


def test_a_large_body_with_its_head_is_taken() -> None:
    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):  # it is answered before it is there
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000)
            await writer.drain()
            assert b" 204 " in await reader.readuntil(b"\r\n\r\n")

    run(work, patience=60)


class Written:
    """A transport that notes what is written at once."""

    def __init__(self) -> None:
        self.parts, self.closed = list[bytes](), False

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> None:
        """Know nothing."""


def written(request: bytes, *messages: dict[str, Any]) -> list[list[bytes]]:
    """Return what has been written after each message of the answer to a request, and when it has ended."""
    seen: list[list[bytes]] = []
    transport = Written()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)
            seen.append(list(transport.parts))

    async def main() -> None:
        config: Any = uvicorn.Config(answer, http=Guarded, lifespan="off", log_level="critical")
        config.load()
        state = ServerState()
        served = Guarded(config, state, {}, asyncio.get_running_loop())
        served.connection_made(transport)
        served.data_received(request)
        while state.tasks:
            await asyncio.sleep(0)
        seen.append(list(transport.parts))
        served.connection_lost(None)

    asyncio.run(asyncio.wait_for(main(), 30))
    return seen


def begun(**headers: str) -> dict[str, Any]:
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": fields}


def test_an_answer_is_written_at_once() -> None:
    body = {"type": "http.response.body", "body": b"hello"}
    head, whole, end = written(GET + b"\r\n", begun(**{"content-length": "5"}), body)
    assert head == []
    assert [part.partition(b"\r\n\r\n")[2] for part in whole] == [b"hello"] and end == whole
    nothing = {"type": "http.response.body", "body": b""}
    assert len(written(GET + b"\r\n", begun(**{"content-length": "0"}), nothing)[-1]) == 1


def test_the_head_of_an_answer_in_parts_does_not_wait() -> None:
    part = {"type": "http.response.body", "body": b"event", "more_body": True}
    head, first, *_ = written(GET + b"\r\n", begun(), part, {"type": "http.response.body", "body": b""})
    assert len(head) == 1 and len(first) == 2


def test_a_head_without_its_body_is_written_in_the_end() -> None:
    _, end = written(GET + b"\r\n", begun(**{"content-length": "5"}))  # the application fails before the body
    assert len(end) == 1 and end[0].startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("first", [b"HEAD / HTTP/1.1\r\nHost: x\r\n", GET + b"Expect: 100-continue\r\n"])
def test_what_has_no_body_or_is_asked_to_go_on_is_written_as_it_comes(first: bytes) -> None:
    body = {"type": "http.response.body", "body": b"hello"}
    head, *_ = written(first + b"\r\n", begun(**{"content-length": "5"}), body)
    assert len(head) == 1


@pytest.mark.parametrize("rest", [b"", b"b"])
def test_a_scope_says_whether_all_of_the_request_is_there(rest: bytes) -> None:
    found: list[bool] = []

    async def look(scope: Any, receive: Any, send: Any) -> None:
        found.append(WHOLE in scope)
        await application(scope, receive, send)

    async def main() -> None:
        config: Any = uvicorn.Config(look, http=Guarded, lifespan="off")
        config.load()
        state = ServerState()
        served = Guarded(config, state, {}, asyncio.get_running_loop())
        served.connection_made(Written())
        served.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na" + rest)
        while state.tasks:
            await asyncio.sleep(0)
        served.connection_lost(None)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert found == [bool(rest)]


def test_more_connections_than_there_may_be_close_those_that_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """First those that have sent no key, the longest idle before others; a connection that is answered stays."""
    monkeypatch.setattr(Guarded, "max_connections", 3)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/key":
            scope[AUTHENTICATED] = True
        if scope["path"] == "/busy":
            await asyncio.Event().wait()
        await application(scope, receive, send)

    async def main() -> None:
        config: Any = uvicorn.Config(answer, http=Guarded, lifespan="off", log_level="critical")
        config.load()
        state, clock = ServerState(), [0.0]
        loop = asyncio.get_running_loop()

        async def connect(path: str | None = None) -> Written:
            transport = Written()
            served = Guarded(config, state, {}, loop)
            served.connection_made(transport)
            if path is not None:
                served.data_received(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
                for _ in range(10):
                    await asyncio.sleep(0)
            if transport.closed:
                served.connection_lost(None)
            kept.append((transport, served))
            clock[0] += 1
            return transport

        def lose() -> None:
            for transport, served in kept:
                if transport.closed and served in state.connections:
                    served.connection_lost(None)

        kept: list[tuple[Written, Guarded]] = []
        monkeypatch.setattr(loop, "time", lambda: clock[0])
        known, stranger, busy = await connect("/key"), await connect("/"), await connect("/busy")
        later = await connect()
        assert (known.closed, stranger.closed, busy.closed, later.closed) == (False, True, False, False)
        lose()
        second = await connect("/busy")
        assert (known.closed, later.closed, second.closed) == (False, True, False)
        lose()
        third = await connect("/busy")  # no stranger is idle
        assert (known.closed, third.closed) == (True, False)
        lose()
        assert (await connect()).closed  # all are busy
        for task in state.tasks:
            task.cancel()

    asyncio.run(main())
