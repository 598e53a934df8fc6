"""Bandits that lim2 0.2 described: with `exploration` in place of `epsilon`, and settings that LinearTS had."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from serve.running import KEY
from serve.stores import over_all
from starlette.testclient import TestClient

from lim2.exploration.epsilon import LOGGED
from lim2.serve.app import application
from lim2.serve.catalog import FileCatalog
from lim2.serve.config import load
from lim2.serve.errors import ApiError
from lim2.serve.service import Service
from lim2.serve.spec import made, read_stored

LINEAR = {"arms": ["a", "b"], "settings": {"hidden": []}, "seed": 0}


def opened(folder: Path, store: str | None) -> Service:
    return Service(load(environment={}, given={"api_key": KEY, "data": str(folder), "store": store}))


def as_before(content: str) -> str:
    stored: dict[str, Any] = msgspec.json.decode(content)
    stored["spec"]["exploration"] = stored["spec"].pop("epsilon")
    if stored["spec"]["settings"] == {"hidden": []}:
        stored["spec"] |= {"algorithm": "LinearTS", "settings": {"scaled": True, "prior_precision": None}}
    return msgspec.json.encode(stored).decode()


def write_as_before(service: Service, store: str | None, name: str) -> None:
    if store is None:
        assert isinstance(service.catalog, FileCatalog)
        path = service.catalog.folder(name) / "bandit.json"
        path.write_text(as_before(path.read_text()))
        return
    with psycopg.connect(store) as connection:
        row = connection.execute("SELECT description FROM lim2.bandits WHERE name = %s", (name,)).fetchone()
        assert row is not None
        connection.execute("UPDATE lim2.bandits SET description = %s WHERE name = %s", (as_before(row[0]), name))


@pytest.fixture
def described(tmp_path: Path, store: str | None) -> Iterator[Service]:
    """Give a service whose bandits were described by an earlier version."""
    service = opened(tmp_path, store)
    with TestClient(application(service), headers={"Ocp-Apim-Subscription-Key": KEY}) as client:
        assert client.put("/v1/bandits/arms", json={"arms": ["a", "b", "c"], "epsilon": 0.6}).status_code == 201
        assert client.put("/v1/bandits/items", json={"epsilon": 0.5}).status_code == 201
        assert client.put("/v1/bandits/linear", json=LINEAR).status_code == 201
    for name in ("arms", "items", "linear", "personalizer"):
        write_as_before(service, store, name)
    yield opened(tmp_path, store)


@over_all
def test_they_open_and_decide_with_their_share(described: Service) -> None:
    with TestClient(application(described), headers={"Ocp-Apim-Subscription-Key": KEY}) as client:
        listed = {one["name"]: one["spec"]["epsilon"] for one in client.get("/v1/bandits").json()["bandits"]}
        assert listed == {"arms": 0.6, "items": 0.5, "linear": LOGGED, "personalizer": LOGGED}
        made = client.post("/v1/bandits/arms/decide", json={}).json()
        assert min(made["propensities"]) >= 0.2 - 1e-12
        made = client.post("/v1/bandits/items/decide", json={"items": {"x": {}, "y": {}}}).json()
        assert min(made["propensities"]) >= 0.25 - 1e-12
        changed = client.patch("/v1/bandits/arms", json={"epsilon": 0.3}).json()
        assert changed["spec"]["epsilon"] == 0.3
    assert described.catalog.read("arms").spec.epsilon == 0.3


@over_all
def test_a_linear_agent_that_found_its_scales_still_does(described: Service) -> None:
    with TestClient(application(described), headers={"Ocp-Apim-Subscription-Key": KEY}) as client:
        spec = client.get("/v1/bandits/linear").json()["spec"]
        assert (spec["algorithm"], spec["settings"]) == ("AdaptiveTS", {"hidden": []})
        assert client.post("/v1/bandits/linear/decide", json={"context": {"age": 30}}).status_code == 200
        assert client.put("/v1/bandits/linear", json=LINEAR).status_code == 200  # the very same


def test_what_linear_ts_no_longer_has_names_what_replaces_it(tmp_path: Path) -> None:
    with TestClient(application(opened(tmp_path, None)), headers={"Ocp-Apim-Subscription-Key": KEY}) as client:
        spec = {"arms": ["a"], "algorithm": "LinearTS", "settings": {"scaled": True}}
        refused = client.put("/v1/bandits/new", json=spec)
    assert refused.status_code == 400
    assert "AdaptiveTS(hidden=())" in refused.text


def test_linear_ts_stays_what_it_was_without_them() -> None:
    settings = '{"scaled": false, "forget": 0.0, "a0": 2.0}'
    spec = read_stored(f'{{"spec": {{"algorithm": "LinearTS", "settings": {settings}}}, "created": 0}}').spec
    assert (spec.algorithm, spec.settings) == ("LinearTS", {"a0": 2.0})


def test_both_names_are_none() -> None:
    with pytest.raises(msgspec.ValidationError, match="exploration"):
        read_stored('{"spec": {"exploration": 0.1, "epsilon": 0.2}, "created": 0}')


def test_settings_that_are_gone_and_had_no_effect_are_left_out() -> None:
    settings = {"forget": 0.0, "recount": True, "matching_rate": 0.01, "buffer": 200}
    stored = read_stored(json.dumps({"spec": {"arms": ["a"], "algorithm": "LiM2", "settings": settings}, "created": 0}))
    assert (stored.spec.algorithm, stored.spec.settings) == ("LiM2", {"buffer": 200})
    made(stored.spec)


def test_settings_that_are_gone_and_had_an_effect_are_refused_by_name() -> None:
    spec = {"arms": ["a"], "algorithm": "LiM2", "settings": {"forget": 0.1}}
    with pytest.raises(ApiError, match="has no setting 'forget'"):
        made(read_stored(json.dumps({"spec": spec, "created": 0})).spec)
