"""A control group of the service: set, changed and ended by clients, and seen in decisions, logs and proofs."""

import time
from typing import Any

import pytest
from serve.learning import learned
from serve.stores import over_all
from serve.test_native import BASE, make, post
from starlette.testclient import TestClient

from lim2.serve.service import Service

SHADOW = {"rule": "always:shoes", "share": 1.0}


def change(client: TestClient, status: int = 200, **settings: Any) -> Any:
    answer = client.patch(f"{BASE}/shop", json=settings)
    assert answer.status_code == status, answer.text
    return answer.json()


@over_all
def test_a_control_is_set_changed_and_ended(client: TestClient, service: Service) -> None:
    make(client, arms=["spring", "shoes"], seed=0, epsilon=0.5, control=SHADOW)
    assert client.get(f"{BASE}/shop").json()["spec"]["control"] == SHADOW
    for _ in range(10):
        made = post(client, "shop/decide", {})
        assert (made["arm"], made["group"], made["propensity"]) == ("shoes", "control", 1.0)
        post(client, "shop/reward", {"id": made["id"], "reward": 1.0})
    proof = post(client, "shop/proof", {})
    assert (proof["rule"], proof["decisions"], proof["verdict"]) == ("always:shoes", 0, "not yet")
    change(client, control={"rule": "spring", "share": 0.5})
    assert client.get(f"{BASE}/shop").json()["spec"]["control"] == {"rule": "spring", "share": 0.5}
    many = post(client, "shop/decide_many", {"requests": [{"context": {"n": n}} for n in range(60)]})["decisions"]
    assert {one["group"] for one in many} == {"control", "bandit"}
    assert all(one["arm"] == "spring" for one in many if one["group"] == "control")
    assert all(one["propensities"][0] >= 0.5 for one in many)
    seen = client.get(f"{BASE}/shop/decisions/{many[0]['id']}").json()
    assert (seen["group"], seen["propensities"]) == (many[0]["group"], pytest.approx(many[0]["propensities"]))
    slate = post(client, "shop/rank", {"context": {}})
    assert sum(one["propensity"] for one in slate["ranking"]) == pytest.approx(1) and len(slate["ranking"]) == 2
    change(client, control=None)
    assert post(client, "shop/decide", {})["group"] is None
    assert post(client, "shop/proof", {})["rule"] == "first"


def test_the_proof_of_a_service_uses_the_range_of_its_bandit(client: TestClient, service: Service) -> None:
    make(client, arms=["spring", "shoes"], seed=0, epsilon=1.0, control={"rule": "uniform"}, reward_range=[0, 50])
    for reward in (20.0, 70.0):
        post(client, "shop/reward", {"id": post(client, "shop/decide", {})["id"], "reward": reward})
    seen = client.get(f"{BASE}/shop/overview").json()["proof"]
    assert (seen["rule"], seen["reward_range"], seen["capped"]) == ("uniform", [0, 50], 1)
    assert post(client, "shop/proof", {"against": "first", "reward_range": [0, 100]})["capped"] == 0
    change(client, reward_range=[0, 100])
    assert client.get(f"{BASE}/shop/overview").json()["proof"]["capped"] == 0


def test_bad_controls_change_nothing(client: TestClient, service: Service) -> None:
    make(client, arms=["spring", "shoes"])
    for control in (
        {"rule": "zebra"},
        {"rule": "spring", "share": 2},
        {"rule": ""},
        {"share": 0.1},
        {"rule": "a", "x": 1},
    ):
        change(client, 400, control=control)
        assert client.put(f"{BASE}/other", json={"arms": ["spring"], "control": control}).status_code == 400
    change(client, 400, reward_range=[1, 0])
    change(client, 400, reward_range=[1])
    assert client.get(f"{BASE}/shop").json()["spec"]["control"] is None
    post(client, "shop/arms", {"name": "books"}, 201)
    assert change(client, control={"rule": "books"})["spec"]["control"] == {"rule": "books", "share": 0.1}


@over_all
def test_pin_pause_and_resume(client: TestClient, service: Service) -> None:
    make(client, arms=["spring", "shoes"], seed=0, control={"rule": "spring", "share": 0.5})
    change(client, pin="shoes")
    pinned = [post(client, "shop/decide", {}) for _ in range(10)]
    assert {(one["arm"], one["group"], one["propensity"]) for one in pinned} == {("shoes", "control", 1.0)}
    change(client, 400, pin="zebra")
    change(client, paused=True)
    post(client, "shop/reward", {"id": pinned[0]["id"], "reward": 1.0})
    service.follower.look()
    info = client.get(f"{BASE}/shop").json()
    assert (info["rewards"], info["rounds"], info["lag"]) == (1, 0, 1)
    change(client, pin=None, paused=False)
    learned(service)
    assert client.get(f"{BASE}/shop").json()["rounds"] == 1
    assert {post(client, "shop/decide", {})["group"] for _ in range(40)} == {"control", "bandit"}
    changes = [one for one in client.get("/v1/audit").json()["entries"] if one["event"] == "changed"]
    assert len(changes) == 3


@over_all
def test_a_key_gets_the_same_decision_again(client: TestClient, service: Service) -> None:
    make(client, arms=["a", "b", "c", "d"], seed=0, epsilon=1.0, sticky=3600)
    first = post(client, "shop/decide", {"key": "ann"})
    assert [post(client, "shop/decide", {"key": "ann", "context": {"n": n}}) for n in range(20)] == [first] * 20
    others = {post(client, "shop/decide", {"key": f"user {n}"})["id"] for n in range(20)}
    assert len(others) == 20 and first["id"] not in others
    assert post(client, "shop/reward", {"id": first["id"], "reward": 1.0})["status"] == "recorded"
    assert post(client, "shop/decide", {"key": "ann"})["id"] == first["id"]  # also after its reward
    without = [arm for arm in "abcd" if arm != first["arm"]]
    other = post(client, "shop/decide", {"key": "ann", "arms": without})
    assert other["arm"] in without and other["id"] != first["id"]
    assert post(client, "shop/decide", {"key": "ann", "arms": without}) == other
    assert post(client, "shop/decide", {"key": "ann", "id": "mine"})["id"] == "mine"
    service.bandits.opened["shop"].log.clock = lambda: time.time() + 7300
    assert post(client, "shop/decide", {"key": "ann"})["id"] not in (first["id"], other["id"], "mine")


@over_all
def test_of_two_processes_at_one_moment_one_decision_holds(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sees the other's decision when it looks: the id that both use lets the log take one of them."""
    make(client, arms=["a", "b", "c", "d"], seed=0, epsilon=1.0, sticky=3600)
    log = service.bandits.opened["shop"].log
    monkeypatch.setattr(log, "latest", lambda key, within: None)
    assert len({post(client, "shop/decide", {"key": "ann"})["id"] for _ in range(10)}) == 1
    assert len({post(client, "shop/decide", {"key": "ann"})["arm"] for _ in range(10)}) == 1
    assert client.get(f"{BASE}/shop").json()["decisions"] == 1
