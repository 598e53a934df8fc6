from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import lim2
from lim2.cli import program
from lim2.log.table import Table

runner = CliRunner()
N = 50
RNG = np.random.default_rng(0)
FRAME = pl.DataFrame(
    {
        "x_age": RNG.normal(40.0, 9.0, N),
        "x_basket": RNG.normal(size=N),
        "country": [["AT", "DE", None][i] for i in RNG.integers(0, 3, N)],
        "banner": [["spring", "shoes"][i] for i in RNG.integers(0, 2, N)],
        "click": RNG.integers(0, 2, N),
        "p": np.full(N, 0.5),
    }
)
COLUMNS = ("--arm-column", "banner", "--reward-column", "click")


def run(*words: Any) -> tuple[int, str]:
    result = runner.invoke(program(), ["warm-start", *map(str, words)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    FRAME.write_csv(tmp_path / "clicks.csv")
    return tmp_path / "clicks.csv"


def test_a_csv_file(csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "agent.lim2"
    code, text = run(csv, *COLUMNS, "--context", "x_", "--propensity", "p", "--out", out, "--seed", 3)
    assert code == 0
    assert "AdaptiveTS has learned 50 rewards of 2 arms in" in text
    assert f"per second: {out}" in text
    table = Table.from_frame(FRAME, arm="banner", reward="click", propensity="p", context="x_")
    expected = lim2.AdaptiveTS(arms=table.arms, n_features=2, seed=3)
    table.replay(expected, "auto")
    assert lim2.load(out).to_bytes() == expected.to_bytes()


def test_parquet_listed_columns_and_a_batch_of_ones_own(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "clicks.parquet")
    words = (*COLUMNS, "--context", "x_basket, x_age", "--agent", "LinearTS", "--batch", 10, "--seed", 0)
    code, _ = run(tmp_path / "clicks.parquet", *words, "--out", tmp_path / "a.lim2")
    assert code == 0
    expected = lim2.LinearTS(arms=tuple(dict.fromkeys(FRAME["banner"])), n_features=2, seed=0)
    contexts = FRAME.select("x_basket", "x_age").to_numpy()
    expected.update(contexts, FRAME["banner"].to_list(), FRAME["click"].to_numpy(), batch=10)
    assert lim2.load(tmp_path / "a.lim2").to_bytes() == expected.to_bytes()


def test_raw_contexts_make_a_bandit(csv: Path, tmp_path: Path) -> None:
    code, text = run(csv, *COLUMNS, "--context", "x_age,country", "--raw", "--out", tmp_path / "b.lim2")
    assert code == 0
    assert "AdaptiveTS has learned 50 rewards" in text
    bandit = lim2.load(tmp_path / "b.lim2")
    assert isinstance(bandit, lim2.Bandit)
    assert bandit.rounds == 50
    assert bandit.decide({"x_age": 30, "country": "AT"}).arm in ("spring", "shoes")


def test_logs_of_vectors_items_and_raw_contexts(tmp_path: Path) -> None:
    vectors = lim2.LinearTS(arms=["a", "b"], n_features=2, seed=0)
    with lim2.DecisionLog(tmp_path / "vectors.db") as log:
        for context in RNG.normal(size=(9, 2)):
            log.reward(log.decide(vectors, context).id, 1.0)
    bandit = lim2.Bandit(seed=0, log=tmp_path / "raw.db")
    for t in range(9):
        made = bandit.decide({"t": t}, {"sku1": {"price": 1.0}, "sku2": {"price": 2.0}})
        bandit.update(made, 1.0)
    assert bandit.log is not None
    bandit.log.close()
    for name, kind in (("vectors", lim2.Agent), ("raw", lim2.Bandit)):
        code, text = run(tmp_path / f"{name}.db", "--out", tmp_path / f"{name}.lim2")
        assert code == 0, text
        made = lim2.load(tmp_path / f"{name}.lim2")
        assert isinstance(made, kind)
        assert made.rounds == 9
        assert made.metadata == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--context", "x_"), "needs --arm-column, --reward-column and --context"),
        ((*COLUMNS, "--context", "country"), "must hold numbers"),
        ((*COLUMNS, "--context", "x_", "--agent", "Nobody"), "--agent must be one of LinearTS"),
        ((*COLUMNS, "--context", "x_", "--batch", "many"), "--batch must be auto or a whole number"),
        ((*COLUMNS, "--context", "x_", "--batch", "0"), "batch must be at least 1"),
        ((*COLUMNS, "--context", "x_", "--agent", "LiM2", "--batch", "8"), "LiM2 does not learn in batches"),
    ],
)
def test_errors_are_said_in_one_line(csv: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, text = run(csv, *words, "--out", tmp_path / "a.lim2")
    assert code == 2
    assert message in text
    assert "Traceback" not in text
    assert not (tmp_path / "a.lim2").exists()


def test_files_that_are_not_there_or_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    FRAME.head(0).write_csv(tmp_path / "empty.csv")
    for name, words, message in (
        ("none.csv", (), "there is no file"),
        ("notes.txt", (), "DATA must end in"),
        ("empty.csv", (*COLUMNS, "--context", "x_"), "no rewards"),
    ):
        code, text = run(tmp_path / name, *words, "--out", tmp_path / "a.lim2")
        assert code == 2
        assert message in text


def test_a_log_knows_its_own_form(tmp_path: Path) -> None:
    with lim2.DecisionLog(tmp_path / "d.db"):
        pass
    code, text = run(tmp_path / "d.db", "--raw", "--out", tmp_path / "a.lim2")
    assert code == 2
    assert "leave it out for a log" in text
    code, text = run(tmp_path / "d.db", "--out", tmp_path / "a.lim2")
    assert code == 2
    assert "no rewards" in text
