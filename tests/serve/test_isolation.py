"""Each bandit stands alone: one that cannot be opened, read or learned fails, says so, and nobody else notices."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import until
from serve.learning import learn, learned, learner_of, learning
from serve.running import KEY
from serve.stores import fresh_database
from starlette.testclient import TestClient

import lim2
from lim2.serve.app import application
from lim2.serve.bandits import DecidingBandit
from lim2.serve.catalog import FileCatalog
from lim2.serve.config import Config, load
from lim2.serve.service import Service
from lim2.serve.spec import BanditSpec, Stored

BASE = "/v1/bandits"


def play(client: TestClient, name: str, count: int = 1) -> None:
    for _ in range(count):
        made = client.post(f"{BASE}/{name}/decide", json={"context": {"n": 1}})
        assert made.status_code == 200, made.text
        rewarded = client.post(f"{BASE}/{name}/reward", json={"id": made.json()["id"], "reward": 1.0})
        assert rewarded.json() == {"status": "recorded"}


def client_of(service: Service) -> TestClient:
    return TestClient(application(service), headers={"Ocp-Apim-Subscription-Key": KEY}, raise_server_exceptions=False)


def filled(config: Config) -> None:
    """Fill a store with a good and a bad bandit that have learned something, as an earlier run of the service."""
    service = Service(config)
    with learning(config), client_of(service) as client:
        for name in ("bad", "good"):
            assert client.put(f"{BASE}/{name}", json={"arms": ["a", "b"], "algorithm": "LinearTS"}).status_code == 201
            play(client, name, 3)
            learned(service, name)


def empty_description(folder: Path) -> None:
    (folder / "bandit.json").write_bytes(b"")


def damaged_log(folder: Path) -> None:
    for path in folder.glob("log.db-*"):
        path.unlink()
    (folder / "log.db").write_bytes(b"SQLite format 3\0" + b"rubbish" * 1000)


def half_log(folder: Path) -> None:
    with (folder / "log.db").open("r+b") as file:
        file.truncate(5000)


def newer_log(folder: Path) -> None:
    with sqlite3.connect(folder / "log.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize("damage", [empty_description, damaged_log, half_log, newer_log])
def test_a_bandit_that_cannot_be_opened_is_the_only_one_that_fails(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    config = load(environment={}, given={"api_key": [KEY], "data": str(tmp_path), "synchronous": "normal"})
    filled(config)
    damage(tmp_path / "bandits" / "bad")
    service = Service(config)
    with learning(config) as learner, client_of(service) as client:
        play(client, "good", 2)
        learned(service, "good")
        assert client.get(f"{BASE}/good").json()["rounds"] == 5
        refused = client.post(f"{BASE}/bad/decide", json={})
        assert refused.status_code == 503 and "'bad' cannot be opened" in refused.json()["error"]["message"]
        until(lambda: learner.caught_up and "bad" in service.failures, "it is said")
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["degraded"]) == (200, True)
        assert set(answer.json()["failures"]) == {"bad"} and str(tmp_path) not in answer.text
        listed = {one["name"]: one["failure"] for one in client.get(BASE).json()["bandits"]}
        assert listed.pop("bad") and set(listed.values()) == {None}
        assert "lim2_failed_bandits 1.0" in client.get("/metrics").text


def test_a_description_of_a_newer_lim2_in_a_database(tmp_path: Path) -> None:
    with fresh_database() as store:
        given = {"api_key": [KEY], "data": str(tmp_path), "synchronous": "normal", "store": store}
        config = load(environment={}, given=given)
        filled(config)
        import psycopg

        with psycopg.connect(store, autocommit=True) as connection:
            newer = 'description = replace(description, \'"aggregate":null\', \'"aggregate":"median"\')'
            connection.execute(f"UPDATE lim2.bandits SET stamp = nextval('lim2.stamps'), {newer} WHERE name = 'bad'")
        service = Service(config)
        with learning(config), client_of(service) as client:
            play(client, "good")
            learned(service, "good")
            assert client.post(f"{BASE}/bad/decide", json={}).status_code == 503
            until(lambda: "bad" in service.failures, "it is said")
            listed = {one["name"]: one["failure"] for one in client.get(BASE).json()["bandits"]}
            assert "median" in listed["bad"] and listed["good"] is None


def test_a_saved_model_that_is_damaged_is_learned_again_from_the_log(tmp_path: Path) -> None:
    config = load(environment={}, given={"api_key": [KEY], "data": str(tmp_path), "synchronous": "normal"})
    filled(config)
    folder = tmp_path / "bandits" / "bad"
    with sqlite3.connect(folder / "log.db") as connection:
        assert connection.execute("UPDATE models SET data = ?", (b"rubbish",)).rowcount
    connection.close()
    (folder / "snapshot").write_bytes(b"rubbish")
    service = Service(config)
    with learning(config), client_of(service) as client:
        play(client, "bad")
        until(lambda: service.bandits.opened["bad"].rounds == 4, "it is learned again")
        assert client.get(f"{BASE}/bad").json()["failure"] is None
        assert client.get(f"{BASE}/bad/snapshot").status_code == 200


@pytest.fixture
def catalog(tmp_path: Path) -> FileCatalog:
    catalog = FileCatalog(tmp_path, "normal")
    for name in "abcdefgh":
        spec = BanditSpec(arms=["x", "y"], algorithm="LinearTS", seed=0)
        catalog.create(name, Stored(spec=spec, created=1.0, log="log.db"))
    return catalog


def logged(catalog: FileCatalog, name: str, reward: float = 1.0) -> str:
    with catalog.open_log(name, catalog.read(name)) as log:
        decision = log.decide(lim2.Bandit(["x", "y"], algorithm="LinearTS"), {"n": 1})
        log.reward(decision.id, reward)
    return str(decision.id)


def test_logs_are_closed_where_files_are_few_and_models_stay_in_memory(catalog: FileCatalog) -> None:
    learner = learner_of(catalog, logs=2)
    for _ in range(3):
        for name in catalog.names():
            logged(catalog, name)
        assert learn(learner) == 8
        assert sum(own.log is not None for own in learner.opened.values()) <= 2 and len(learner.opened) == 8
    learner.close()
    decider = DecidingBandit("a", catalog)
    assert decider.rounds == 3
    decider.close()
    catalog.close()


def test_models_are_closed_where_memory_is_little_and_go_on_where_they_were(catalog: FileCatalog) -> None:
    learner = learner_of(catalog, most=2)
    for _ in range(2):
        for name in catalog.names():
            logged(catalog, name)
        assert learn(learner) == 8
        assert len(learner.opened) <= 2
    learner.close()
    decider = DecidingBandit("a", catalog)
    assert decider.rounds == 2
    decider.close()
    catalog.close()


def test_a_bandit_without_news_is_not_read_at_a_start(catalog: FileCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    logged(catalog, "a")
    first = learner_of(catalog)
    learn(first)
    first.close()
    catalog.close()
    again = FileCatalog(catalog.name, "normal")
    second, read = learner_of(again), list[Any]()
    monkeypatch.setattr("lim2.serve.learning.from_bytes", read.append)
    monkeypatch.setattr("lim2.serve.learning.first_model", lambda *own: read.append(own))
    assert learn(second) == 0 and read == [] and second.caught_up and second.opened == {}
    assert again.waiting(0.0) == {}  # so that they are not looked at again and again
    second.close()
    again.close()


def test_an_event_that_cannot_be_learned_is_passed_over(catalog: FileCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lim2.serve.learner.RETRY_SECONDS", 0.0)
    learned, passed = lim2.Bandit.learn_logged, list[str]()

    def fails(bandit: Any, history: Any, position: Any) -> None:
        if history is not None and 1e7 in history.rewards:
            raise FloatingPointError("the network diverges")
        learned(bandit, history, position)

    monkeypatch.setattr(lim2.Bandit, "learn_logged", fails)
    learner = learner_of(catalog)
    for reward in (1.0, 1e7, 0.5):
        passed.append(logged(catalog, "a", reward))
    until(lambda: learner.step() >= 0 and not learner.failures and learner.opened["a"].rewards == 2, "it goes on")
    assert learner.opened["a"].passed_over == 1
    learner.close()
    with catalog.open_log("a", catalog.read("a")) as log:
        assert [log.get(id).status for id in passed] == ["reward", "discarded", "reward"]
    catalog.close()


def test_a_pass_that_fails_does_not_end_the_learner(catalog: FileCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = list[int]()
    waiting = FileCatalog.waiting

    def fails(own: FileCatalog, now: float) -> Any:
        failing.append(1)
        if len(failing) < 3:
            raise OSError("the disk is full")
        return waiting(own, now)

    monkeypatch.setattr("lim2.serve.learner.LOOK_SECONDS", 0.01)
    monkeypatch.setattr(FileCatalog, "waiting", fails)
    logged(catalog, "a")
    learner = learner_of(catalog)
    learner.start()
    until(lambda: learner.learned == 1, "it goes on")
    learner.stop()
    catalog.close()


def test_a_description_that_cannot_be_read_says_where_it_is(catalog: FileCatalog) -> None:
    path = catalog.folder("a") / "bandit.json"
    path.write_text(json.dumps({"spec": {"aggregate": "median"}, "created": 0}))
    (one, *_) = catalog.page("", 10, {})
    assert one.name == "a" and one.failure is not None and str(path) in one.failure
    catalog.close()
