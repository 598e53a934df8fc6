"""Corners of Personalizer's protocol that its clients meet: null, ids, versions, removed calls, paths."""

import re
import threading
from typing import Any

import pytest
from serve.running import KEY, READ
from starlette.testclient import TestClient

from lim2.bandit import RawDecider

V1, V11, V2022 = "/personalizer/v1.0", "/personalizer/v1.1-preview.3", "/personalizer"
ADMINISTRATION = [
    *("GET /configurations/service", "PUT /configurations/service", "GET /configurations/policy"),
    *("PUT /configurations/policy", "DELETE /configurations/policy", "POST /configurations/applyFromEvaluation"),
    *("GET /model", "PUT /model", "DELETE /model", "GET /model/properties", "GET /logs/properties", "DELETE /logs"),
    *("POST /logs/interactions", "POST /logs/observations", "GET /evaluations", "POST /evaluations"),
    *("PUT /evaluations/a%2Fb", "GET /evaluations/e", "DELETE /evaluations/e", "GET /featureImportances"),
    *("PUT /featureImportances/e", "GET /featureImportances/e", "DELETE /featureImportances/e"),
]
ACTIONS: list[dict[str, Any]] = [{"id": "a", "features": [{"x": "1"}]}, {"id": "b", "features": [{"x": "2"}]}]


def test_null_is_as_good_as_nothing(client: TestClient) -> None:
    body = {
        "actions": [{"id": "a", "features": None}, {"id": "b"}], "contextFeatures": None, "excludedActions": None,
        "eventId": None, "deferActivation": None,
    }  # fmt: skip
    answer = client.post(f"{V1}/rank", json=body)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("event", ["👨\u200d👩\u200d👧", "a\u00a0b", "\u3000", "\u2028", "a?b#c/../d"])
def test_an_event_id_may_have_any_characters_but_control_characters(event: str, client: TestClient) -> None:
    answer = client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": event})
    assert (answer.status_code, answer.json().get("eventId")) == (201, event)
    path = "".join(f"%{byte:02X}" for byte in event.encode())
    assert client.post(f"{V1}/events/{path}/reward", json={"value": 1}).status_code == 204
    assert client.post(f"{V1}/rank", json={"actions": ACTIONS, "eventId": f"{event}\x85"}).status_code == 400


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
    assert len(threads) == 5 and all(name.startswith("lim2 decision") for name in threads)


@pytest.mark.parametrize(
    ("method", "path", "body", "target", "words"),
    [
        (
            "PATCH",
            "/v1/bandits/personalizer",
            {"learning_mode": "on"},
            "learning_mode",
            "Apprentice, LoggingOnly, Online",
        ),
        ("PUT", "/v1/bandits/x", {"aggregate": "median"}, "aggregate", "first, last, max, mean, sum"),
        ("PUT", "/v1/bandits/x", {"settings": {"memory": 3}}, "settings", "no setting 'memory': it has .*buffer"),
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


def test_another_version_than_the_one_of_2022_is_refused(client: TestClient) -> None:
    def called(version: str) -> Any:
        return client.post(f"{V2022}/rank?{version}", json={"actions": ACTIONS})

    for version in ("", "api-version=2022-09-01-preview"):
        assert called(version).status_code == 201
    for version in ("api-version=2023-01-01", "api-version=", "api-version=v1.1-preview.3"):
        answer = called(version)
        found = answer.json()["error"]
        assert (answer.status_code, found["code"], found["target"]) == (400, "UnsupportedApiVersion", "api-version")
        assert "2022-09-01-preview" in found["message"]
    assert client.post(f"{V1}/rank?api-version=x", json={"actions": ACTIONS}).status_code == 201


@pytest.mark.parametrize("dialect", [V1, V11, V2022])
@pytest.mark.parametrize("line", ADMINISTRATION)
def test_administration_answers_which_native_call_to_use(dialect: str, line: str, client: TestClient) -> None:
    method, path = line.split()
    answer = client.request(method, f"{dialect}{path}", content=b"abc" if method in ("PUT", "POST") else None)
    found = answer.json()["error"]
    assert answer.status_code == 410
    called = re.search(r"use (GET|PUT|PATCH|POST|DELETE) (/v1/bandits/personalizer\S*?)[,;]? ", found["message"])
    assert called is not None, found["message"]
    assert client.request(called[1], called[2], content=b"abc").status_code not in (404, 405, 410)
    del client.headers["Ocp-Apim-Subscription-Key"]
    assert client.request(method, f"{dialect}{path}").status_code == 401


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
