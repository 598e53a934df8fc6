"""`lim2 move`: bandits of a folder go on in a database where they stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands.shell import run
from serve.learning import learned as wait_until_learned
from serve.learning import learning
from serve.stores import fresh_database
from starlette.testclient import TestClient

from lim2.serve.app import application
from lim2.serve.catalog import FileCatalog, open_catalog
from lim2.serve.catalog.postgres import PostgresCatalog
from lim2.serve.config import ConfigError, load
from lim2.serve.run import prepared
from lim2.serve.service import Service

KEY = "Ocp-Apim-Subscription-Key"
V1, BASE = "/personalizer/v1.1-preview.3", "/v1/bandits"
ACTIONS = [{"id": "a", "features": [{"x": "1"}]}, {"id": "b", "features": [{"x": "2"}]}]
ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}, "c": {"kind": "z"}}


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_database() as made:
        yield made


@contextmanager
def served(data: Path, store: str | None = None) -> Iterator[TestClient]:
    """Give a client of a service over a folder, or over a database; its key is the one that its catalog has made."""
    given = {"data": str(data), "synchronous": "normal", "store": store}
    service = Service(load(environment={}, given=given))
    app = TestClient(application(service), headers={KEY: service.catalog.key()})
    with learning(service.config), app as client:
        client.app_state["service"] = service
        yield client


def call(client: TestClient, method: str, path: str, body: Any = None) -> Any:
    answer = client.request(method, path, **({"content": body} if isinstance(body, bytes) else {"json": body}))
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.headers.get("content-type", "").startswith("application/json") else answer.content


def learned(client: TestClient, name: str) -> None:
    """Wait until a bandit has learned all that there is."""
    wait_until_learned(client.app_state["service"], name)


def fill(client: TestClient) -> None:
    """Use all that a service has."""
    call(client, "PUT", f"{BASE}/arms", {"arms": {"a": {"x": 1}, "b": {"x": "\0"}}, "algorithm": "LinearTS", "seed": 1})
    call(client, "PUT", f"{BASE}/items", {"expire_after": 1e9, "default_reward": 0.0, "aggregate": "sum"})
    call(client, "PUT", f"{BASE}/empty", {"arms": ["a", "b"]})
    for number in range(12):
        for name in ("arms", "items"):
            items = {"items": ITEMS} if name == "items" else {}
            call(client, "POST", f"{BASE}/{name}/decide", {"id": f"d{number}", "context": {"n": number}, **items})
            if number < 8:
                call(client, "POST", f"{BASE}/{name}/reward", {"id": f"d{number}", "reward": number % 2, "name": "r"})
    call(client, "POST", f"{BASE}/items/rank", {"id": "slate", "items": ITEMS})
    call(client, "POST", f"{BASE}/arms/arms", {"name": "c", "features": {"x": 3}})
    call(client, "POST", f"{BASE}/arms/decide", {"id": "after", "key": "ann"})
    call(client, "PATCH", f"{BASE}/personalizer", {"expire_after": 3600, "learning_mode": "Online"})
    for event in ("e1", "e2"):
        call(client, "POST", f"{V1}/rank", {"eventId": event, "actions": ACTIONS})
    call(client, "POST", f"{V1}/events/e1/reward", {"value": 1.0})
    snapshot = f"{BASE}/personalizer/snapshot"
    call(client, "PUT", snapshot, call(client, "GET", snapshot))  # from now on it starts from this one
    for name in ("arms", "items", "personalizer"):
        learned(client, name)


def shown(client: TestClient) -> dict[str, Any]:
    """Return all that a service says about what it has."""
    bandits = {
        one["name"]: call(client, "GET", f"{BASE}/{one['name']}") for one in call(client, "GET", BASE)["bandits"]
    }
    for own in bandits.values():
        for changing in ("age", "leads", "model_age", "modified", "bytes", "nbytes", "oldest_pending"):
            own.pop(changing, None)
    decisions = {
        (name, id): call(client, "GET", f"{BASE}/{name}/decisions/{id}")
        for name, ids in {
            "arms": [*(f"d{number}" for number in range(12)), "after"],
            "items": [*(f"d{number}" for number in range(12)), "slate/1", "slate/3"],
            "personalizer": ["e1", "e2"],
        }.items()
        for id in ids
    }
    return {"bandits": bandits, "decisions": decisions}


def models(data: Path, store: str | None = None) -> dict[str, Any]:
    """Return which logs there are and how far they are, the latest models, and the ones that bandits start from."""
    catalog = open_catalog(load(environment={}, given={"data": str(data), "store": store}))
    found = {}
    for name in catalog.names():
        with catalog.open_log(name, catalog.read(name)) as log:
            model = log.model()
            found[name] = (log.id, log.position, model, catalog.documents(name, "start").get("start-1.lim2"))
    catalog.close()
    return found


def test_a_service_goes_on_in_the_database_where_it_stopped(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    with served(data) as client:
        fill(client)
        before, key = shown(client), client.headers[KEY]
        status, said = run("move", data, url)
        assert status == 2 and "a process serves the folder" in said
    kept = models(data)
    assert kept["personalizer"][3] is not None
    status, said = run("move", data, url)
    assert status == 0, said
    assert said.endswith(f"Done. Continue with: lim2 serve --store '{url}'\n")
    assert "arms: 9 events and 5 pending decisions. Two agents that learned 8 rewards" in said
    assert "empty: 0 events and 0 pending decisions. The log has no reward" in said
    assert models(tmp_path / "none", url) == kept == models(data)
    assert run("move", data, url)[1].count("was moved before") == 4
    with served(tmp_path / "other", url) as client:
        assert client.headers[KEY] == key
        assert shown(client) == before
        again = call(client, "POST", f"{BASE}/items/decide", {"id": "d9", "items": ITEMS})
        assert again["arm"] == before["decisions"]["items", "d9"]["arm"]
        assert call(client, "POST", f"{BASE}/arms/reward", {"id": "d9", "reward": 1.0}) == {"status": "recorded"}
        assert call(client, "POST", f"{BASE}/items/reward", {"id": "slate", "reward": {"2": 1.0}})
        assert call(client, "POST", f"{BASE}/arms/erase", {"key": "ann"}) == {"erased": 1}
        call(client, "POST", f"{V1}/events/e2/reward", {"value": 1.0})
        learned(client, "arms")
        learned(client, "personalizer")
        assert call(client, "GET", f"{BASE}/arms")["rounds"] == 9
        assert call(client, "GET", f"{BASE}/personalizer")["rounds"] == before["bandits"]["personalizer"]["rounds"] + 1
    assert models(tmp_path / "none", url)["arms"][2].version > kept["arms"][2].version
    assert models(data) == kept
    status, said = run("move", data, url)
    assert status == 2 and "has a bandit 'arms' already, which differs" in said and "delete one" in said


def test_a_move_that_was_interrupted_is_repeated(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    data = tmp_path / "data"
    with served(data) as client:
        for name in ("one", "two"):
            call(client, "PUT", f"{BASE}/{name}", {"arms": ["a", "b"], "algorithm": "LinearTS"})
            call(client, "POST", f"{BASE}/{name}/decide", {"id": "d"})

    def logs() -> int:
        with psycopg.connect(url) as connection:
            return len(connection.execute("SELECT FROM lim2.logs").fetchall())

    class KilledError(BaseException):
        pass

    def killed(*_: Any) -> bool:
        raise KilledError

    for left in (0, 1):  # tidied up after an exception, and not after a kill
        with monkeypatch.context() as own, pytest.raises(KilledError):
            own.setattr(PostgresCatalog, "adopt", killed)
            if left:
                own.setattr(PostgresCatalog, "delete_log", lambda *_: None)
            run("move", data, url, "one")
        assert logs() == left
    assert run("move", data, url, "one")[0] == 0
    assert logs() == 1
    status, said = run("move", data, url)
    assert status == 0 and "one: was moved before" in said and "two: 0 events and 1 pending decisions" in said
    status, said = run("move", data, url, "nobody")
    assert status == 2 and said.strip().endswith("has no bandit 'nobody'; it has one, personalizer, two")


def test_a_personalizer_that_nobody_has_used_is_in_nobody_s_way(tmp_path: Path, url: str) -> None:
    with served(tmp_path / "data"):
        pass
    assert run("move", tmp_path / "data", url)[0] == 0  # before anybody has used it
    with served(tmp_path / "unused", url) as there, served(tmp_path / "data") as client:
        call(client, "POST", f"{V1}/rank", {"eventId": "e", "actions": ACTIONS})
        key = there.headers[KEY]
    with served(tmp_path / "fresh") as client:
        call(client, "PUT", f"{BASE}/empty", {"arms": ["a", "b"]})
    status, said = run("move", tmp_path / "data", url)
    assert status == 0 and "personalizer: 0 events and 1 pending" in said
    status, said = run("move", tmp_path / "fresh", url)
    assert status == 0 and "personalizer: was never used, and the database has one" in said
    assert "keeps its own API key" in said
    with served(tmp_path / "unused", url) as client:
        assert client.headers[KEY] == key
        assert call(client, "GET", f"{BASE}/personalizer/decisions/e")["status"] == "pending"
        assert [one["name"] for one in call(client, "GET", BASE)["bandits"]] == ["empty", "personalizer"]


def test_a_folder_is_not_served_while_its_bandits_are_moved(tmp_path: Path) -> None:
    config = load(environment={}, given={"data": str(tmp_path)})
    catalog = FileCatalog(tmp_path, alone=True)
    with pytest.raises(ConfigError, match="cannot be used: its bandits are being moved"):
        prepared(config)
    catalog.close()
    prepared(config)


def test_what_cannot_be_moved(tmp_path: Path, url: str) -> None:
    status, said = run("move", tmp_path / "nowhere", url)
    assert status == 2 and "is not a data folder" in said and not (tmp_path / "nowhere").exists()
    FileCatalog(tmp_path).close()
    status, said = run("move", tmp_path, "sqlite:somewhere")
    assert status == 2, said
