"""Corners of Personalizer's protocol that its clients meet: null, ids, large models, times, paths."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.waiting import until
from serve.running import KEY, READ
from starlette.testclient import TestClient

from lim2.bandit import RawDecider
from lim2.evaluation.estimators import snips
from lim2.serve.app import application
from lim2.serve.config import load
from lim2.serve.personalizer import evaluations
from lim2.serve.personalizer.times import time_of
from lim2.serve.service import Service

V1, V11, V2022 = "/personalizer/v1.0", "/personalizer/v1.1-preview.3", "/personalizer"
ACTIONS: list[dict[str, Any]] = [{"id": "a", "features": [{"x": "1"}]}, {"id": "b", "features": [{"x": "2"}]}]


def test_null_is_as_good_as_nothing(client: TestClient) -> None:
    body = {
        "actions": [{"id": "a", "features": None}, {"id": "b"}], "contextFeatures": None, "excludedActions": None,
        "eventId": None, "deferActivation": None,
    }  # fmt: skip
    answer = client.post(f"{V1}/rank", json=body)
    assert answer.status_code == 201, answer.text
    span = {"startTime": "2020-01-01T00:00:00Z", "endTime": "2030-01-01T00:00:00Z"}
    contract = {"name": "n", **span, "policies": None, "enableOfflineExperimentation": None}
    assert client.post(f"{V11}/evaluations", json=contract).status_code == 201


@pytest.mark.parametrize("event", ["👨\u200d👩\u200d👧", "a\u00a0b", "\u3000", "\u2028", "a?b#c/../d"])
def test_an_event_id_may_have_any_characters_but_control_characters(event: str, client: TestClient) -> None:
    answer = client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": event})
    assert (answer.status_code, answer.json().get("eventId")) == (201, event)
    path = "".join(f"%{byte:02X}" for byte in event.encode())
    assert client.post(f"{V1}/events/{path}/reward", json={"value": 1}).status_code == 204
    assert client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": f"{event}\x85"}).status_code == 400


def test_a_model_that_was_downloaded_can_be_sent_back_whatever_max_body_is(tmp_path: Path) -> None:
    service = Service(load(environment={}, given={"api_key": KEY, "data": str(tmp_path / "data"), "max_body": 1024}))
    headers = {"Ocp-Apim-Subscription-Key": KEY}
    with TestClient(application(service), headers=headers) as client:
        model = client.get(f"{V11}/model").content
        assert len(model) > 1024
        assert client.put(f"{V11}/model", content=model).status_code == 204
        assert client.put(f"{V11}/model", content=model[:-1]).json()["error"]["code"] == "InvalidModelImportFormat"
        assert client.put(f"{V11}/configurations/policy", content=model).status_code == 413


def test_a_new_model_has_a_new_time_of_creation(client: TestClient) -> None:
    def times() -> tuple[str, str]:
        found = client.get(f"{V11}/model/properties").json()
        return found["creationTime"], found["lastModifiedTime"]

    model = client.get(f"{V11}/model").content
    kept: list[Callable[[], Any]] = [
        lambda: client.put(f"{V11}/configurations/service", json={"defaultReward": 0.5}),
        lambda: client.delete(f"{V11}/logs"),
    ]
    renewed: list[Callable[[], Any]] = [
        lambda: client.delete(f"{V11}/model"),
        lambda: client.put(f"{V11}/model", content=model),
        lambda: client.put(f"{V11}/configurations/policy", json={"name": "n", "arguments": "--algorithm LinearTS"}),
    ]
    for act in kept:
        before = times()
        assert act().status_code < 300
        assert times()[0] == before[0]
    for act in renewed:
        before = times()
        assert act().status_code < 300
        assert before[0] < times()[0] <= times()[1]


def test_a_restart_does_not_change_the_time_at_which_the_model_learned(tmp_path: Path) -> None:
    for start in range(2):
        service = Service(load(environment={}, given={"api_key": KEY, "data": str(tmp_path / "data")}))
        began = time_of(time.time())
        with TestClient(application(service), headers={"Ocp-Apim-Subscription-Key": KEY}) as client:
            if start == 0:
                client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": "e"})
                client.post(f"{V1}/events/e/reward", json={"value": 1})
            service.personalizer.step()
            learned = client.get(f"{V1}/model/properties").json()["lastModifiedTime"]
        assert (learned > began) is (start == 0)


def ended(found: Any) -> Any:
    """Return the evaluation if it has ended."""
    return None if found["status"] == "Running" else found


def test_an_evaluation_is_read_over_any_span_of_time(client: TestClient) -> None:
    for number in range(4):
        client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": str(number)})
        client.post(f"{V1}/events/{number}/reward", json={"value": 1})
    contract = {"name": "n", "startTime": "2020-01-01", "endTime": "2120-01-01"}
    assert client.put(f"{V2022}/evaluations/e", json=contract).status_code == 200

    def read(start: str, end: str) -> Any:
        answer = client.get(f"{V2022}/evaluations/e", params={"startTime": start, "endTime": end})
        assert answer.status_code == 200, answer.text
        return answer.json()

    always = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
    content = until(lambda: ended(read(*always)), "the evaluation ends")["content"]
    assert [len(one["timeseries"]["data"]) for one in content["value"]] == [1, 1, 1]
    assert content["intervalInMinutes"] == 5  # the decisions are of seconds, though a hundred years were asked for
    assert [len(one["timeseries"]["data"]) for one in read("2020-01-01", "2020-01-02")["content"]["value"]] == [0, 0, 0]


def test_an_evaluation_has_one_point_per_interval_of_all_before_it_or_of_it_alone(
    client: TestClient, service: Service
) -> None:
    now = 1_800_000_000.0  # a full hour
    service.personalizer.log.clock = lambda: now
    assert client.put(f"{V11}/configurations/service", json={"rewardWaitTime": "P1D"}).status_code == 200
    for number in range(12):
        client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": str(number)})
        client.post(f"{V1}/events/{number}/reward", json={"value": (0.0, 1.0, 0.5)[number // 4]})
        now += 900
    contract = {"name": "n", "startTime": "2020-01-01", "endTime": "2120-01-01"}
    assert client.put(f"{V2022}/evaluations/e", json=contract).status_code == 200

    def read(**query: Any) -> Any:
        found = until(lambda: ended(client.get(f"{V2022}/evaluations/e", params=query).json()), "the evaluation ends")
        series = found["content"]["value"][0]["timeseries"]["data"]
        return found["content"]["intervalInMinutes"], [point["expectedReward"] for point in series]

    assert (read()[0], len(read()[1])) == (5, 12)
    assert read(intervalInMinutes=60) == read(intervalInMinutes=60, window="Expanding") == (60, [0.0, 0.5, 0.5])
    assert read(intervalInMinutes=60, window="Rolling") == (60, [0.0, 1.0, 0.5])
    second = {"startTime": "2027-01-15T09:00:00Z", "endTime": "2027-01-15T10:00:00Z"}
    assert read(intervalInMinutes=60, window="Rolling", **second) == (60, [1.0])
    assert len(read(intervalInMinutes=1440, window="Rolling")[1]) == 1
    answer = client.get(f"{V2022}/evaluations/e", params={"intervalInMinutes": 7})
    assert (answer.status_code, answer.json()["error"]["target"]) == (400, "intervalInMinutes")
    assert "5, 60, 360, 720, 1440" in answer.json()["error"]["message"]


def test_the_points_of_a_series_are_self_normalised_estimates() -> None:
    rng = np.random.default_rng(0)
    weights, rewards = rng.choice([0.0, 0.5, 2.0], 90), rng.normal(size=90)
    made: list[Any] = [SimpleNamespace(time=60.0 * 20 * n, reward=float(r)) for n, r in enumerate(rewards)]
    series = evaluations._series(made, weights, 60)
    for rolling in (False, True):
        points = evaluations.windows_of(series, 360, rolling)
        assert len(points) == 5
        for number, point in enumerate(points):
            part = slice(18 * number if rolling else 0, 18 * (number + 1))
            right = snips(weights[part], rewards[part], 0.95)
            assert point.average_reward == pytest.approx(right.value)
            assert point.confidence_interval == pytest.approx(right.high - right.value)


def test_an_evaluation_that_fails_for_any_reason_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("anything")

    monkeypatch.setattr(evaluations, "evaluated", broken)
    contract = {"name": "n", "startTime": "2020-01-01", "endTime": "2120-01-01"}
    place = client.post(f"{V11}/evaluations", json=contract).headers["location"]
    found = until(lambda: ended(client.get(place).json()), "the evaluation ends")
    assert (found["status"], found["description"]) == ("Failed", "the service failed; see its log")


def test_many_decisions_are_made_beside_the_event_loop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may take a second, in which others are answered."""
    threads: list[str] = []

    def noted(name: str) -> None:
        method = getattr(RawDecider, name)

        def call(*args: Any, **rest: Any) -> Any:
            threads.append(threading.current_thread().name)
            return method(*args, **rest)

        monkeypatch.setattr(RawDecider, name, call)

    noted("decide")
    noted("rank")
    slots = [{"id": "top", "baselineAction": "a"}, {"id": "side", "baselineAction": "b"}]
    assert client.post(f"{V11}/multislot/rank", json={"actions": ACTIONS, "slots": slots}).status_code == 201
    many: dict[str, Any] = {"requests": [{"items": {"a": {}, "b": {}}}] * 2}
    assert client.post("/v1/bandits/personalizer/decide_many", json=many).status_code == 200
    assert client.post("/v1/bandits/personalizer/rank", json={"items": {"a": {}, "b": {}}}).status_code == 200
    assert len(threads) == 5 and all(name.startswith("asyncio_") for name in threads)


@pytest.mark.parametrize(
    ("method", "path", "body", "target", "words"),
    [
        (
            "PUT",
            f"{V11}/configurations/service",
            {"learningMode": "on"},
            "learningMode",
            "Apprentice, LoggingOnly, Online",
        ),
        ("PUT", "/v1/bandits/x", {"aggregate": "median"}, "aggregate", "first, last, max, mean, sum"),
        ("PUT", "/v1/bandits/x", {"settings": {"memory": 3}}, "settings", "no setting 'memory': it has .*buffer"),
        ("GET", f"{V2022}/evaluations/e?window=Open", None, "window", "Expanding, Rolling"),
        ("GET", "/v1/bandits?limit=0", None, "limit", ">= 1"),
        ("POST", f"{V1}/rank", b"", None, "the body is empty"),
    ],
)
def test_an_error_says_where_it_is_and_what_is_allowed(
    method: str, path: str, body: Any, target: str | None, words: str, client: TestClient
) -> None:
    sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = client.request(method, path, **sent)
    found = answer.json()["error"]
    assert (answer.status_code, found["target"]) == (400, target)
    assert re.search(words, found["message"]), found["message"]


@pytest.mark.parametrize("dialect", [V1, V11, V2022])
def test_features_that_cannot_be_read_have_the_code_of_a_wrong_rank(dialect: str, client: TestClient) -> None:
    mixed = [{"id": "a", "features": [{"tags": ["x", 1]}]}]
    bodies: dict[str, Any] = {"rank": {"actions": mixed}}
    if dialect != V1:
        bodies["multislot/rank"] = {"actions": mixed, "slots": [{"id": "s", "baselineAction": "a"}]}
    for path, body in bodies.items():
        answer = client.post(f"{dialect}/{path}", json=body)
        found = answer.json()["error"]
        assert (answer.status_code, found["code"]) == (400, "BadRequest" if dialect == V1 else "InvalidRankRequest")
        assert answer.headers.get("x-ms-error-code") == (None if dialect == V1 else found["code"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/rank", 201), ("GET", "/configurations/service", 200), ("GET", "/evaluations?skip=0", 200)],
)
def test_another_version_than_the_one_of_2022_is_refused(
    method: str, path: str, status: int, client: TestClient
) -> None:
    def called(version: str) -> Any:
        both = f"{path}{'&' if '?' in path else '?'}{version}"
        return client.request(method, f"{V2022}{both}", json={"actions": ACTIONS} if method == "POST" else None)

    for version in ("", "api-version=2022-09-01-preview"):
        assert called(version).status_code == status
    for version in ("api-version=2023-01-01", "api-version=", "api-version=v1.1-preview.3"):
        answer = called(version)
        found = answer.json()["error"]
        assert (answer.status_code, found["code"], found["target"]) == (400, "UnsupportedApiVersion", "api-version")
        assert "2022-09-01-preview" in found["message"]
    assert client.post(f"{V1}/rank?api-version=x", json={"actions": ACTIONS}).status_code == 201


@pytest.mark.parametrize("kind", ["interactions", "observations"])
@pytest.mark.parametrize("dialect", [V11, V2022])
def test_binary_logs_are_refused(dialect: str, kind: str, client: TestClient) -> None:
    answer = client.post(f"{dialect}/logs/{kind}", content=b"abc")
    assert answer.status_code == 400 and "binary logs" in answer.json()["error"]["message"]


def test_paths_that_are_not_there_are_counted_and_not_redirected(client: TestClient) -> None:
    for method, path in (("POST", f"{V1}/rank/"), ("GET", "/wp-login.php")):
        answer = client.request(method, path, follow_redirects=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ResourceNotFound")
    assert 'lim2_bad_requests_total{code="ResourceNotFound"} 2.0' in client.get("/metrics").text


def test_a_page_of_another_port_cannot_use_the_login_to_change_anything(client: TestClient) -> None:
    del client.headers["Ocp-Apim-Subscription-Key"]
    assert client.post("/login", json={"key": KEY}).status_code == 200
    create = {"arms": ["a", "b"]}
    for site in ("same-site", "cross-site"):
        assert client.put("/v1/bandits/x", json=create, headers={"sec-fetch-site": site}).status_code == 403
    assert client.put("/v1/bandits/x", json=create, headers={"sec-fetch-site": "same-origin"}).status_code == 201
    assert client.get("/v1/bandits", headers={"sec-fetch-site": "none"}).status_code == 200
    key = {"authorization": f"Bearer {READ}", "sec-fetch-site": "cross-site"}  # a key is not sent by itself
    assert client.get("/v1/bandits", headers=key).status_code == 200
