"""Two processes over one home, played by two services: what one does to a bandit, the other must not stumble over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from serve.running import KEY
from serve.stores import over_all
from starlette.testclient import TestClient

import lim2
from lim2.serve.app import application
from lim2.serve.config import load
from lim2.serve.hosted import Hosted
from lim2.serve.service import Service
from lim2.serve.spec import Stored

pytestmark = over_all

SHOP, RANK = "/v1/bandits/shop", "/personalizer/v1.1-preview.3/rank"
ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}
ACTIONS = [{"id": "a", "features": [{"kind": "x"}]}, {"id": "b", "features": [{"kind": "y"}]}]


class Process(NamedTuple):
    """A service whose learner looks only when a test says so, and a client of it."""

    service: Service
    client: TestClient

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = self.client.request(method, path, **({"content": body} if isinstance(body, bytes) else {"json": body}))
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status_code, answer.json() if is_json else answer.content

    def look(self) -> None:
        self.service.learner.look()


@pytest.fixture
def processes(tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Process, Process]]:
    monkeypatch.setattr("lim2.serve.learner.Learner._run", lambda self: self._wake.wait())
    given = {"api_key": KEY, "data": str(tmp_path), "synchronous": "normal", "store": store, "workers": 2}
    services = [Service(load(environment={}, given={**given, "poll": 0.001})) for _ in range(2)]
    headers = {"Ocp-Apim-Subscription-Key": KEY}
    clients = [TestClient(application(own), headers=headers, raise_server_exceptions=False) for own in services]
    with clients[0], clients[1]:
        yield Process(services[0], clients[0]), Process(services[1], clients[1])


def test_a_bandit_that_another_process_deletes_is_not_there(processes: tuple[Process, Process]) -> None:
    one, two = processes
    assert one.call("PUT", SHOP, {})[0] == 201
    assert two.call("POST", f"{SHOP}/decide", {"items": ITEMS})[0] == 200
    assert one.call("DELETE", SHOP)[0] == 204
    for method, path, body in (
        ("POST", f"{SHOP}/decide", {"items": ITEMS}),
        ("POST", f"{SHOP}/decide_many", {"requests": [{"items": ITEMS}]}),
        ("GET", SHOP, None),
        ("PATCH", SHOP, {"expire_after": 5}),
        ("DELETE", SHOP, None),
    ):
        assert two.call(method, path, body)[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/decide", {"items": ITEMS}),
        ("POST", "/rank", {"items": ITEMS}),
        ("GET", "", None),
        ("GET", "/snapshot", None),
        ("GET", "/overview", None),
        ("PATCH", "", {"expire_after": 5}),
    ],
)
def test_a_bandit_that_another_process_deletes_and_makes_anew_answers(
    processes: tuple[Process, Process], method: str, path: str, body: Any
) -> None:
    one, two = processes
    one.call("PUT", SHOP, {})
    old = two.call("POST", f"{SHOP}/decide", {"items": ITEMS, "id": "old"})[1]
    assert old["id"] == "old"
    one.call("DELETE", SHOP)
    assert one.call("PUT", SHOP, {"default_reward": 0.5, "expire_after": 60})[0] == 201
    assert two.call(method, SHOP + path, body)[0] == 200
    assert [bandit["name"] for bandit in two.call("GET", "/v1/bandits")[1]["bandits"]] == ["personalizer", "shop"]
    assert two.call("GET", "/metrics")[0] == 200
    made = two.call("POST", f"{SHOP}/decide", {"items": ITEMS, "id": "new"})
    assert made[0] == 200
    assert one.call("POST", f"{SHOP}/reward", {"id": "new", "reward": 1.0}) == (200, {"outcome": "recorded"})
    assert one.call("POST", f"{SHOP}/reward", {"id": "old", "reward": 1.0})[0] == 404


def test_a_bandit_made_anew_has_its_own_arms_in_all_processes(processes: tuple[Process, Process]) -> None:
    one, two = processes
    one.call("PUT", SHOP, {"arms": ["a"], "algorithm": "LinearTS"})
    assert two.call("POST", f"{SHOP}/decide", {})[1]["arm"] == "a"
    one.call("DELETE", SHOP)
    one.call("PUT", SHOP, {"arms": ["b"], "algorithm": "LinearTS"})
    two.look()
    assert two.call("POST", f"{SHOP}/decide", {})[1]["arm"] == "b"
    one.look()
    assert sorted(own.service.registry.opened["shop"].leads for own in processes) == [False, True]


def test_the_process_that_makes_a_bandit_anew_forgets_the_one_that_another_has_deleted(
    processes: tuple[Process, Process],
) -> None:
    one, two = processes
    two.call("PUT", SHOP, {"arms": ["a"], "algorithm": "LinearTS"})
    one.call("DELETE", SHOP)
    status, made = two.call("PUT", SHOP, {"arms": ["b"], "algorithm": "LinearTS"})
    assert (status, made["arms"]) == (201, ["b"])
    assert two.call("POST", f"{SHOP}/decide", {"id": "new"})[1]["arm"] == "b"
    assert one.call("POST", f"{SHOP}/reward", {"id": "new", "reward": 1.0}) == (200, {"outcome": "recorded"})


def test_what_was_closed_never_learns_again(processes: tuple[Process, Process]) -> None:
    one, _ = processes
    one.call("PUT", SHOP, {})
    closed: Hosted = one.service.registry.opened["shop"]
    one.call("DELETE", SHOP)
    one.call("PUT", SHOP, {})
    assert closed.step() == 0 and not closed.leads  # as the learner's pass does that began before
    one.look()
    assert one.service.registry.opened["shop"].leads


def test_letting_go_of_a_bandit_spares_another_one_of_its_name(processes: tuple[Process, Process]) -> None:
    one, _ = processes
    one.call("PUT", SHOP, {})
    before = one.service.registry.opened["shop"]
    one.call("DELETE", SHOP)
    one.call("PUT", SHOP, {})
    one.service.registry.let_go(before, publish=False)
    assert one.service.registry.opened["shop"].log.position == 0
