"""Services within this process, their clients, and one that learns for them in a thread, over a real socket."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from lim2.serve.config import Config
from lim2.serve.learner_main import Answering, serve
from lim2.serve.learner_process import own_settings


@contextmanager
def learning(config: Config, folder: Path) -> Iterator[tuple[str, Answering]]:
    """Give the address of what learns, and who answers there; it ends as it does when its parent ends."""
    address, answering = folder / "learner", Answering(own_settings(config))
    reading, writing = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener, reading, answering))
        thread.start()
        try:
            yield str(address), answering
        finally:
            os.close(writing)
            thread.join()
            os.close(reading)
            answering.close()


def answered(client: TestClient, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and the content of an answer to a request with JSON, or with bytes."""
    answer = client.request(method, path, **({"content": body} if isinstance(body, bytes) else {"json": body}))
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    return answer.status_code, answer.json() if is_json else answer.content
