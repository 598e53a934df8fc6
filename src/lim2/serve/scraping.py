"""Metrics on a port of their own, without a key: for a scraper inside the network that clients do not reach."""

import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lim2.serve.metrics import CONTENT_TYPE
from lim2.serve.service import Service
from lim2.serve.site import scraped

logger = logging.getLogger("lim2.serve")


class MetricsServer:
    """Answers ``GET /metrics`` in a thread of its own. Of several processes one gets the port, and counts for all."""

    def __init__(self, service: Service) -> None:
        config = service.config
        self._server: _Server | None = None
        if not config.metrics_port:
            return
        try:
            self._server = _Server(config.host, config.metrics_port, _handler(service))
        except OSError as error:
            if config.workers == 1:
                raise
            logger.debug("another process has the port of the metrics: %s", error)
            return
        threading.Thread(target=self._server.serve_forever, name="lim2 metrics", daemon=True).start()

    def close(self) -> None:
        """End."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def handle_error(self, *_: Any) -> None:
        """Note that a client has gone before its answer; a traceback on the screen would be too much."""
        logger.debug("a request for metrics failed", exc_info=True)


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds
        server_version, sys_version = "lim2", ""  # not those of Python

        def do_GET(self) -> None:
            is_metrics = self.path.partition("?")[0] == "/metrics"
            body = scraped(service) if is_metrics else b"GET /metrics\n"
            self.send_response(200 if is_metrics else 404)
            self.send_header("content-type", CONTENT_TYPE if is_metrics else "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing: requests are not logged."""

    return Handler
