"""A service of the tests' own, which answers as it is asked to: what the real one does only on a bad day."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

DECIDED = {"id": "1", "arm": "a", "propensity": 1.0, "arms": ["a"], "propensities": [1.0]}
STATUS = {"status": "recorded"}

Line = tuple[int, Any, dict[str, str]] | str


class Answering:
    """Answers requests by a script: answers, ``"hang up"`` and ``"silence"``, and repeats its last line at the end."""

    def __init__(self, *script: Line, certificate: Path | None = None) -> None:
        self.bodies: list[Any] = []
        self.keys: list[str | None] = []
        self.connections: set[Any] = set()
        self._script, self._lock, self._over = list(script), threading.Lock(), threading.Event()
        handler = self._handler()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(size)
                with own._lock:
                    own.bodies.append(json.loads(body) if body else None)
                    own.keys.append(self.headers.get("authorization"))
                    own.connections.add(self.client_address)
                    line = own._script.pop(0) if len(own._script) > 1 else own._script[0]
                if line == "silence":
                    own._over.wait()
                if isinstance(line, str):
                    self.close_connection = True
                    return
                status, content, headers = line
                sent = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
