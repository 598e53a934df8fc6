from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lim2.experiments.names import table
from lim2.problems import DataError, from_arrays, from_csv, from_rewards

TABLE = "age,city,vip,bought\n30,Rome,true,tea\n50,Oslo,false,coffee\n40,Rome,true,tea\n20,Oslo,false,water\n"


def written(folder: Path, text: str = TABLE, name: str = "shop.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_numbers_are_standardised_and_text_is_one_hot(tmp_path: Path) -> None:
    problem = from_csv(written(tmp_path), label="bought")
    assert problem.name == "shop.csv"
    assert problem.arm_names == ("coffee", "tea", "water")
    assert problem.feature_names == ("age", "city=Oslo", "city=Rome", "vip=false", "vip=true")
    np.testing.assert_allclose(problem.contexts[:, 0].mean(), 0, atol=1e-12)
    np.testing.assert_allclose(problem.contexts[:, 0].std(), 1)
    assert problem.contexts[:, 1:].tolist() == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    assert problem.best_arms.tolist() == [1, 0, 1, 2]
    assert problem.notes == ()


def test_parquet_and_compressed_csv_give_the_same(tmp_path: Path) -> None:
    plain = from_csv(written(tmp_path), label="bought", seed=3)
    pl.read_csv(tmp_path / "shop.csv").write_parquet(tmp_path / "shop.parquet")
    (tmp_path / "shop.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    for name in ("shop.parquet", "shop.csv.gz"):
        other = from_csv(tmp_path / name, label="bought", seed=3)
        np.testing.assert_array_equal(other.contexts, plain.contexts)
        np.testing.assert_array_equal(other.rewards, plain.rewards)


def test_missing_values_are_reported_and_handled(tmp_path: Path) -> None:
    path = written(tmp_path, "x,c,y\n1,a,u\n,b,v\n3,,u\n9,a,\nnan,a,v\n")
    problem = from_csv(path, label="y")
    assert problem.rounds == 4
    assert problem.notes == (
        "1 rows without a label in column y were left out",
        "column x: 2 missing values, taken as the mean",
        "column c: 1 missing value, taken as a value of its own",
    )
    assert problem.contexts[:, 0].tolist() == [-1.0, 0.0, 1.0, 0.0]
    assert problem.feature_names == ("x", "c=(missing)", "c=a", "c=b")


def test_a_column_called_like_a_one_hot_one_is_still_a_number(tmp_path: Path) -> None:
    problem = from_csv(written(tmp_path, "a=b,y\n1,u\n3,v\n"), label="y")
    assert problem.contexts.tolist() == [[-1.0], [1.0]]


def test_numbers_that_are_names(tmp_path: Path) -> None:
    path = written(tmp_path, "zip,id,y\n100,1,u\n200,2,v\n")
    problem = from_csv(path, label="y", categorical=["zip"], drop=["id"])
    assert problem.feature_names == ("zip=100", "zip=200")


def test_labels_may_be_numbers_and_are_in_their_order(tmp_path: Path) -> None:
    problem = from_csv(written(tmp_path, "x,y\n1,10\n2,9\n3,100\n"), label="y")
    assert problem.arm_names == ("9", "10", "100")


def test_a_word_in_the_last_row_makes_a_column_text(tmp_path: Path) -> None:
    rows = "".join(f"{i % 3},u\n" for i in range(2000))
    problem = from_csv(written(tmp_path, f"x,y\n{rows}none,v\n"), label="y")
    assert problem.feature_names == ("x=0", "x=1", "x=2", "x=none")


def test_without_a_seed_the_order_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, "x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(100)))
    in_order = from_csv(path, label="y", standardize=None)
    assert in_order.contexts[:, 0].tolist() == list(range(100))
    assert from_csv(path, label="y", standardize=None, rounds=5).contexts[:, 0].tolist() == list(range(5))
    shuffled = from_csv(path, label="y", standardize=None, seed=0)
    assert sorted(shuffled.contexts[:, 0].tolist()) == list(range(100))
    assert shuffled.contexts[:, 0].tolist() != list(range(100))
    np.testing.assert_array_equal(shuffled.best_arms, shuffled.contexts[:, 0] % 2)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "line 1: the file is empty"),
        ("x,y\n", {}, "no rows with a label"),
        ("x,z\n1,2\n", {}, "line 1, column y: there is no such column; the file has x, z"),
        ("x,y\n1,2\n", {"drop": ["q"]}, "line 1, column q: there is no such column"),
        ("x,y\n1,2\n", {"drop": ["x"]}, "no column is left beside the label"),
        ("x,y\n1,2\n1,2,3\n", {}, "line 3: 3 fields, but the first line has 2"),
        ("x,y\n1,2\ninf,3\n", {}, "line 3, column x: an infinite value"),
        ("x,y\na,1\nb,1\nc,1\n", {"max_categories": 2}, "column x: 3 different values of text, more than 2"),
        ("x,y\n1,a\n1,b\n1,c\n", {"max_categories": 2}, "column y: 3 different labels"),
    ],
)
def test_what_is_wrong_is_said(text: str, options: dict[str, object], message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        from_csv(path, label="y", **options)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        from_csv(tmp_path / "none.csv", label="y")


def test_arrays() -> None:
    X = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    problem = from_arrays(X, [3, 1, 3], standardize=None)
    assert problem.arm_names == ("1", "3")
    assert problem.best_arms.tolist() == [1, 0, 1]
    assert problem.contexts[0, 1] == 5.0
    assert problem.notes == ("column 1: 1 missing value, taken as the mean",)
    np.testing.assert_allclose(from_arrays(X[1:], [0, 1]).contexts, [[-1, -1], [1, 1]])


def test_rewards() -> None:
    problem = from_rewards([[1.0], [2.0]], [[0.0, 1.0], [5.0, 2.0]], expected=[[2.0, 1.0], [5.0, 2.0]])
    assert problem.best_rewards.tolist() == [2.0, 5.0]
    assert problem.rewards.tolist() == [[0.0, 1.0], [5.0, 2.0]]
    shuffled = from_rewards(np.arange(50.0)[:, None], np.arange(50.0)[:, None], seed=1, standardize=None)
    np.testing.assert_array_equal(shuffled.contexts, shuffled.rewards)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([1.0, 2.0], [0, 1], "X must have two dimensions"),
        ([[1.0], [2.0]], [0], "X has 2 rows but y has 1"),
        ([[1.0], [np.inf]], [0, 1], r"X\[1, 0\] is infinite"),
        ([[1.0], [2.0]], [0, np.nan], "y has missing values"),
        ([[1.0], [2.0]], [[0], [1]], "y must have one dimension"),
    ],
)
def test_wrong_arrays(X: list[object], y: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_arrays(X, y)  # type: ignore[arg-type]


def test_a_reward_is_needed_for_every_arm() -> None:
    with pytest.raises(ValueError, match=r"R\[0, 1\] is nan; every arm needs a finite reward"):
        from_rewards([[1.0]], [[1.0, np.nan]])


def test_a_large_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    frame = pl.DataFrame({"x": rng.random(n), "c": rng.choice(["a", "b"], n), "y": rng.choice(["u", "v", "w"], n)})
    frame.write_csv(tmp_path / "large.csv")
    problem = from_csv(tmp_path / "large.csv", label="y", seed=0)
    assert problem.contexts.shape == (n, 3)
    assert problem.rewards.sum() == n


def test_tables_without_a_header_and_with_spaces(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text("1, 10,red , a\n2,?, blue, b\n3, 30,red, a\n")
    problem = from_csv(path, -1, header=False, standardize=None)
    assert problem.arm_names == ("a", "b")
    assert problem.feature_names == ("column_1", "column_2", "column_3=blue", "column_3=red")
    assert problem.contexts.tolist() == [[1, 10, 0, 1], [2, 20, 1, 0], [3, 30, 0, 1]]
    assert from_csv(path, 2, header=False).arm_names == ("blue", "red")
    with pytest.raises(DataError, match="there is no column at position 4; the file has 4"):
        from_csv(path, 4, header=False)


def test_how_many_rounds_a_table_has(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,a\n2,\n3,b\n")
    assert table(path, "y").rows == table(path, -1).rows == 2
    assert table(path, -1, settings={"header": False, "max_categories": 3}).rows == 3
    with pytest.raises(DataError, match="column z: there is no such column; the file has x, y"):
        table(path, "z")
