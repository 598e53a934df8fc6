from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from problems.server import Web, serving
from problems.small import WRITERS
from typer.testing import CliRunner

import lim2
from lim2.cli import program
from lim2.problems import sources
from lim2.problems.sources import SOURCES, Remote

runner = CliRunner()


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIM2_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LIM2_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """The source of Statlog, moved to this machine; its published checksum is that of a small file."""
    with serving() as web:
        web.files["shuttle.trn.gz"] = gzip.compress(b"1 2 3 4 5 6 7 8 9 1\n")
        local = sources.Source(
            "shuttle.trn",
            page="https://example.org/shuttle",
            licence="none",
            sha256="2e1e5dbbd4b23e0f8d5c2bb0e2ea6a0a6b9b8c8e3f0a2d3c4b5a69788796a5b4",
            mirrors=(Remote(web.url("shuttle.trn.gz")),),
        )
        monkeypatch.setitem(SOURCES, "shuttle.trn", local)
        yield web


def right_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib
    from dataclasses import replace

    digest = hashlib.sha256(b"1 2 3 4 5 6 7 8 9 1\n").hexdigest()
    monkeypatch.setitem(SOURCES, "shuttle.trn", replace(SOURCES["shuttle.trn"], sha256=digest))


def run(*words: str) -> tuple[int, str]:
    result = runner.invoke(program(), list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_help_and_version() -> None:
    code, text = run("--version")
    assert (code, text.startswith(f"lim2 {lim2.__version__} (kernels: ")) == (0, True)
    code, text = run("--help")
    assert code == 0
    assert "data" in text


@pytest.mark.parametrize("width", ["80", "120"])
def test_overview_tells_what_exists_and_what_is_here(
    width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    WRITERS["statlog"](tmp_path)
    code, text = run("data")
    assert code == 0
    assert max(len(line) for line in text.splitlines() if line[:1] in "│┃┏") <= int(width)
    for word in ("census", "2,458,285", "wheel", "CC BY 4.0", "archive.ics.uci.edu/dataset/148"):
        assert word in text
    row = next(line for line in text.splitlines() if line.startswith("│ statlog "))
    assert "yes" in row
    assert next(line for line in text.splitlines() if line.startswith("│ covertype ")).count(" no ") == 1


def test_check_names_what_is_wrong_and_fails(tmp_path: Path) -> None:
    WRITERS["epileptic"](tmp_path)
    (tmp_path / "shuttle.trn").write_text("1 2 3 4 5 6 7 8 9 8\n")
    code, text = run("data", "check")
    assert code == 1
    assert f"statlog: {tmp_path / 'shuttle.trn'}, line 1, column class: '8' is not in 1 .. 7" in text
    assert "the file ends after 40 rows, documented are 11500" in text
    assert "Not on this machine: adult, amazon" in text


def test_check_of_what_is_as_published(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    from lim2.problems.facts import Facts

    monkeypatch.setattr(Facts, "check", lambda *args: None)
    right_checksum(monkeypatch)
    (tmp_path / "shuttle.trn").write_text("1 2 3 4 5 6 7 8 9 1\n")
    code, text = run("data", "check", "statlog")
    assert code == 0
    assert "as published" in text


def test_check_of_something_absent_fails() -> None:
    code, text = run("data", "check", "mushroom")
    assert code == 1
    assert "Not on this machine: mushroom" in text


def test_fetch_then_load(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    right_checksum(monkeypatch)
    code, text = run("data", "fetch", "statlog")
    assert code == 0
    assert "checksum verified" in text
    assert (tmp_path / "shuttle.trn").read_text() == "1 2 3 4 5 6 7 8 9 1\n"
    assert lim2.problems.load("statlog", rounds=1).rounds == 1
    code, text = run("data", "fetch", "statlog")
    assert "already here" in text
    assert len(web.requests) == 1


def test_fetch_finds_what_a_read_only_folder_has(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "shuttle.trn").write_text("1 2 3 4 5 6 7 8 9 1\n")
    folder.chmod(0o555)
    monkeypatch.setenv("LIM2_DATA", str(folder))
    code, text = run("data", "fetch", "statlog")
    folder.chmod(0o755)
    assert code == 0
    assert "already here" in text
    assert web.requests == []


def test_fetch_into_a_folder(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    right_checksum(monkeypatch)
    code, _ = run("data", "fetch", "statlog", "--data", str(tmp_path / "new"))
    assert code == 0
    assert (tmp_path / "new" / "shuttle.trn").exists()


def test_fetch_of_a_wrong_file(tmp_path: Path, web: Web) -> None:
    code, text = run("data", "fetch", "statlog")
    assert code == 2
    assert "wrong checksum" in text
    assert "https://example.org/shuttle" in text
    assert not (tmp_path / "shuttle.trn").exists()


def test_fetch_goes_on_after_a_failure(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    right_checksum(monkeypatch)
    code, text = run("data", "fetch", "amazon", "statlog")
    assert code == 2
    assert "Amazon_Unlocked_Mobile.csv cannot be downloaded by a program" in text
    assert (tmp_path / "shuttle.trn").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fetch",), "name the datasets to fetch, or give --all"),
        (("fetch", "statlg"), "did you mean 'statlog'"),
        (("fetch", "wheel"), "wheel is not a dataset with files"),
        (("check", "wheel"), "wheel is not a dataset with files"),
    ],
)
def test_wrong_words_are_told_in_one_line(words: tuple[str, ...], message: str) -> None:
    code, text = run("data", *words)
    assert code == 2
    assert message in text
    assert "Traceback" not in text
