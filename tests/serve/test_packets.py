"""Head and body of an answer are sent together; a head without a body is not kept back."""

import asyncio
import http.client
from typing import Any

from serve.running import Running

from lim2.serve.packets import Joining

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.sent.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.sent


def test_a_head_is_sent_with_its_body_or_after_the_pass() -> None:
    transport: Any = Transport()
    sent = transport.sent

    async def main() -> None:
        joining = Joining(transport)
        joining.write(HEAD)
        joining.write(b"ab")
        joining.write(b"more")
        assert sent == [HEAD + b"ab", b"more"]
        await asyncio.sleep(0)
        joining.write(HEAD)  # of a stream that begins later, or of what has no body
        assert len(sent) == 2
        await asyncio.sleep(0)
        assert sent[2:] == [HEAD]
        joining.write(HEAD)
        assert not joining.is_closing()
        joining.close()
        assert sent[3:] == [HEAD, "closed"] and joining.is_closing()
        await asyncio.sleep(0)
        assert len(sent) == 5

    asyncio.run(main())


def test_answers_with_and_without_a_body_arrive(server: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    found = []
    for method, path in (("GET", "/healthz"), ("HEAD", "/healthz"), ("GET", "/nothing")):
        connection.request(method, path)
        answer = connection.getresponse()
        found.append((method, answer.status, bool(answer.read())))
    connection.close()
    assert found == [("GET", 200, True), ("HEAD", 200, False), ("GET", 404, True)]
