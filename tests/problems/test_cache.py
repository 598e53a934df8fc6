from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from problems.small import WRITERS

import lim2.problems
from lim2.problems import dataset, files, table


def load(folder: Path) -> lim2.problems.Problem:
    return lim2.problems.load("statlog", rounds="all", seed=0, data=folder, verify=False)


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were parsed, in order."""
    seen: list[Path] = []
    original = table.read

    def counted(path: Path, *args: object, **kwargs: object) -> object:
        seen.append(path)
        return original(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(dataset, "read", counted)
    return seen


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.arrow") if ".schema" not in path.suffixes)


def test_the_second_load_does_not_parse(tmp_path: Path, parses: list[Path]) -> None:
    WRITERS["statlog"](tmp_path)
    first, second = load(tmp_path), load(tmp_path)
    assert len(parses) == 1
    np.testing.assert_array_equal(first.contexts, second.contexts)
    assert [path.parent for path in kept(tmp_path)] == [tmp_path / ".lim2-cache"]


def test_a_changed_file_is_parsed_again(tmp_path: Path, parses: list[Path]) -> None:
    WRITERS["statlog"](tmp_path)
    before = load(tmp_path)
    path = tmp_path / "shuttle.trn"
    path.write_text(path.read_text().replace("-50", "-49"))
    os.utime(path, ns=(1, 1))
    after = load(tmp_path)
    assert len(parses) == 2
    assert not np.array_equal(before.contexts, after.contexts)


def test_the_same_content_elsewhere_has_the_same_name(tmp_path: Path) -> None:
    names = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        WRITERS["statlog"](folder)
        load(folder)
        names.append(kept(folder)[0].name)
    assert names[0] == names[1]


def test_beside_a_read_only_folder_the_users_cache_is_used(tmp_path: Path, own_cache: Path, parses: list[Path]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    WRITERS["statlog"](folder)
    folder.chmod(0o555)
    try:
        load(folder)
        load(folder)
    finally:
        folder.chmod(0o755)
    assert len(parses) == 1
    assert not (folder / ".lim2-cache").exists()
    assert [path.parent for path in kept(own_cache)] == [own_cache / "parsed"]


def test_a_folder_without_write_permission_is_not_writable_even_to_root(tmp_path: Path) -> None:
    assert files.writable(tmp_path)
    tmp_path.chmod(0o555)
    try:
        assert not files.writable(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_a_damaged_table_is_parsed_again(tmp_path: Path, parses: list[Path]) -> None:
    WRITERS["statlog"](tmp_path)
    first = load(tmp_path)
    kept(tmp_path)[0].write_bytes(b"ARROW1 and then nothing of sense")
    again = load(tmp_path)
    assert len(parses) == 2
    np.testing.assert_array_equal(first.contexts, again.contexts)


def test_the_checksum_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    first = files.remembered_sha256(path)
    monkeypatch.setattr(files, "digest", lambda path: "computed anew")
    assert files.remembered_sha256(path) == first
    path.write_text("other")
    assert files.remembered_sha256(path) == "computed anew"


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with files.unfinished(tmp_path / "table") as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


def test_the_cache_of_lim2_data_is_found_first(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "data").mkdir(parents=True)
    (own_cache / "data" / "shuttle.trn").write_text("in the cache")
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.setenv("LIM2_DATA", str(named))
    assert files.find("shuttle.trn") == own_cache / "data" / "shuttle.trn"
    (named / "shuttle.trn.xz").write_text("in the folder that was named")
    assert files.find("shuttle.trn") == named / "shuttle.trn.xz"
    assert files.find("shuttle.trn", tmp_path) is None
