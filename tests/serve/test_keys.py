"""What each key may do, what is written down of it, and the id of each request."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.learning import learning
from serve.running import DECIDE, KEY, READ, Running
from starlette.testclient import TestClient

from lim2.serve.app import all_operations, application
from lim2.serve.audit import AuditLog
from lim2.serve.config import load
from lim2.serve.service import Service

BASE = "/v1/bandits"
ROLES = {
    "decide": "decide reward rank decide_many reward_many activate decision",
    "read": "decision explain evaluate proof overview snapshot show list events",
}
SOME = """
[keys.web]
key = "for-the-web-shop"
role = "decide"
bandits = ["shop", "personalizer"]
[keys.chart]
key = "for-one-chart"
role = "read"
bandits = ["shop", "none"]
[keys.ann]
key = "for-ann-alone"
role = "admin"
bandits = ["shop"]
"""


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[TestClient]:
    """Give a client without a key of a service with keys for some bandits, which has two bandits."""
    file = tmp_path / "shop.toml"
    file.write_text(SOME)
    service = Service(load(file, {}, {"api_key": KEY, "data": str(tmp_path / "data"), "synchronous": "normal"}))
    app = TestClient(application(service))
    with learning(service.config), app as client:
        for name in ("shop", "other"):
            assert call(client, KEY, "PUT", f"{BASE}/{name}", {"arms": ["a", "b"]}).status_code == 201
        yield client


def call(client: TestClient, key: str | None, method: str, path: str, body: Any = None, **headers: str) -> Any:
    own = {} if key is None else {"authorization": f"Bearer {key}"}
    return client.request(method, path, json=body, headers={**own, **headers})


def test_every_operation_asks_for_the_role_that_the_documents_name() -> None:
    for operation in all_operations():
        wanted = {role for role, names in ROLES.items() if operation.name in names.split()}
        if operation.name.partition(".")[0] in ("v1", "v1.1-preview", "2022-09-01-preview"):
            wanted = {"decide"}
        assert set(operation.roles) == wanted, operation.name


@pytest.mark.parametrize(("key", "role"), [(DECIDE, "decide"), (READ, "read"), (KEY, "admin")])
def test_a_key_may_do_what_its_role_says(key: str, role: str, client: TestClient) -> None:
    assert client.put(f"{BASE}/shop", json={"arms": ["a", "b"]}).status_code == 201
    assert client.post(f"{BASE}/shop/decide", json={"id": "d"}).status_code == 200
    del client.headers["Ocp-Apim-Subscription-Key"]
    rank = {"actions": [{"id": "a"}]}
    for roles, method, path, body in (
        ("decide", "POST", f"{BASE}/shop/decide", {}),
        ("decide", "POST", f"{BASE}/shop/reward", {"id": "d", "reward": 1}),
        ("decide", "POST", "/personalizer/v1.0/rank", rank),
        ("decide read", "GET", f"{BASE}/shop/decisions/d", None),
        ("decide read", "GET", "/v1/whoami", None),
        ("read", "GET", BASE, None),
        ("read", "GET", "/metrics", None),
        ("", "PATCH", f"{BASE}/shop", {"epsilon": 0.5}),
        ("", "GET", "/v1/audit", None),
    ):
        answer = call(client, key, method, path, body)
        allowed = role == "admin" or role in roles.split()
        assert answer.status_code < 300 if allowed else answer.status_code == 403, (path, answer.text)
        assert allowed or f"has the role {role}: use one with" in answer.json()["error"]["message"]


def test_a_key_for_some_bandits_sees_and_changes_no_others(limited: TestClient) -> None:
    for key, method, path, body, status in (
        ("for-the-web-shop", "POST", "shop/decide", {}, 200),
        ("for-the-web-shop", "POST", "other/decide", {}, 403),
        ("for-one-chart", "GET", "shop", None, 200),
        ("for-one-chart", "GET", "other/overview", None, 403),
        ("for-one-chart", "GET", "other/events", None, 403),
        ("for-ann-alone", "PATCH", "shop", {"epsilon": 0.5}, 200),
        ("for-ann-alone", "DELETE", "other", None, 403),
        ("for-ann-alone", "PUT", "third", {}, 403),
    ):
        assert call(limited, key, method, f"{BASE}/{path}", body).status_code == status, (key, path)
    rank = {"actions": [{"id": "a"}]}
    assert call(limited, "for-the-web-shop", "POST", "/personalizer/v1.0/rank", rank).status_code == 201
    assert call(limited, "for-ann-alone", "POST", "/personalizer/v1.0/rank", rank).status_code == 403
    listed = call(limited, "for-one-chart", "GET", BASE).json()
    assert ([one["name"] for one in listed["bandits"]], listed["next"], listed["total"]) == (["shop"], None, 1)
    page = call(limited, "for-one-chart", "GET", f"{BASE}?after=shop").json()
    assert page["bandits"] == []
    for path in ("/metrics", "/v1/audit"):  # about all bandits
        assert call(limited, "for-ann-alone", "GET", path).status_code == 403
    me = call(limited, "for-the-web-shop", "GET", "/v1/whoami").json()
    assert me == {"role": "decide", "name": "keys.web", "bandits": ["personalizer", "shop"]}
    assert call(limited, None, "GET", "/v1/whoami").json() == {"role": None, "name": None, "bandits": None}
    assert call(limited, "guessed", "GET", "/v1/whoami").status_code == 401


def test_a_key_that_decides_does_not_open_the_dashboard(client: TestClient) -> None:
    del client.headers["Ocp-Apim-Subscription-Key"]
    refused = client.post("/login", json={"key": DECIDE})
    assert (refused.status_code, refused.headers.get("set-cookie")) == (403, None)
    assert client.post("/login", json={"key": READ}).json() == {"role": "read", "name": "read_key", "bandits": None}
    assert client.get(BASE).status_code == 200


def test_changes_and_refusals_are_in_the_audit_log(limited: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("lim2").propagate = True
    ann = "for-ann-alone"
    with caplog.at_level(logging.INFO, "lim2.audit"):
        call(limited, ann, "PATCH", f"{BASE}/shop", {"epsilon": 0.5}, **{"x-request-id": "my-change"})
        call(limited, ann, "PATCH", f"{BASE}/shop", {"epsilon": 5})  # refused: nothing was changed
        call(limited, ann, "POST", f"{BASE}/shop/arms", {"name": "c"})
        call(limited, ann, "POST", f"{BASE}/shop/arms", {"name": "c"})  # it is there already
        call(limited, KEY, "POST", f"{BASE}/shop/decide", {"key": "customer 17"})
        erased = call(limited, KEY, "POST", f"{BASE}/shop/erase", {"key": "customer 17"})
        assert erased.json() == {"erased": 1}, erased.text
        model = call(limited, KEY, "GET", f"{BASE}/shop/snapshot").content
        limited.put(f"{BASE}/shop/snapshot", content=model, headers={"authorization": f"Bearer {KEY}"})
        call(limited, ann, "DELETE", f"{BASE}/shop/arms/c")
        call(limited, KEY, "DELETE", f"{BASE}/shop")
        call(limited, ann, "DELETE", f"{BASE}/other")
        call(limited, "guessed", "GET", f"{BASE}/a%0Ab")
        limited.post("/login", json={"key": "guessed"})
    entries = call(limited, KEY, "GET", "/v1/audit").json()["entries"][::-1]
    shown = [(one["event"], one.get("key"), one.get("bandit"), one.get("details", {})) for one in entries[2:]]
    assert shown == [
        ("changed", "keys.ann", "shop", {"epsilon": 0.5}),
        ("arm added", "keys.ann", "shop", {"arm": "c"}),
        ("erased", "api_key", "shop", {"decisions": 1}),  # not of whom
        ("uploaded", "api_key", "shop", {}),
        ("arm removed", "keys.ann", "shop", {"arm": "c"}),
        ("deleted", "api_key", "shop", {}),
        ("refused", "keys.ann", None, {}),
        ("refused", None, None, {}),
        ("refused", None, None, {}),
    ]
    assert [one["event"] for one in entries[:2]] == ["created", "created"]
    assert entries[2]["request_id"] == "my-change"
    calls = [(one["status"], one["call"]) for one in entries if one["event"] == "refused"]
    assert calls == [(403, f"DELETE {BASE}/other"), (401, f"GET {BASE}/a%0Ab"), (401, "POST /login")]
    said = [record for record in caplog.records if record.name == "lim2.audit"]
    lines = [(record.getMessage(), vars(record)["fields"].get("bandit")) for record in said]
    assert lines == [(one["event"], one.get("bandit")) for one in entries[2:]]
    newest = call(limited, KEY, "GET", "/v1/audit?limit=2").json()["entries"]
    assert newest == entries[:-3:-1]


def test_the_audit_log_is_bounded_and_refusals_do_not_displace_changes(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit", max_bytes=2000)
    audit.record("deleted", key="ann", bandit="shop")
    for number in range(100):
        audit.record("refused", status=401, call=f"GET /{number}")
    files = sorted(path.name for path in (tmp_path / "audit").iterdir())
    assert files == ["changes.jsonl", "refused.jsonl", "refused.jsonl.1"]
    assert all(path.stat().st_size <= 2000 for path in (tmp_path / "audit").iterdir())
    with (tmp_path / "audit" / "refused.jsonl").open("a") as file:
        file.write('{"time": 1, "ev')  # a crash
    latest = AuditLog(tmp_path / "audit").latest(1000)
    assert [one.call for one in latest[:3]] == ["GET /99", "GET /98", "GET /97"]
    assert latest[-1].event == "deleted" and len(latest) < 60


def test_an_audit_log_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    logging.getLogger("lim2").propagate = True
    audit = AuditLog(tmp_path / "file" / "audit")
    for bandit in ("shop", "banner"):
        audit.record("deleted", key="ann", bandit=bandit)
    assert [record.levelname for record in caplog.records if record.name == "lim2.audit"] == ["ERROR"]  # once
    assert [one.bandit for one in audit.latest(10)] == ["banner", "shop"]


def test_every_answer_has_the_id_of_its_request(client: TestClient) -> None:
    for path, status in (("/healthz", 200), ("/v1/bandits/none", 404), ("/nowhere", 404), ("/logout", 204)):
        method = "POST" if path == "/logout" else "GET"
        first, second = client.request(method, path), client.request(method, path)
        assert first.status_code == status
        ids = {first.headers["x-request-id"], second.headers["x-request-id"]}
        assert len(ids) == 2 and all(len(one) == 16 for one in ids)
        assert client.request(method, path, headers={"x-request-id": "from-a-proxy"}).headers["x-request-id"] == (
            "from-a-proxy"
        )
    for wrong in ("with space", "x" * 129, ""):
        assert client.get("/healthz", headers={"x-request-id": wrong}).headers["x-request-id"] != wrong


def test_a_trace_is_continued(client: TestClient) -> None:
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    answer = client.get("/healthz", headers={"traceparent": f"00-{trace}-{span}-01"})
    version, continued, own, flags = answer.headers["traceparent"].split("-")
    assert (version, continued, flags) == ("00", trace, "01") and own != span and len(own) == 16
    assert answer.headers["x-request-id"] == trace
    for wrong in (f"00-{'0' * 32}-{span}-01", f"00-{trace}-{span}", "x"):
        assert "traceparent" not in client.get("/healthz", headers={"traceparent": wrong}).headers


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_have_the_id_of_the_request(form: str, tmp_path: Path) -> None:
    with Running(tmp_path / "data", log_format=form, access_log="true") as server:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        own = {"x-request-id": 'a"b', "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        assert server.call("GET", "/v1/bandits/none", headers=own)[0] == 404
        assert server.call("GET", "/v1/audit", key="guessed-key", headers=own)[0] == 401
    lines = [line for line in server.errors.read_text().splitlines() if trace in line]
    assert len(lines) == 3  # two requests, and a refusal
    if form == "json":
        first, refused, _ = map(json.loads, lines)
        assert (first["message"], first["key"]) == ("GET /v1/bandits/none 404", "api_key")
        assert (refused["message"], refused["logger"]) == ("refused", "lim2.audit")
        assert refused["call"] == "GET /v1/audit"
        assert {(line["request_id"], line["trace_id"]) for line in (first, refused)} == {('a"b', trace)}
    else:
        assert lines[0].endswith(rf'GET /v1/bandits/none 404 key="api_key" request_id="a\"b" trace_id="{trace}"')
