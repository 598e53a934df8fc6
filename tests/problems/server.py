"""A web server on this machine that does what the tests tell it to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Web:
    """What the server holds, and what it was asked for.

    `breaks` gives, for a path, after how many bytes each of its next answers ends too early; `refusals`, with which
    status and text it is refused, so many times.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    breaks: dict[str, list[int]] = field(default_factory=dict)
    refusals: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, asked = self.path.lstrip("/"), self.headers.get("Range")
            web.requests.append((path, asked))
            if web.refusals.get(path):
                status, text = web.refusals[path].pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())
                return
            if path not in web.files:
                self.send_error(404)
                return
            content, start = web.files[path], 0
            if asked and web.ranges:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
            body = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            limits = web.breaks.get(path, [])
            self.wfile.write(body[: limits.pop(0)] if limits else body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
