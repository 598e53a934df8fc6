"""The native protocol: what lim2.Bandit does, by name, over HTTP."""

import http.client
import platform
import re
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.ports import free_port
from helpers.waiting import PATIENCE, until
from serve.learning import learned, learning
from serve.running import KEY, READ
from serve.stores import over_all
from starlette.testclient import TestClient

import lim2
from lim2.exploration.epsilon import LOGGED
from lim2.log import DecisionLog
from lim2.serve.app import application
from lim2.serve.config import load
from lim2.serve.scraping import MetricsServer
from lim2.serve.service import Service

pytestmark = pytest.mark.filterwarnings("ignore::lim2.evaluation.evaluate.OverlapWarning")  # the answer has them

BASE = "/v1/bandits"


def make(client: TestClient, name: str = "shop", **spec: Any) -> None:
    answer = client.put(f"{BASE}/{name}", json=spec)
    assert answer.status_code == 201, answer.text


def post(client: TestClient, path: str, body: Any, status: int = 200) -> Any:
    answer = client.post(f"{BASE}/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@over_all
def test_arms_without_features(client: TestClient, service: Service) -> None:
    make(client, arms=["spring", "shoes"], seed=0)
    made = post(client, "shop/decide", {"context": {"country": "AT", "age": 31}})
    assert made["arm"] in made["arms"] == ["spring", "shoes"]
    assert sum(made["propensities"]) == pytest.approx(1)
    assert post(client, "shop/reward", {"id": made["id"], "reward": 1.0}) == {"status": "recorded"}
    assert post(client, "shop/reward", {"id": made["id"], "reward": 1.0}) == {"status": "duplicate"}
    assert post(client, "shop/reward", {"id": made["id"], "reward": 0.5}, 409)["error"]["code"]
    learned(service, "shop")
    info = client.get(f"{BASE}/shop").json()
    assert (info["decisions"], info["rewards"], info["rounds"], info["lag"]) == (1, 1, 1, 0)
    only = post(client, "shop/decide", {"arms": ["shoes"]})
    assert (only["arm"], only["propensity"]) == ("shoes", 1.0)


@over_all
def test_items_rankings_and_slates(client: TestClient, service: Service) -> None:
    make(client)
    items = {"sku1": {"price": 9.9, "tags": ["new"]}, "sku2": {"price": 19}, "sku3": {"price": 5}}
    slate = post(client, "shop/rank", {"context": {"user": "new"}, "items": items, "k": 2, "id": "s1"})
    assert slate["id"] == "s1" and len(slate["ranking"]) == 2
    assert post(client, "shop/rank", {"items": {"other": {}}, "id": "s1"}) == slate
    assert post(client, "shop/reward", {"id": "s1", "reward": {"2": 1.0}}) == {"status": {"2": "recorded"}}
    learned(service, "shop")
    assert client.get(f"{BASE}/shop").json()["rounds"] == 1
    made = post(client, "shop/decide", {"items": items, "id": "d1", "metadata": {"version": 2}, "key": "anna"})
    assert post(client, "shop/decide", {"items": {"x": {}}, "id": "d1"}) == made
    reasons = post(client, "shop/explain", {"id": "d1"})["reasons"]
    assert {one["key"] for one in reasons} >= {"price"}
    assert post(client, "shop/erase", {"key": "anna"}) == {"erased": 1}
    post(client, "shop/explain", {"id": "d1"}, 404)


@over_all
def test_many_at_once(client: TestClient) -> None:
    make(client, arms=["a", "b"])
    asked = {"requests": [{"context": {"n": number}, "id": f"d{number}"} for number in range(5)]}
    first = post(client, "shop/decide_many", asked)["decisions"]
    assert [one["id"] for one in first] == ["d0", "d1", "d2", "d3", "d4"]
    more = {"requests": [*asked["requests"], {"context": {}}]}
    assert post(client, "shop/decide_many", more)["decisions"][:5] == first
    rewards = [{"id": one["id"], "reward": 1.0} for one in first]
    assert post(client, "shop/reward_many", {"rewards": rewards}) == {"statuses": ["recorded"] * 5}
    wrong = [{"id": "never", "reward": 1.0}, {"id": "d0", "reward": 1.0}]
    post(client, "shop/reward_many", {"rewards": wrong}, 404)
    post(client, "shop/decide_many", {"requests": [{"id": "x"}, {"id": "x"}]}, 400)


@over_all
def test_activation_and_aggregates(client: TestClient, service: Service) -> None:
    make(client, arms=["a", "b"], expire_after=60, default_reward=0, aggregate="max")
    post(client, "shop/decide", {"id": "d", "active": False})
    for value in (0.25, 0.75, 0.5):
        assert post(client, "shop/reward", {"id": "d", "reward": value}) == {"status": "recorded"}
    assert post(client, "shop/activate", {"id": "d"}) == {"activated": True}
    hosted = service.bandits.opened["shop"]
    hosted.log.clock = lambda: 4e9
    hosted.log.expire()
    learned(service)
    assert (hosted.rounds, hosted.log.get("d").reward) == (1, 0.75)


@over_all
def test_bandits_are_made_listed_changed_and_deleted(client: TestClient) -> None:
    spec = {"arms": {"a": {"price": 1}, "b": {"price": 2}}, "algorithm": "AdaptiveTS", "settings": {"hidden": []}}
    make(client, "one", **spec)
    assert client.put(f"{BASE}/one", json=spec).status_code == 200  # the very same
    assert client.put(f"{BASE}/one", json={"arms": ["a"]}).status_code == 409
    make(client, "two", expire_after=60)
    listed = {own["name"]: own for own in client.get(BASE).json()["bandits"]}
    assert set(listed) == {"one", "two", "personalizer"}
    changed = client.patch(f"{BASE}/two", json={"default_reward": 0.5, "epsilon": 0.5}).json()["spec"]
    assert (changed["expire_after"], changed["default_reward"], changed["epsilon"]) == (60, 0.5, 0.5)
    made = post(client, "two/decide", {"items": {"x": {}, "y": {}}})
    assert min(made["propensities"]) >= 0.25
    assert client.delete(f"{BASE}/two").status_code == 204
    assert client.get(f"{BASE}/two").status_code == 404
    assert client.delete(f"{BASE}/two").status_code == 404


@over_all
def test_the_share_of_uniform_decisions(client: TestClient) -> None:
    make(client, "usual", arms=["a", "b"])
    for name in ("usual", "personalizer"):
        assert client.get(f"{BASE}/{name}").json()["spec"]["epsilon"] == LOGGED
    make(client, "arms", arms=["a", "b", "c"], epsilon=0.3)
    make(client, "features", arms={"a": {"price": 1}, "b": {"price": 2}, "c": {}}, epsilon=0.3)
    for name in ("arms", "features"):
        assert min(post(client, f"{name}/decide", {})["propensities"]) >= 0.1 - 1e-12
        assert client.patch(f"{BASE}/{name}", json={"epsilon": 0.6}).json()["spec"]["epsilon"] == 0.6
        made = post(client, f"{name}/decide", {})
        assert min(made["propensities"]) >= 0.2 - 1e-12
        assert sum(made["propensities"]) == pytest.approx(1.0)


def test_former_names_of_the_share_are_refused_by_the_new_one(client: TestClient) -> None:
    make(client, "shop", arms=["a", "b"])
    for answer in (
        client.put(f"{BASE}/other", json={"arms": ["a", "b"], "exploration": 0.1}),
        client.put(f"{BASE}/other", json={"arms": ["a", "b"], "min_propensity": 0.1}),
        client.put(f"{BASE}/other", json={"arms": ["a", "b"], "settings": {"min_propensity": 0.1}}),
        client.patch(f"{BASE}/shop", json={"exploration": 0.1}),
    ):
        assert answer.status_code == 400
        assert re.search("use (the field )?epsilon", answer.json()["error"]["message"])
    assert client.get(f"{BASE}/other").status_code == 404


@pytest.mark.parametrize(
    "spec",
    [
        {"arms": []},
        {"arms": ["a", "a"]},
        {"algorithm": "Oracle"},
        {"settings": {"colour": 1}},
        {"settings": {"buffer": -1}, "algorithm": "LiM2"},
        {"epsilon": 2},
        {"settings": {"log": "elsewhere.db"}},
        {"settings": {"min_propensity": 0.5}},
        {"settings": {"n_features": 3}},
        {"default_reward": 1.0},
        {"aggregate": "median"},
        {"encoder": {"buckets": 10**9}},
        {"unknown": 1},
        [],
    ],
)
def test_what_cannot_be_made_leaves_nothing(spec: Any, client: TestClient, service: Service) -> None:
    assert client.put(f"{BASE}/wrong", json=spec).status_code == 400
    assert client.get(f"{BASE}/wrong").status_code == 404
    assert service.catalog.names() == ["personalizer"]


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "%2e%2e", "ä", "x" * 65, "a b"])
def test_names_stay_within_the_folder(name: str, client: TestClient, service: Service) -> None:
    assert client.put(f"{BASE}/{name}", json={}).status_code in (400, 404, 405)
    assert service.catalog.names() == ["personalizer"]


@over_all
def test_evaluation_overview_and_snapshot(client: TestClient, service: Service) -> None:
    make(client, arms=["a", "b", "c"], epsilon=0.3, seed=0)
    for number in range(60):
        made = post(client, "shop/decide", {"context": {"n": number % 3}})
        post(client, "shop/reward", {"id": made["id"], "reward": float(made["arm"] == "b")})
    learned(service, "shop")
    baseline = post(client, "shop/evaluate", {"policy": "baseline"})
    assert baseline["decisions"] == 60 and baseline["snips"]["value"] == 0.0
    for body in ({"policy": "random"}, {"policy": "best"}, {"policy": "algorithm", "algorithm": "LinearTS"}):
        found = post(client, "shop/evaluate", body)
        assert found["logged"]["low"] <= found["logged"]["value"] <= found["logged"]["high"]
    post(client, "shop/evaluate", {"policy": "algorithm"}, 400)
    post(client, "shop/evaluate", {"policy": "algorithm", "algorithm": "Oracle"}, 400)
    seen = client.get(f"{BASE}/shop/overview?points=6").json()
    assert [point["decisions"] for point in seen["points"]] == [10] * 6
    assert seen["baseline"]["value"] == 0.0 and seen["proof"]["rule"] == "first"
    proof = post(client, "shop/proof", {"against": "a"})
    assert (proof["rule"], proof["decisions"] + proof["uncovered"]) == ("always:a", 60)
    assert proof["gain"] == pytest.approx(service.bandits.opened["shop"].log.proof("a").gain)
    assert post(client, "shop/proof", {})["rule"] == "first"
    post(client, "shop/proof", {"reward_range": [1, 0]}, 400)
    assert sum(seen["shares"].values()) == pytest.approx(1)
    assert seen["latest"][0]["id"] == made["id"] and len(seen["latest"]) == 50
    assert seen["learned"][0]["key"] == "n"
    post(client, "shop/decide", {})
    assert client.get(f"{BASE}/shop/overview?points=6").json()["online"] == seen["online"]
    file = client.get(f"{BASE}/shop/snapshot")
    assert file.headers["content-type"] == "application/octet-stream"
    assert lim2.from_bytes(file.content).rounds == 60
    empty = client.get(f"{BASE}/personalizer/overview").json()
    assert empty["points"] == [] and empty["online"]["value"] is None


def test_keys(client: TestClient) -> None:
    def status(method: str, path: str, **headers: str) -> int:
        fresh = TestClient(client.app, headers=headers)
        return fresh.request(method, path, json={"arms": ["a"]} if method == "PUT" else None).status_code

    wrong = [{}, {"Ocp-Apim-Subscription-Key": "x"}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {KEY}"}]
    for headers in wrong:
        assert status("GET", BASE, **headers) == 401
    for headers in ({"Ocp-Apim-Subscription-Key": READ}, {"Authorization": f"Bearer {READ}"}):
        assert status("GET", BASE, **headers) == 200
        assert status("PUT", f"{BASE}/x", **headers) == 403
        assert status("GET", "/metrics", **headers) == 200
    assert status("PUT", f"{BASE}/x", Authorization=f"bearer {KEY}") == 201
    assert status("GET", "/metrics") == 401
    for path in ("/healthz", "/readyz", "/", "/docs", "/openapi.json"):
        assert status("GET", path) == 200


def test_the_page_logs_in_by_a_cookie(client: TestClient) -> None:
    page = TestClient(client.app)
    assert page.post("/login", json={"key": "wrong-key"}).status_code == 401
    assert page.get("/v1/whoami").json()["role"] is None
    answer = page.post("/login", json={"key": READ})
    assert answer.json() == {"role": "read", "name": "read_key", "bandits": None}
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and READ not in cookie
    assert page.get("/v1/whoami").json() == {"role": "read", "name": "read_key", "bandits": None}
    assert page.put(f"{BASE}/x", json={}).status_code == 403
    assert page.post("/logout").status_code == 204
    assert page.get("/v1/whoami").json()["role"] is None
    page.cookies.set("lim2_session", "99999999999.abcdef")
    assert page.get("/v1/whoami").json()["role"] is None


def test_logins_to_two_services_on_one_host(service: Service, tmp_path: Path) -> None:
    other = Service(load(environment={}, given={"api_key": "another-key-of-tests", "data": str(tmp_path / "other")}))
    first = TestClient(application(service), base_url="http://lim2.test:8300")
    second = TestClient(application(other), base_url="http://lim2.test:9000")
    second.cookies = first.cookies.jar  # a browser sends a cookie to all ports of a host
    first.cookies.set("theme", '{"dark": true}', domain="lim2.test")
    for page, key in ((first, READ), (second, "another-key-of-tests")):
        assert page.post("/login", json={"key": key}).status_code == 200
    assert first.get("/v1/whoami").json() == {"role": "read", "name": "read_key", "bandits": None}
    assert second.get("/v1/whoami").json() == {"role": "admin", "name": "api_key", "bandits": None}
    assert second.post("/logout").status_code == 204
    assert (first.get("/v1/whoami").json()["role"], second.get("/v1/whoami").json()["role"]) == ("read", None)
    for own in (service, other):
        own.bandits.close()


@over_all
def test_metrics_count_what_happens(client: TestClient, service: Service) -> None:
    make(client, arms=["a", "b"])
    made = post(client, "shop/decide", {})
    post(client, "shop/decide", {"id": made["id"]})  # a retry is no other decision
    post(client, "shop/reward", {"id": made["id"], "reward": 1.0})
    post(client, "shop/decide", {"arms": ["z"]}, 400)
    for _ in range(2):
        rank = {"actions": [{"id": "a"}], "eventId": "e"}
        assert client.post("/personalizer/v1.0/rank", json=rank).status_code == 201
    learned(service, "shop")
    text = client.get("/metrics").text
    for line in (
        'lim2_decisions_total{bandit="shop"} 1.0',
        'lim2_decisions_total{bandit="personalizer"} 1.0',
        'lim2_rewards_total{bandit="shop",status="recorded"} 1.0',
        'lim2_bad_requests_total{code="BadRequest"} 1.0',
        'lim2_requests_total{operation="decide",status="400"} 1.0',
        'lim2_learner_lag_events{bandit="shop"} 0.0',
        'lim2_model_rounds_total{bandit="shop"} 1.0',
        'lim2_pending_decisions{bandit="shop"} 0.0',
        'lim2_exploration_count{bandit="shop"} 1.0',
        "# TYPE lim2_late_rewards_total counter",
        f'lim2_build_info{{python="{platform.python_version()}",version="{lim2.__version__}"}} 1.0',
    ):
        assert line in text, line
    assert re.search(r"^process_open_fds \d", text, flags=re.MULTILINE)
    assert client.delete(f"{BASE}/shop").status_code == 204
    text = client.get("/metrics").text
    assert 'bandit="shop"' not in text and 'bandit="personalizer"' in text


def test_without_series_per_bandit_they_are_summed(tmp_path: Path) -> None:
    own = {"api_key": KEY, "data": str(tmp_path / "data"), "bandit_metrics": False, "synchronous": "normal"}
    with TestClient(
        application(Service(load(environment={}, given=own))), headers={"authorization": f"Bearer {KEY}"}
    ) as client:
        for name in ("one", "two"):
            make(client, name, arms=["a", "b"])
            for number in range(3):
                made = post(client, f"{name}/decide", {})
                if number:
                    post(client, f"{name}/reward", {"id": made["id"], "reward": 1.0})
        text = client.get("/metrics").text
    for line in (
        "lim2_decisions_total 6.0",
        'lim2_rewards_total{status="recorded"} 4.0',
        "lim2_pending_decisions 2.0",
        "lim2_exploration_count 6.0",
        'lim2_chosen_propensity_bucket{le="+Inf"} 6.0',
    ):
        assert line in text, line
    assert "bandit=" not in text and "lim2_training_loss{" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_metrics_on_a_port_of_their_own(host: str, service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        pytest.skip(f"{host} cannot be used here: {error}")
    service.config = msgspec.structs.replace(service.config, host=host, metrics_port=port)
    server = MetricsServer(service)
    try:
        asked = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        asked.request("GET", "/metrics")
        answer = asked.getresponse()
        assert (answer.status, answer.headers["server"].strip()) == (200, "lim2")
        assert b"lim2_model_rounds" in answer.read()
        asked.close()
        assert server._server is not None
        try:
            raise BrokenPipeError  # a client that has gone
        except BrokenPipeError:
            server._server.handle_error(None, (host, port))
    finally:
        server.close()
    assert capsys.readouterr().err == ""


def test_arms_come_and_go(client: TestClient, service: Service) -> None:
    make(client, arms=["a", "b"], seed=0, algorithm="LinearTS")
    waits = post(client, "shop/decide", {"arms": ["b"]})
    assert post(client, "shop/arms", {"name": "c/ü", "like": "a"}, 201) == {"arms": ["a", "b", "c/ü"]}
    assert post(client, "shop/arms", {"name": "c/ü"}) == {"arms": ["a", "b", "c/ü"]}  # a retry changes nothing
    assert client.get(f"{BASE}/shop").json()["arms"] == ["a", "b", "c/ü"]
    made = post(client, "shop/decide", {"arms": ["c/ü"]})
    assert client.delete(f"{BASE}/shop/arms/b").status_code == 204
    assert client.delete(f"{BASE}/shop/arms/b").status_code == 404
    assert post(client, "shop/decide", {})["arms"] == ["a", "c/ü"]
    post(client, "shop/decide", {"arms": ["b"]}, 400)
    hosted = service.bandits.opened["shop"]
    for one in (made, waits):
        assert post(client, "shop/reward", {"id": one["id"], "reward": 1.0}) == {"status": "recorded"}
        learned(service)
        assert (hosted.rounds, hosted.failure, hosted.lag) == (1, None, 0)  # that of a removed arm is passed over
    for path, body in (("arms", {"name": "d", "like": "nobody"}), ("arms", {"name": "d", "features": {"price": 1}})):
        post(client, f"shop/{path}", body, 400)
    assert client.delete(f"{BASE}/shop/arms/c%2F%C3%BC").status_code == 204
    assert client.delete(f"{BASE}/shop/arms/a").status_code == 400  # the last one
    assert client.get(f"{BASE}/shop").json()["arms"] == ["a"]
    replayed = lim2.Bandit(["a", "b"], algorithm="LinearTS", seed=0)
    hosted.log.replay(replayed)
    assert replayed.arms == ("a",)


def test_arms_with_features_come_and_go(client: TestClient, service: Service) -> None:
    make(client, arms={"a": {"price": 1}, "b": {"price": 2}}, seed=0)
    new = {"name": "c", "features": {"price": 3, "tags": ["new"]}}
    assert post(client, "shop/arms", new, 201) == {"arms": ["a", "b", "c"]}
    assert post(client, "shop/arms", new) == {"arms": ["a", "b", "c"]}
    post(client, "shop/arms", {"name": "c", "features": {"price": 4}}, 409)
    for features in (None, {"price": [[1]]}):
        post(client, "shop/arms", {"name": "d", "features": features}, 400)
    assert client.delete(f"{BASE}/shop/arms/a").status_code == 204
    made = post(client, "shop/decide", {"context": {"n": 1}})
    assert made["arms"] == ["b", "c"]
    post(client, "shop/reward", {"id": made["id"], "reward": 1.0})
    learned(service, "shop")
    assert client.get(f"{BASE}/shop").json()["rounds"] == 1
    make(client, "items")
    post(client, "items/arms", new, 400)
    assert client.delete(f"{BASE}/items/arms/a").status_code == 400
    post(client, "nobody/arms", {"name": "c"}, 404)


def test_what_still_waits_biases_no_estimate(client: TestClient, service: Service) -> None:
    """A click is known at once, a visitor who does not click only when the wait is over."""
    make(client, arms=["a"], expire_after=60, default_reward=0)
    hosted, now = service.bandits.opened["shop"], 1.8e9
    hosted.log.clock = lambda: now
    for number in range(20):
        if number == 10:
            now += 50
        made = post(client, "shop/decide", {})
        if number % 2:
            post(client, "shop/reward", {"id": made["id"], "reward": 1.0})
    now += 20  # the first ten are known, of the others only the clicks
    hosted.log.expire()
    seen = client.get(f"{BASE}/shop/overview?points=2").json()
    assert seen["online"]["value"] == 0.5
    assert [point["online"]["value"] for point in seen["points"]] == [0.5, None] and seen["left_out"] == 10
    assert seen["points"][1]["reward"]["value"] is None
    found = post(client, "shop/evaluate", {"policy": "baseline"})
    assert (found["decisions"], found["left_out"]) == (10, 10)


@over_all
def test_a_bandit_that_cannot_learn_says_so_and_goes_on_deciding(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(client, arms=["a", "b"])
    make(client, "other", arms=["a", "b"])
    hosted, apply = service.bandits.opened["shop"], DecisionLog.apply

    def fail(log: DecisionLog, *args: Any, **options: Any) -> int:
        if "shop" in log.store.name:
            raise TypeError("learning is broken: a secret")
        return apply(log, *args, **options)

    monkeypatch.setattr(DecisionLog, "apply", fail)
    for name in ("shop", "other"):
        made = post(client, f"{name}/decide", {})
        post(client, f"{name}/reward", {"id": made["id"], "reward": 1.0})
    until(lambda: hosted.failure and service.bandits.opened["other"].rounds, "one fails, the other learns")
    ready = client.get("/readyz")
    assert ready.status_code == 200 and ready.json()["degraded"]
    assert ready.json()["failures"] == {"shop": "TypeError"}  # anybody may read it
    assert "a secret" in client.get(f"{BASE}/shop").json()["failure"]
    assert client.get(f"{BASE}/shop").json()["lag"] == 1
    assert 'lim2_learner_failures_total{bandit="shop"}' in client.get("/metrics").text
    post(client, "shop/decide", {})


@over_all
def test_the_character_nul(client: TestClient) -> None:
    """PostgreSQL's texts cannot have it: in JSON it is kept, in an id, a key or a name it is refused."""
    odd = "a\0b"
    make(client, arms={odd: {odd: odd}, "b": {"x": 1}}, algorithm="LinearTS")
    make(client, "items", algorithm="LinearTS")
    assert client.get(f"{BASE}/shop").json()["spec"]["arms"][odd] == {odd: odd}
    made = post(client, "shop/decide", {"id": "d", "context": {odd: odd}, "metadata": {odd: odd}, "arms": [odd]})
    assert made["arm"] == odd
    assert post(client, "items/rank", {"items": {odd: {odd: odd}}})["ranking"][0]["arm"] == odd
    for path, body in {
        "decide": {"id": odd},
        "decide_many": {"requests": [{"id": "m"}, {"key": odd}]},
        "rank": {"id": odd},
        "reward": {"id": odd, "reward": 1.0},
        "reward_many": {"rewards": [{"id": "d", "reward": 1.0, "name": odd}]},
        "activate": {"id": odd},
        "explain": {"id": odd},
        "erase": {"key": odd},
    }.items():
        assert "NUL" in post(client, f"shop/{path}", body, 400)["error"]["message"]
    assert client.get(f"{BASE}/shop/decisions/a%00b").status_code == 400
    info = client.get(f"{BASE}/shop").json()
    assert (info["decisions"], info["pending"], info["rewards"]) == (1, 1, 0)


def test_a_model_that_was_downloaded_can_be_sent_back_whatever_max_body_is(tmp_path: Path) -> None:
    service = Service(load(environment={}, given={"api_key": KEY, "data": str(tmp_path / "data"), "max_body": 1024}))
    app = TestClient(application(service), headers={"authorization": f"Bearer {KEY}"})
    with learning(service.config), app as client:
        assert client.put(f"{BASE}/shop", json={"arms": ["a", "b"], "algorithm": "LinearTS"}).status_code == 201
        made = post(client, "shop/decide", {})
        post(client, "shop/reward", {"id": made["id"], "reward": 1})
        learned(service, "shop")
        model = client.get(f"{BASE}/shop/snapshot").content
        assert len(model) > 1024
        assert client.put(f"{BASE}/shop", content=model).status_code == 413
        fresh = lim2.Bandit(["b", "a"], algorithm="Uniform").to_bytes()
        for content, rounds in ((fresh, 0), (model, 1)):
            assert client.put(f"{BASE}/shop/snapshot", content=content).status_code == 204
            assert client.get(f"{BASE}/shop").json()["rounds"] == rounds
        others: tuple[Any, ...] = (model[:-1], b"", lim2.Bandit(["a", "c"]).to_bytes(), lim2.Bandit().to_bytes())
        for content in others:
            refused = client.put(f"{BASE}/shop/snapshot", content=content)
            assert refused.status_code == 400, refused.text
        assert client.get(f"{BASE}/shop").json()["rounds"] == 1


def test_another_algorithm_learns_the_log_again_and_keeps_the_arms(client: TestClient) -> None:
    make(client, arms=["a", "b"], algorithm="LinearTS")
    post(client, "shop/arms", {"name": "c"}, 201)
    for number in range(4):
        made = post(client, "shop/decide", {"context": {"n": number}})
        post(client, "shop/reward", {"id": made["id"], "reward": 1})
    for given, algorithm, settings in (
        ({"algorithm": "LinearTS", "settings": {"initial_pulls": 3}}, "LinearTS", {"initial_pulls": 3}),
        ({"algorithm": "Uniform"}, "Uniform", {}),
    ):
        changed = client.patch(f"{BASE}/shop", json=given).json()
        assert (changed["spec"]["algorithm"], changed["spec"]["settings"]) == (algorithm, settings)
        assert (changed["rounds"], changed["arms"][-1]) == (4, "c")
    for wrong in ({"algorithm": "Oracle"}, {"settings": {"colour": 1}}, {"learning_mode": "Online"}):
        assert client.patch(f"{BASE}/shop", json=wrong).status_code == 400
    assert client.get(f"{BASE}/shop").json() == changed


def test_the_bandit_of_personalizer_begins_anew_when_it_is_deleted(client: TestClient) -> None:
    rank = {"actions": [{"id": "a"}], "eventId": "e"}
    assert client.post("/personalizer/v1.0/rank", json=rank).status_code == 201
    assert client.patch(f"{BASE}/personalizer", json={"epsilon": 0.5, "learning_mode": "Apprentice"}).status_code == 200
    assert client.delete(f"{BASE}/personalizer").status_code == 204
    info = client.get(f"{BASE}/personalizer").json()
    assert (info["decisions"], info["spec"]["epsilon"], info["learning_mode"]) == (0, 0.03, "Online")
    assert client.post("/personalizer/v1.0/events/e/reward", json={"value": 1}).status_code == 404
    assert client.post("/personalizer/v1.0/rank", json=rank).status_code == 201


def test_a_body_that_will_be_refused_is_not_decoded(client: TestClient) -> None:
    make(client, arms=["a", "b"])
    no_json = b"{" * 100_000
    for path, status in (("none/decide", 404), ("shop/explain", 413), ("shop/decide", 400)):
        assert client.post(f"{BASE}/{path}", content=no_json).status_code == status
    assert client.post("/login", content=no_json).status_code == 413
