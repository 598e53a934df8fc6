"""Deciders and learners as processes over one database, and clients that behave as behind a balancer."""

import http.client
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from helpers.waiting import PATIENCE, until
from serve.running import KEY, Running

ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}, "c": {"kind": "z"}}
LOST = (OSError, http.client.HTTPException)


class Cluster:
    """Processes that share a database."""

    def __init__(self, folder: Path, store: str) -> None:
        self._folder, self.store = folder, store
        self.lives = 0
        self.running: list[Running] = []
        self._lock = threading.Lock()

    def start(self, role: str, ready: bool = True, data: str | None = None, **settings: Any) -> Running:
        """Return a new process, when it is ready. The database knows it by its number."""
        with self._lock:
            self.lives += 1
            number = self.lives
        own = {"store": self.store, "role": role, **settings}
        made = Running(
            self._folder / (data or f"{role}-{number}"), ready=ready, variables={"PGAPPNAME": f"life-{number}"},
            **own,
        )  # fmt: skip
        self.running.append(made)
        return made

    def start_all(self, *roles: str, **settings: Any) -> list[Running]:
        """Return new processes, which are started at the same time, when all are ready."""
        with ThreadPoolExecutor(len(roles)) as pool:
            return list(pool.map(lambda role: self.start(role, **settings), roles))

    def kill(self, process: Running) -> None:
        """End a process as `kill -9` does."""
        self.running.remove(process)
        process.kill()

    def stop(self, process: Running) -> None:
        """End a process in good order."""
        self.running.remove(process)
        process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.running:
            process.kill()


class Balancer:
    """Knows which deciders are ready: it asks them again and again, as a balancer does."""

    def __init__(self, deciders: Iterable[Running]) -> None:
        self.deciders = list(deciders)
        self._ready = list(self.deciders)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            self._ready = [one for one in list(self.deciders) if is_ready(one)]

    @property
    def ready(self) -> list[Running]:
        """The deciders that are ready."""
        return [one for one in self._ready if one in self.deciders]

    def chosen(self, rng: random.Random) -> Running:
        """Return a decider that is ready."""
        return rng.choice(until(lambda: self.ready, "a decider that is ready"))

    def wait_without(self, decider: Running) -> None:
        """Return when a decider is known not to be ready."""
        until(lambda: decider not in self._ready, "that a decider is not ready")

    def close(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()


def is_ready(server: Running) -> bool:
    """Return whether a process says that it is ready."""
    try:
        return bool(server.call("GET", "/readyz")[0] == 200)
    except LOST:
        return False


class Client(threading.Thread):
    """Decides and rewards for visitors; a request that a process took with it is sent to another one."""

    def __init__(self, balancer: Balancer, bandit: str, name: str) -> None:
        super().__init__(daemon=True)
        self._balancer, self._path, self._own = balancer, f"/v1/bandits/{bandit}", name
        self._visitors: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._rng = random.Random(name)
        self._lines: dict[Running, http.client.HTTPConnection] = {}
        self.decided: dict[str, str] = {}  # id -> arm
        self.rewarded: dict[str, tuple[float, str]] = {}  # id -> reward, outcome
        self.lost: list[Running] = []  # who did not answer a request
        self.refused: list[tuple[int, Any]] = []
        self.sent = 0  # visitors

    @property
    def waiting(self) -> int:
        """How many visitors have not been served."""
        return self._visitors.qsize()

    def send(self, visitors: int) -> None:
        """Let some visitors come, one after another."""
        self.sent += visitors
        for _ in range(visitors):
            self._visitors.put(True)

    def wait(self) -> None:
        """Return when all visitors have been served, but the last."""
        until(lambda: self._visitors.empty() or not self.is_alive(), "the last visitor")
        assert self.is_alive()

    def end(self) -> None:
        """Serve the visitors that have come, and end."""
        self._visitors.put(False)
        self.join(PATIENCE)
        assert not self.is_alive()

    def run(self) -> None:
        number = 0
        while self._visitors.get():
            number += 1
            id = f"{self._own}-{number}"
            made = self._post("decide", {"id": id, "items": ITEMS})
            self.decided[id] = made["arm"]
            if self._rng.random() < 0.8:
                value = float(self._rng.random() < {"a": 0.7, "b": 0.3, "c": 0.1}[made["arm"]])
                self.rewarded[id] = (value, self._post("reward", {"id": id, "reward": value})["status"])
        for line in self._lines.values():
            line.close()

    def _post(self, what: str, body: Any) -> Any:
        while True:
            server = self._balancer.chosen(self._rng)
            try:
                status, answer = self._exchange(server, f"{self._path}/{what}", body)
            except LOST:
                self.lost.append(server)
                continue
            if status == 200:
                return answer
            self.refused.append((status, answer))
            time.sleep(0.05)

    def _exchange(self, server: Running, path: str, body: Any) -> tuple[int, Any]:
        line = self._lines.get(server)
        if line is None:
            line = self._lines[server] = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        try:
            line.request("POST", path, json.dumps(body).encode(), {"Authorization": f"Bearer {KEY}"})
            answer = line.getresponse()
            content = answer.read()
        except LOST:
            self._lines.pop(server).close()
            raise
        if answer.will_close:
            self._lines.pop(server).close()
        return answer.status, json.loads(content)


def until_answer(server: Running, path: str, holds: Callable[[Any], bool]) -> Any:
    """Return the first answer of a path for which a condition holds."""
    answer = None

    def asked() -> bool:
        nonlocal answer
        answer = server.call("GET", path)[1]
        return holds(answer)

    until(asked, lambda: f"another answer of {path} than {answer}")
    return answer
