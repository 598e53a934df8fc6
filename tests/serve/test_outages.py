"""The database is stopped as if it had crashed: deciders refuse writes, or keep them on disk and write them later."""

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import postgres
from helpers.clock import Clock
from helpers.waiting import until
from serve.cluster import ITEMS, Cluster, until_answer
from serve.linked import learning
from serve.running import KEY, Running
from serve.stores import fresh_database
from starlette.testclient import TestClient

import lim2
from lim2.log import StoreUnavailableError
from lim2.serve import spec as specs
from lim2.serve.app import application
from lim2.serve.catalog import open_catalog
from lim2.serve.config import load
from lim2.serve.learner_link import Link
from lim2.serve.service import Service

SHOP = "/v1/bandits/shop"


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    if reason := postgres.missing():
        pytest.skip(reason)
    with postgres.own_server() as server:
        yield server


def post(server: Running, what: str, body: Any, status: int = 200) -> Any:
    found, answer = server.call("POST", f"{SHOP}/{what}", body)
    assert found == status, (what, body, answer)
    return answer


def decided(server: Running, id: str, **more: Any) -> Any:
    return post(server, "decide", {"id": id, "items": ITEMS, **more})


def rewarded(server: Running, id: str, reward: Any, **more: Any) -> Any:
    return post(server, "reward", {"id": id, "reward": reward, **more})["status"]


def test_a_decider_refuses_or_spools_and_nothing_is_lost_or_done_twice(tmp_path: Path, database: Any) -> None:
    with fresh_database(database.url()) as store, Cluster(tmp_path, store) as cluster:
        refusing, learner = cluster.start_all("decide", "learn")
        spooling = cluster.start("decide", data="spooling", on_outage="spool")
        spec = {"seed": 3, "algorithm": "LinearTS", "expire_after": 3600, "aggregate": "first"}
        assert refusing.call("PUT", SHOP, spec)[0] == 201
        before = [decided(spooling, f"before {number}") for number in range(4)]
        assert rewarded(refusing, "before 0", 1.0) == "recorded"
        until_answer(spooling, SHOP, lambda own: own["rounds"] == 1)

        database.stop("immediate")
        _refuses(refusing)
        decisions = _spools(spooling)
        _says_so(refusing, spooling, learner)

        cluster.kill(spooling)
        spooling = cluster.start("decide", ready=False, data="spooling", on_outage="spool")
        spooling.wait("/healthz")
        assert spooling.call("GET", "/readyz")[0] == 503  # it has no model to decide by
        assert spooling.call("POST", f"{SHOP}/decide", {"items": ITEMS})[0] == 503
        assert spooling.call("POST", "/personalizer/v1.0/rank", {"actions": [{"id": "a"}]})[0] == 503
        database.start()

        for process in cluster.running:
            process.wait()
        assert rewarded(refusing, "before 3", 1.0) == "recorded"
        until_answer(spooling, SHOP, lambda own: own["rounds"] == 7 and own["lag"] == 0)
        assert list((tmp_path / "spooling" / "spool").glob("*.spool")) == []
        _check(store, tmp_path, before, decisions)


def _refuses(server: Running) -> None:
    """Nothing is written, and clients are told to come again."""
    status, answer = server.call("POST", f"{SHOP}/decide", {"id": "refused", "items": ITEMS})
    assert (status, answer["error"]["code"]) == (503, "ServiceUnavailable")
    assert "postgresql" not in str(answer) and "socket" not in str(answer)
    for what, body in (
        ("reward", {"id": "before 1", "reward": 1.0}),
        ("activate", {"id": "before 1"}),
        ("rank", {"items": ITEMS}),
        ("decide_many", {"requests": [{"items": ITEMS}]}),
    ):
        post(server, what, body, 503)


def _spools(server: Running) -> dict[str, str]:
    """Answer what can be answered without the database; return the decisions that must be there afterwards."""
    made = {}
    for number in range(3):
        answer = decided(server, f"during {number}")
        assert decided(server, f"during {number}", exploit=True) == answer  # a retry gets the first answer
        made[answer["id"]] = answer["arm"]
    own = post(server, "decide", {"items": ITEMS})
    made[own["id"]] = own["arm"]
    slate = post(server, "rank", {"id": "slate", "items": ITEMS, "k": 2})
    assert post(server, "rank", {"id": "slate", "items": ITEMS, "k": 3}) == slate
    many = {"requests": [{"id": f"many {number}", "items": ITEMS} for number in range(2)]}
    answers = post(server, "decide_many", many)
    assert post(server, "decide_many", many) == answers
    made |= {one["id"]: one["arm"] for one in answers["decisions"]}
    made["inactive"] = decided(server, "inactive", active=False)["arm"]
    assert rewarded(server, "during 0", 1.0) == rewarded(server, "during 0", 1.0) == "spooled"
    assert rewarded(server, "before 1", 0.5) == "spooled"  # of a decision that the database has
    assert rewarded(server, "slate", {"2": 1.0}) == {"2": "spooled"}
    assert post(server, "reward_many", {"rewards": [{"id": "many 0", "reward": 1.0}]}) == {"statuses": ["spooled"]}
    assert rewarded(server, "inactive", 0.25) == "spooled"
    assert post(server, "activate", {"id": "inactive"}) == {"activated": True}
    # What the database will refuse: nobody can know it now.
    decided(server, "before 2")
    assert rewarded(server, "before 0", 0.0) == "spooled"  # which has another reward: the first counts
    # What needs the database.
    assert server.call("GET", f"{SHOP}/decisions/before%201")[0] == 503
    assert server.call("GET", f"{SHOP}/decisions/during%201")[1]["arm"] == made["during 1"]
    assert server.call("GET", SHOP)[0] == 503
    assert server.call("PUT", "/v1/bandits/other", {})[0] == 503
    assert server.call("POST", f"{SHOP}/erase", {"key": "anna"})[0] == 503
    return made


def _says_so(refusing: Running, spooling: Running, learner: Running) -> None:
    status, found = refusing.call("GET", "/readyz")
    assert (status, found["ready"], found["spooled_bytes"]) == (503, False, None) and found["database_unreachable"] > 0
    status, found = spooling.call("GET", "/readyz")
    assert (
        (status, found["ready"]) == (200, True) and found["database_unreachable"] > 0 and found["spooled_bytes"] > 1000
    )
    found = until_answer(learner, "/readyz", lambda own: own["database_unreachable"] is not None)
    assert found["ready"] is False
    text = spooling.call("GET", "/metrics")[1].decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(("lim2_spool", "lim2_database")))
    assert float(lines["lim2_database_unreachable_seconds"]) > 0 and float(lines["lim2_spool_bytes"]) > 1000
    assert float(lines['lim2_spool_writes{outcome="spooled"}']) == 16


def _check(store: str, folder: Path, before: list[Any], decisions: dict[str, str]) -> None:
    catalog = open_catalog(load(environment={}, given={"store": store}))
    log = catalog.open_log("shop", catalog.read("shop"))
    for id, arm in decisions.items():
        assert log.get(id).arm == arm
    assert log.get("before 2").arm == before[2]["arm"]
    rewards = {
        "before 0": 1.0, "before 1": 0.5, "before 2": None, "before 3": 1.0, "during 0": 1.0, "during 1": None,
        "slate/1": None, "slate/2": 1.0, "many 0": 1.0, "inactive": 0.25,
    }  # fmt: skip
    assert {id: log.get(id).reward for id in rewards} == rewards
    with pytest.raises(lim2.log.UnknownDecisionError):
        log.get("refused")
    state = log.state
    assert (state.rewards, state.pending) == (7, len(decisions) + len(before) + 2 - 7)
    refused = [json.loads(line) for line in (folder / "spooling/spool/rejected.jsonl").read_text().splitlines()]
    assert [(one["kind"], one["ids"]) for one in refused] == [("insert", ["before 2"])]
    fresh = specs.made(catalog.read("shop").spec)
    assert log.replay(fresh) == 7
    log.close()
    catalog.close()


def test_rewards_that_waited_for_the_database_come_before_what_is_overdue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that learns is not asked during an outage, and so knows nothing of it."""
    monkeypatch.setattr("lim2.serve.learner.Learner._run", lambda self: self._wake.wait())
    monkeypatch.setattr("lim2.serve.learner.GRACE", math.inf)  # learning goes on when this test says so
    with fresh_database() as store, contextlib.ExitStack() as held:
        given = {"api_key": KEY, "store": store, "on_outage": "spool", "poll": 0.001}
        configs = [load(environment={}, given={**given, "data": str(tmp_path / name)}) for name in ("one", "two")]
        address, answering = held.enter_context(learning(configs[0], tmp_path))
        services = [Service(config, link=Link(address)) for config in configs]
        one, two = (
            held.enter_context(TestClient(application(own), headers={"Ocp-Apim-Subscription-Key": KEY}))
            for own in services
        )
        assert one.put(SHOP, json={"expire_after": 60, "default_reward": 0.0}).status_code == 201
        clock = Clock()
        for registry in (*(service.registry for service in services), answering._registry):
            registry.opening("shop").log.clock = clock
        for client, id in ((one, "a"), (two, "b")):
            assert client.post(f"{SHOP}/decide", json={"id": id, "items": ITEMS}).status_code == 200
        for service, client, id in zip(services, (one, two), "ab", strict=True):
            service.learner.look()
            service.catalog.outage.begin(StoreUnavailableError("it has gone"))
            assert client.post(f"{SHOP}/reward", json={"id": id, "reward": 1.0}).json() == {"status": "spooled"}
        clock.now += 60
        answering._registry.opened["shop"].has_news()
        for service in services:
            service.learner.look()  # which writes its own reward

        def knows_both() -> bool:
            for service in services:
                service.learner._resumes = 0.0
                service.learner.look()  # a pass may end before it has come to this bandit
            return services[0].registry.opened["shop"].rounds == 2

        until(knows_both, "both rewards are learned")
        assert [one.get(f"{SHOP}/decisions/{id}").json()["reward"] for id in "ab"] == [1.0, 1.0]
