"""The list of thousands of bandits: in pages, and with as many queries for a long page as for a short one."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.learning import learned, learning
from serve.running import KEY
from serve.stores import over_all
from starlette.testclient import TestClient

from lim2.serve.app import application
from lim2.serve.bandits import PERSONALIZER
from lim2.serve.config import load
from lim2.serve.service import Service
from lim2.serve.spec import BanditSpec, Stored

MANY = 39
NAMES = [f"Shop-{number:03d}" if number % 2 else f"shop_{number:03d}" for number in range(MANY)]
BASE = "/v1/bandits"


@pytest.fixture
def service(tmp_path: Path, store: str | None) -> Service:
    """Give a service with many bandits of which one is open, as a replica on Ray has them."""
    own = {"api_key": KEY, "data": str(tmp_path / "data"), "synchronous": "normal", "store": store}
    made = Service(load(environment={}, given=own))
    spec = BanditSpec(arms=["a", "b"], algorithm="LinearTS")
    for name in NAMES:
        assert made.catalog.create(name, Stored(spec=spec, created=1.0, log=made.catalog.log_name(name, 0))) is None
    return made


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    app = TestClient(application(service), headers={"Ocp-Apim-Subscription-Key": KEY})
    with learning(service.config), app as made:
        yield made


def walk(client: TestClient, limit: int) -> Iterator[Any]:
    """Give all pages, one after another."""
    after: str | None = ""
    while after is not None:
        answer = client.get(BASE, params={"limit": limit, "after": after})
        assert answer.status_code == 200, answer.text
        yield answer.json()
        after = answer.json()["next"]


@over_all
def test_pages_have_every_bandit_once_in_order(client: TestClient) -> None:
    for limit, sizes in ((15, [15, 15, 10]), (10, [10] * 4), (MANY + 1, [MANY + 1]), (1000, [MANY + 1])):
        pages = list(walk(client, limit))
        names = [own["name"] for page in pages for own in page["bandits"]]
        assert names == sorted([*NAMES, PERSONALIZER])
        assert [len(page["bandits"]) for page in pages] == sizes
        assert {page["total"] for page in pages} == {MANY + 1}


@over_all
def test_a_page_goes_on_where_its_cursor_was_deleted(client: TestClient) -> None:
    first = client.get(BASE, params={"limit": 10}).json()
    assert client.delete(f"{BASE}/{first['next']}").status_code == 204
    rest = [own["name"] for page in walk(client, 50) for own in page["bandits"]]
    second = client.get(BASE, params={"limit": 1000, "after": first["next"]}).json()
    assert [own["name"] for own in second["bandits"]] == rest[9:]


@over_all
def test_counts_are_those_of_each_bandit(client: TestClient, service: Service) -> None:
    one, other = sorted(NAMES)[3], sorted(NAMES)[5]
    for name, count in ((one, 3), (other, 2)):
        ids = [client.post(f"{BASE}/{name}/decide", json={"context": {}}).json()["id"] for _ in range(count)]
        assert client.post(f"{BASE}/{name}/reward", json={"id": ids[0], "reward": 1}).status_code == 200
        learned(service, name)
    service.bandits.let_go(service.bandits.opened[other])  # one is open, the other is not
    listed = {own["name"]: own for own in client.get(BASE, params={"limit": 10}).json()["bandits"]}
    shown = [listed[name][key] for name in (one, other) for key in ("decisions", "rewards", "pending", "rounds", "lag")]
    assert shown == [3, 1, 2, 1, 0, 2, 1, 1, 1, 0]
    assert listed[one] == client.get(f"{BASE}/{one}").json()
    assert other not in service.bandits.opened  # a list opens nothing
    assert listed[sorted(NAMES)[0]]["decisions"] == 0


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_long_page_takes_no_more_queries_than_a_short_one(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    sent: list[str] = []
    execute = psycopg.Connection.execute

    def counted(connection: Any, query: Any, *more: Any, **rest: Any) -> Any:
        if threading.current_thread().name not in ("lim2 learner", "lim2 follower"):  # which look by themselves
            sent.append(str(query))
        return execute(connection, query, *more, **rest)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    counts = []
    for limit in (1, 30):
        sent.clear()
        assert len(client.get(BASE, params={"limit": limit}).json()["bandits"]) == limit
        counts.append(sum("FROM lim2.bandits" in query for query in sent))
    assert counts == [2, 2], sent


def test_a_wrong_page_is_refused(client: TestClient) -> None:
    for query in ("limit=0", "limit=1001", "limit=x", "after=a%00b", "after=" + 65 * "a"):
        assert client.get(f"{BASE}?{query}").status_code == 400
