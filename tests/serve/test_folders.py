"""Bandits in folders: made and deleted whole or not at all, and no log is ever overwritten."""

import contextlib
import shutil
from pathlib import Path

import pytest

from lim2.serve.bandits import Bandits
from lim2.serve.catalog import FileCatalog
from lim2.serve.config import load
from lim2.serve.errors import ApiError
from lim2.serve.spec import BanditSpec, Stored

STORED = Stored(spec=BanditSpec(arms=["a", "b"], algorithm="LinearTS"), created=1.0, log="log.db")


@pytest.fixture
def catalog(tmp_path: Path) -> FileCatalog:
    return FileCatalog(tmp_path, "normal")


def test_what_is_left_in_the_folder_of_a_deleted_bandit_is_in_nobody_s_way(catalog: FileCatalog) -> None:
    catalog.folder("shop").mkdir()
    (catalog.folder("shop") / "log.db-leader").touch()
    assert catalog.create("shop", STORED) is None
    assert sorted(path.name for path in catalog.folder("shop").iterdir()) == ["bandit.json", "log.db"]


def test_a_log_without_a_description_is_never_overwritten(catalog: FileCatalog, tmp_path: Path) -> None:
    """As after a backup of the log alone was put back."""
    catalog.create("shop", STORED)
    description = catalog.folder("shop") / "bandit.json"
    description.rename(tmp_path / "bandit.json")
    before = (catalog.folder("shop") / "log.db").read_bytes()
    bandits = Bandits(load(environment={}, given={"data": str(tmp_path)}), catalog, 10)
    with pytest.raises(ApiError, match=r"has a log but no bandit.json.* Put bandit.json back") as refused:
        bandits.create("shop", STORED.spec)
    assert refused.value.status == 409
    assert (catalog.folder("shop") / "log.db").read_bytes() == before
    shutil.copy(tmp_path / "bandit.json", description)
    assert catalog.names() == ["shop"] and catalog.read("shop") == STORED


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_crash_leaves_a_bandit_whole_or_not_at_all(
    catalog: FileCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """It crashes after so many folders were moved, and cleans up nothing."""
    rename, done = Path.rename, list[Path]()

    def crashing(path: Path, to: Path) -> Path:
        if len(done) == moves:
            raise KeyboardInterrupt
        moved = rename(path, to)
        done.append(path)
        return moved

    catalog.folder("shop").mkdir()
    with monkeypatch.context() as own, contextlib.suppress(KeyboardInterrupt):
        own.setattr(Path, "rename", crashing)
        own.setattr("lim2.serve.catalog.files.shutil.rmtree", lambda *_, **__: None)
        catalog.create("shop", STORED)
        catalog.delete("shop")
    assert len(done) == moves
    whole = (catalog.folder("shop") / "bandit.json").exists()
    assert catalog.names() == ["shop"] * whole and whole == (moves == 2)
    assert catalog.create("shop", STORED) == (STORED if whole else None)
    catalog.delete("shop")
    assert catalog.names() == [] and not catalog.folder("shop").exists()
    assert not list((tmp_path / "apart").iterdir())
