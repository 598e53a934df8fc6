"""Every test has a cache of its own; the real files are only there where LIM2_DATA names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lim2.problems.files import find


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A folder of links to the real files: whatever a test does beside them happens there.

    A table is kept beside the links, so each dataset is parsed once in a session.
    """
    named = os.environ.get("LIM2_DATA", "")
    if not named or find("shuttle.trn", named) is None:
        return None
    folder = tmp_path_factory.mktemp("data")
    for path in Path(named).resolve().iterdir():
        if not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("LIM2_CACHE", str(cache))
    return cache


@pytest.fixture
def real_data(linked: Path | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    if linked is None:
        pytest.skip("LIM2_DATA does not name a folder with the datasets")
    monkeypatch.setenv("LIM2_DATA", str(linked))
    return linked
