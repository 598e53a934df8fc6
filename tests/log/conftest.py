"""The tests of the log run over every kind of store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from log import world


@pytest.fixture(params=world.STORES, autouse=True, scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let a test run over a kind of store."""
    kind: str = request.param
    own = Path(request.path).parent.name
    if own in world.STORES and own != kind:
        pytest.skip(f"this is about the files of {own}")
    before, world.used[0] = world.used[0], kind
    yield kind
    world.used[0] = before
