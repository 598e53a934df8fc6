"""A server per module, and a service within the process where a test needs its clock."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.learning import learning
from serve.running import DECIDE, KEY, READ, Running
from serve.stores import fresh_database
from starlette.testclient import TestClient

from lim2.serve.app import application
from lim2.serve.config import load
from lim2.serve.service import Service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("serve") / "data") as running:
        yield running


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Give where bandits live: None for folders; else an empty database."""
    if getattr(request, "param", "folders") == "folders":
        yield None
        return
    with fresh_database() as made:
        yield made


@pytest.fixture
def service(tmp_path: Path, store: str | None) -> Service:
    own = {
        "api_key": KEY,
        "read_key": READ,
        "decide_key": DECIDE,
        "data": str(tmp_path / "data"),
        "synchronous": "normal",
    }
    return Service(load(environment={}, given={**own, "store": store}))


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    headers = {"Ocp-Apim-Subscription-Key": KEY}
    app = TestClient(application(service), headers=headers, raise_server_exceptions=False)
    with learning(service.config), app as made:
        yield made
