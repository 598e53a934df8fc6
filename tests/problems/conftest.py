"""Every test has a cache of its own; the real files are only there where LIM2_DATA names them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lim2.problems.files import find


@pytest.fixture(scope="session")
def parsed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for the real datasets, so that each is parsed once in a session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    cache = tmp_path / "cache"
    monkeypatch.setenv("LIM2_CACHE", str(cache))
    yield cache


@pytest.fixture
def real_data(parsed_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = os.environ.get("LIM2_DATA", "")
    if not folder or not Path(folder).is_dir() or find("shuttle.trn", folder) is None:
        pytest.skip("LIM2_DATA does not name a folder with the datasets")
    monkeypatch.setenv("LIM2_CACHE", str(parsed_once))
    return Path(folder)
