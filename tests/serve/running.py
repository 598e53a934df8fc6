"""A server in a process of its own, on a port that the system chooses, as the tests start and end it."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from helpers.waiting import PATIENCE, until

KEY, READ, DECIDE = "a-key-for-the-tests", "a-key-that-reads", "a-key-that-decides"


class Running:
    """``lim2 serve`` with settings from the environment.

    Parameters
    ----------
    data
        Its folder.
    ready
        Whether to wait until it is ready.
    variables
        More of its environment.
    **settings
        By the names of the configuration.
    """

    def __init__(
        self, data: Path, *options: str, ready: bool = True, variables: dict[str, str] | None = None, **settings: Any
    ) -> None:
        own = {"API_KEY": KEY, "READ_KEY": READ, "DECIDE_KEY": DECIDE, "PORT": "0", "SERVE_DATA": str(data)}
        own |= {name.upper(): str(value) for name, value in settings.items()}
        self.variables = {f"LIM2_{name}": value for name, value in own.items()} | (variables or {})
        self.errors = data.with_suffix(".err")
        self._file = self.errors.open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lim2", "serve", *options],
            env={**os.environ, **self.variables}, stdout=subprocess.PIPE, stderr=self._file, text=True,
        )  # fmt: skip
        try:
            self._started(ready)
        except BaseException:
            self.kill()  # nobody else would
            raise

    def _started(self, ready: bool) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("lim2 serves http://"), line + self.errors.read_text()
        self.url = line.split()[-1]
        self.host, _, port = self.url.removeprefix("http://").rpartition(":")
        self.port = int(port)
        if ready:
            self.wait()

    def wait(self, path: str = "/readyz") -> None:
        """Return when the server is ready, or a path answers 200."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.errors.read_text()
            with contextlib.suppress(OSError):
                return bool(self.call("GET", path)[0] == 200)
            return False

        until(is_ready, lambda: f"200 of {path}: {self.errors.read_text()}")

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = KEY, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and content of an answer; JSON as a value."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            own = {} if key is None else {"Ocp-Apim-Subscription-Key": key}
            connection.request(method, path, sent, {**own, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(content) if kind.startswith("application/json") else content

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self.process.kill()
        self._ended()

    def stop(self) -> None:
        """End it as a service manager does; it must go in good order."""
        self.process.send_signal(signal.SIGTERM)
        self._ended()
        assert self.process.returncode == 0, self.errors.read_text()

    def _ended(self) -> None:
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.stop()
