"""`lim2 suite openml` and `lim2 bench --suite` of what it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from problems.openml_server import API, put_credit, put_numbers
from problems.server import Web, serving
from typer.testing import CliRunner

from lim2.cli import program

runner = CliRunner()


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    for name, value in (("LIM2_CACHE", "cache"), ("LIM2_DATA", "data"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, str(tmp_path / value) if name != "COLUMNS" else value)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    with serving() as web:
        monkeypatch.setenv("LIM2_OPENML", web.url(API))
        yield web


def run(*words: str) -> tuple[int, str, str]:
    result = runner.invoke(program(), list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_fetched_tasks_are_a_suite_that_can_be_played(web: Web) -> None:
    put_numbers(web, 3, "numbers")
    put_numbers(web, 4, "numbers", rows=20)
    put_credit(web)
    code, out, err = run("suite", "openml", "--task", "3,4,31", "--out", "many.toml", "--rounds", "40", "--runs", "1")
    assert (code, err) == (0, "")
    assert "openml:31 │ credit-g │    3 │       2 │       2 │       2 │" in out
    assert "Run it with: lim2 bench --suite many.toml" in out
    text = Path("many.toml").read_text()
    assert '  "openml:31", # credit-g: 3 rows, 2 columns, 2 classes' in text
    assert '[variants."numbers 4"]\nof = "openml:4"' in text
    words = ("--problems", "numbers 3,numbers 4", "--agents", "LinearTS", "--jobs", "1", "--no-report", "--out", "r")
    code, out, err = run("bench", "--suite", "many.toml", *words)
    assert code == 0, err
    assert "Fewer than 40 rounds, as there are no more rows: numbers 4 20." in err
    rows = json.loads(Path("r/summary.json").read_text())
    assert {(row["problem"], row["rounds"]) for row in rows} == {("numbers 3", 40), ("numbers 4", 20)}
    assert run("suite", "openml", "--task", "3", "--out", "many.toml")[0] == 2  # it is not overwritten


def test_what_fails_does_not_keep_the_others_from_being_fetched(web: Web) -> None:
    put_numbers(web, 3, "numbers")
    web.refusals[f"{API}/task/9"] = [(412, '{"error": {"code": "151", "message": "Unknown task"}}')]
    code, out, err = run("suite", "openml", "--task", "9,3", "--out", "s.toml")
    assert code == 1
    assert "openml:3" in out
    assert "error: task 9: " in err
    assert "'Unknown task' (error 151)" in err
    assert "openml:9" not in Path("s.toml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suite", "openml"), "name tasks with --task 31,1464"),
        (("suite", "openml", "--task", "one"), "--task must be one or several numbers, such as 31,1464, got 'one'"),
        (("bench", "--problems", "openml:7"), "fetch it with `lim2 suite openml --task 7`"),
        (("bench", "--problems", "openml:x"), "expected openml: and the number of a task"),
    ],
)
def test_what_is_wrong_is_said(web: Web, words: tuple[str, ...], message: str) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert message in err.replace("\n", " ")
