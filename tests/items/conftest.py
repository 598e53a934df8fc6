"""In these tests an algorithm that writes to a state that it is given is an error."""

import pytest
from helpers.purity import guard


@pytest.fixture(autouse=True)
def pure_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    guard(monkeypatch)
