"""Two processes over one catalog, played by two services: each survives what the other does to a bandit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from serve.learning import learn, learner_of
from serve.running import KEY
from serve.stores import over_all
from starlette.testclient import TestClient

import lim2
from lim2.serve.app import application
from lim2.serve.config import load
from lim2.serve.learner import Learner
from lim2.serve.service import Service
from lim2.serve.spec import Stored

pytestmark = over_all

SHOP, RANK = "/v1/bandits/shop", "/personalizer/v1.1-preview.3/rank"
ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}
ACTIONS = [{"id": "a", "features": [{"kind": "x"}]}, {"id": "b", "features": [{"kind": "y"}]}]


def answered(client: TestClient, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return status and content of an answer; JSON as a value."""
    content = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    answer = client.request(method, path, **content)
    kind = answer.headers.get("content-type", "")
    return answer.status_code, answer.json() if kind.startswith("application/json") else answer.content


class Process(NamedTuple):
    """A service and a learner that look only when a test says so, and a client."""

    service: Service
    learner: Learner
    client: TestClient

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return answered(self.client, method, path, body)

    def look(self) -> None:
        self.service.follower.look()

    def learn(self) -> None:
        learn(self.learner)


@pytest.fixture
def processes(tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Process, Process]]:
    monkeypatch.setattr("lim2.serve.bandits.Follower.start", lambda _: None)
    monkeypatch.setattr("lim2.serve.bandits.Follower.alive", True)
    monkeypatch.setattr("lim2.serve.bandits.PATIENCE", 0.0)  # nobody learns while a request waits
    given = {"api_key": KEY, "data": str(tmp_path), "synchronous": "normal", "store": store, "workers": 2}
    services = [Service(load(environment={}, given=given)) for _ in range(2)]
    learners = [learner_of(service.catalog) for service in services]
    headers = {"Ocp-Apim-Subscription-Key": KEY}
    clients = [TestClient(application(own), headers=headers, raise_server_exceptions=False) for own in services]
    with clients[0], clients[1]:
        yield Process(services[0], learners[0], clients[0]), Process(services[1], learners[1], clients[1])
        for learner in learners:
            learner.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/decide", {"items": ITEMS}),
        ("POST", "/decide_many", {"requests": [{"items": ITEMS}]}),
        ("GET", "", None),
        ("GET", "/snapshot", None),
        ("PATCH", "", {"expire_after": 5}),
        ("DELETE", "", None),
    ],
)
def test_a_bandit_that_another_process_deletes_is_not_there(
    processes: tuple[Process, Process], method: str, path: str, body: Any
) -> None:
    one, two = processes
    assert one.call("PUT", SHOP, {})[0] == 201
    assert two.call("POST", f"{SHOP}/decide", {"items": ITEMS})[0] == 200
    assert one.call("DELETE", SHOP)[0] == 204
    assert two.call("GET", "/metrics")[0] == 200
    assert [bandit["name"] for bandit in two.call("GET", "/v1/bandits")[1]["bandits"]] == ["personalizer"]
    assert two.call(method, SHOP + path, body)[0] == 404


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
    assert one.call("POST", f"{SHOP}/reward", {"id": "new", "reward": 1.0}) == (200, {"status": "recorded"})
    assert one.call("POST", f"{SHOP}/reward", {"id": "old", "reward": 1.0})[0] == 404


def test_a_bandit_made_anew_has_its_own_arms_in_all_processes(processes: tuple[Process, Process]) -> None:
    one, two = processes
    one.call("PUT", SHOP, {"arms": ["a"], "algorithm": "LinearTS"})
    assert two.call("POST", f"{SHOP}/decide", {})[1]["arm"] == "a"
    one.call("DELETE", SHOP)
    one.call("PUT", SHOP, {"arms": ["b"], "algorithm": "LinearTS"})
    two.look()
    assert two.call("POST", f"{SHOP}/decide", {})[1]["arm"] == "b"


def test_the_process_that_makes_a_bandit_anew_forgets_the_one_that_another_has_deleted(
    processes: tuple[Process, Process],
) -> None:
    one, two = processes
    two.call("PUT", SHOP, {"arms": ["a"], "algorithm": "LinearTS"})
    one.call("DELETE", SHOP)
    status, made = two.call("PUT", SHOP, {"arms": ["b"], "algorithm": "LinearTS"})
    assert (status, made["arms"]) == (201, ["b"])
    assert two.call("POST", f"{SHOP}/decide", {"id": "new"})[1]["arm"] == "b"
    assert one.call("POST", f"{SHOP}/reward", {"id": "new", "reward": 1.0}) == (200, {"status": "recorded"})


def test_a_learner_forgets_a_bandit_that_was_deleted_and_learns_another_one_of_its_name(
    processes: tuple[Process, Process],
) -> None:
    one, two = processes
    for number in range(2):
        one.call("PUT", SHOP, {})
        two.call("POST", f"{SHOP}/decide", {"items": ITEMS, "id": "d"})
        for _ in range(2):
            one.learn()
        two.call("POST", f"{SHOP}/reward", {"id": "d", "reward": 1.0})
        one.learn()
        two.look()
        assert two.call("GET", SHOP)[1]["rounds"] == 1, number
        two.call("DELETE", SHOP)
    assert "shop" not in one.learner.failures


def test_letting_go_of_a_bandit_spares_another_one_of_its_name(processes: tuple[Process, Process]) -> None:
    one, _ = processes
    one.call("PUT", SHOP, {})
    before = one.service.bandits.opened["shop"]
    one.call("DELETE", SHOP)
    one.call("PUT", SHOP, {})
    one.service.bandits.let_go(before)
    assert one.service.bandits.opened["shop"].log.position == 0


def test_a_bandit_that_goes_while_it_is_opened_does_not_keep_others_from_being_looked_at(
    processes: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = processes
    one.call("PUT", "/v1/bandits/gone", {})
    one.call("PUT", SHOP, {})
    open_log = two.service.catalog.open_log

    def opened(name: str, stored: Stored) -> Any:
        log = open_log(name, stored)
        if name == "gone":
            one.call("DELETE", "/v1/bandits/gone")
            log.close()  # which a folder's log would notice by itself
        return log

    monkeypatch.setattr(two.service.catalog, "open_log", opened)
    for name in ("gone", "shop"):
        two.call("POST", f"/v1/bandits/{name}/decide", {"items": ITEMS})
    two.look()
    assert set(two.service.bandits.opened) == {"personalizer", "shop"}


P = "/personalizer/v1.1-preview.3"
SNAPSHOT = "/v1/bandits/personalizer/snapshot"


def rank(process: Process, event: str) -> int:
    return process.call("POST", RANK, {"actions": ACTIONS, "contextFeatures": [], "eventId": event})[0]


def learned(process: Process, event: str) -> None:
    assert rank(process, event) == 201
    assert process.call("POST", f"{P}/events/{event}/reward", {"value": 1})[0] == 204
    process.learn()
    process.look()


def test_a_model_that_was_put_by_one_process_is_what_another_one_gives_and_keeps(
    processes: tuple[Process, Process],
) -> None:
    one, two = processes
    for event in ("a", "b"):
        learned(one, event)
    two.look()
    assert one.service.personalizer.rounds == two.service.personalizer.rounds == 2
    fresh = lim2.Bandit(algorithm="LinearTS", seed=5).to_bytes()
    assert two.call("PUT", SNAPSHOT, fresh)[0] == 204
    for process in (two, one):  # before the learner has looked, and afterwards
        given = lim2.from_bytes(process.call("GET", SNAPSHOT)[1])
        assert (given.rounds, given.agent.algorithm.name) == (0, "LinearTS")
    one.learn()
    one.look()
    assert one.service.personalizer.rounds == 0 and one.service.personalizer.decider.name == "LinearTS"


@pytest.mark.parametrize("learns", [False, True])
def test_a_start_that_another_process_has_replaced_is_read_again(
    processes: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch, learns: bool
) -> None:
    one, two = processes
    contents = [lim2.Bandit(algorithm="LinearTS", seed=seed).to_bytes() for seed in range(2)]
    assert one.call("PUT", SNAPSHOT, contents[0])[0] == 204
    documents, replaced = two.service.catalog.documents, list[int]()

    def overtaken(name: str, kind: str) -> Any:  # another process puts a model before this one reads its own
        if not replaced:
            replaced.append(one.call("PUT", SNAPSHOT, contents[1])[0])
        return documents(name, kind)

    monkeypatch.setattr(two.service.catalog, "documents", overtaken)
    if learns:
        two.learn()
        assert two.learner.failures == {}
    else:
        assert two.call("GET", SNAPSHOT)[0] == 200
    two.look()
    assert replaced == [204] and two.service.personalizer.stored.revision == 2


def test_a_description_of_the_same_bandit_keeps_it_open(processes: tuple[Process, Process]) -> None:
    one, two = processes
    hosted = two.service.personalizer

    def later(stored: Stored) -> Stored:
        return msgspec.structs.replace(stored, spec=msgspec.structs.replace(stored.spec, keep_days=3.0))

    one.service.catalog.change("personalizer", later)
    two.look()
    assert two.service.personalizer is hosted and hosted.stored.spec.keep_days == 3.0
