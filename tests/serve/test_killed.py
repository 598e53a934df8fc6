"""`kill -9` of the server under load: nothing acknowledged is lost, nothing is learned twice."""

import http.client
import json
import os
import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import PATIENCE, until
from serve.cluster import until_answer
from serve.running import KEY, Running

import lim2
from lim2.serve import spec as specs
from lim2.serve.catalog import FileCatalog

KILLS = int(os.environ.get("LIM2_SERVE_KILLS", "3"))  # `make test` is content with a few
CLIENTS = 4
ACTIONS = [{"id": name, "features": [{"kind": name}]} for name in ("a", "b", "c")]


class Client(threading.Thread):
    """Ranks and rewards until the server is gone, and notes what was acknowledged."""

    def __init__(self, server: Running, name: str, known: dict[str, Any]) -> None:
        super().__init__()
        self._server, self._own, self._known = server, name, known
        self.count = 0

    def run(self) -> None:
        line = http.client.HTTPConnection(self._server.host, self._server.port, timeout=PATIENCE)
        rng = random.Random(self._own)
        try:
            for number in range(100_000):
                event = f"{self._own}-{number}"
                made = self._post(line, "/rank", {"actions": ACTIONS, "eventId": event})
                self._known[event] = [made["rewardActionId"], None]
                if rng.random() < 0.8:
                    value = rng.choice([0.0, 1.0])
                    self._post(line, f"/events/{event}/reward", {"value": value})
                    self._known[event][1] = value
                self.count += 1
        except (OSError, http.client.HTTPException):
            pass  # it was killed
        finally:
            line.close()

    def _post(self, line: http.client.HTTPConnection, path: str, body: Any) -> Any:
        headers = {"Ocp-Apim-Subscription-Key": KEY}
        line.request("POST", f"/personalizer/v1.0{path}", json.dumps(body).encode(), headers)
        answer = line.getresponse()
        content = answer.read()
        assert answer.status in (201, 204), content
        return json.loads(content) if content else None


def loaded(server: Running, life: int, known: dict[str, Any], rounds: int) -> Iterator[None]:
    """Put load on a server; it is killed in the midst, after some requests."""
    clients = [Client(server, f"{life}.{number}", known) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    while min(client.count for client in clients) < rounds and any(client.is_alive() for client in clients):
        clients[0].join(0.005)
    yield
    for client in clients:
        client.join()


@pytest.mark.parametrize("synchronous", ["full"])
def test_nothing_acknowledged_is_lost_and_nothing_is_learned_twice(synchronous: str, tmp_path: Path) -> None:
    data, known, rng = tmp_path / "data", dict[str, Any](), random.Random(0)
    for life in range(KILLS):
        server = Running(data, synchronous=synchronous, personalizer_seed=1)
        load = loaded(server, life, known, rounds=rng.randrange(3, 25))
        next(load)
        server.kill()
        next(load, None)
    with Running(data) as server:
        learned = until_answer(server, "/v1/bandits/personalizer", lambda own: own["lag"] == 0 or own["failure"])
        assert learned["failure"] is None
        live = until(lambda: _model(server, learned["rounds"]), "a model that has learned everything")
    assert len(known) >= KILLS * CLIENTS * 3
    with lim2.DecisionLog(data / "bandits/personalizer/log.db") as log:
        for event, (action, value) in known.items():
            made = log.get(event)
            assert made.arm == action
            assert value is None or made.reward == value, event
        settled = log.state.rewards + log.state.defaults  # a slow machine outlasts the wait for a reward
        position = log.position
        # What was learned over all lives is what a fresh model learns from the log, each reward once.
        fresh = specs.made(FileCatalog(data).read("personalizer").spec)
        assert log.replay(fresh) == settled
    assert live.rounds == settled == fresh.rounds == position
    question = ({"x": 1.0}, {one["id"]: one["features"][0] for one in ACTIONS})
    assert live.decide(*question, exploit=True).means.tolist() == fresh.decide(*question, exploit=True).means.tolist()
    assert _unbroken(data / "bandits/personalizer/log.db")


def _model(server: Running, rounds: int) -> Any:
    """Return the model, if it has learned so many rewards: a learner that does not answer in time publishes later."""
    model = lim2.from_bytes(server.call("GET", "/v1/bandits/personalizer/snapshot")[1])
    return model if model.rounds == rounds else None


def _unbroken(path: Path) -> bool:
    with sqlite3.connect(path) as file:
        return bool(file.execute("PRAGMA integrity_check").fetchone() == ("ok",))
