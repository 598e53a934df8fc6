"""The tests of the log run over every kind of store, but those for which it makes no difference."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import postgres
from log import world

HERE = Path(__file__).parent


@pytest.fixture(params=world.STORES, autouse=True, scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let a test run over a kind of store."""
    kind: str = request.param
    if kind == "postgres" and (reason := postgres.missing()):
        pytest.skip(reason)
    before, world.used[0] = world.used[0], kind
    yield kind
    world.used[0] = before


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about another store's own, and what need not run over a second one."""
    left = [item for item in items if HERE in item.path.parents and not _is_for(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def _is_for(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    kind = callspec.params.get("store") if callspec else None
    if kind is None:
        return True
    own = item.path.parent.name
    if own in world.STORES:
        return bool(own == kind)
    return bool(kind == "sqlite" or item.get_closest_marker("one_store") is None)
