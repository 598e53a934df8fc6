from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from experiments.helpers import write_agents


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module of agents that lim2 has never heard of; the user is in it."""
    write_agents(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("outside_agents", None)
