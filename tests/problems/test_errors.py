"""Files that are truncated, reordered, mislabelled or empty: one error that names the file and the place."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from problems.small import ROWS, WRITERS

import lim2.problems
from lim2.problems import DataError, MissingDataError
from lim2.problems.facts import Rows
from lim2.problems.registry import find

FILES = {
    "adult": "adult.data",
    "amazon": "Amazon_Unlocked_Mobile.csv",
    "census": "USCensus1990.data.txt",
    "covertype": "covtype.data",
    "epileptic": "data.csv",
    "financial": "raw_stock_contexts",
    "mushroom": "agaricus-lepiota.data",
    "scania": "aps_failure_training_set.csv",
    "smartphones": "UCI HAR Dataset/train/X_train.txt",
    "smartphones-66": "har_mean_std_66features.csv",
    "statlog": "shuttle.trn",
}


def broken(name: str, folder: Path, change: Callable[[list[str]], list[str]]) -> DataError:
    """The error of a file whose lines were changed; verify=False, so that only its form can be at fault."""
    WRITERS[name](folder)
    path = folder / FILES[name]
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n" if change(lines) else "")
    with pytest.raises(DataError) as caught:
        lim2.problems.load(name, rounds=1, seed=0, data=folder, verify=False)
    assert str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", sorted(FILES))
def test_empty(name: str, tmp_path: Path) -> None:
    error = broken(name, tmp_path, lambda lines: [])
    assert error.line == 1
    assert "empty" in str(error)


@pytest.mark.parametrize("name", sorted(set(FILES) - {"amazon"}))
def test_a_line_cut_in_the_middle(name: str, tmp_path: Path) -> None:
    error = broken(name, tmp_path, lambda lines: [*lines[:11], lines[11][: len(lines[11]) // 2]])
    assert error.line == 12
    assert "expected" in str(error)


def test_a_review_cut_in_the_middle(tmp_path: Path) -> None:
    # Its fields hold line breaks: the reader counts lines, not rows.
    error = broken("amazon", tmp_path, lambda lines: [*lines[:11], ",Brand,,3"])
    assert error.line == 12


@pytest.mark.parametrize("name", ["statlog", "covertype", "mushroom", "adult", "census", "scania"])
def test_reordered_columns(name: str, tmp_path: Path) -> None:
    separator = {"statlog": " ", "adult": ", "}.get(name, ",")
    error = broken(name, tmp_path, lambda lines: [separator.join(reversed(line.split(separator))) for line in lines])
    assert error.line is not None
    assert error.column is not None or "header" in str(error)


def test_a_header_in_another_order_names_the_column(tmp_path: Path) -> None:
    def swap(lines: list[str]) -> list[str]:
        return [lines[0].replace("dAge,dAncstry1", "dAncstry1,dAge"), *lines[1:]]

    error = broken("census", tmp_path, swap)
    assert (error.line, error.column) == (1, 2)
    assert "has 'dAncstry1' where 'dAge' belongs" in str(error)


def test_a_header_that_lacks_a_column(tmp_path: Path) -> None:
    error = broken("epileptic", tmp_path, lambda lines: [lines[0].removesuffix(",y"), *lines[1:]])
    assert "has 179 columns, expected 180" in str(error)


def test_another_financial_header(tmp_path: Path) -> None:
    error = broken("financial", tmp_path, lambda lines: [lines[0].replace("GE,GM", "GM,GE"), *lines[1:]])
    assert (error.line, error.column) == (1, 3)


@pytest.mark.parametrize(
    ("name", "label", "column"),
    [("statlog", "9", "class"), ("covertype", "0", "Cover_Type"), ("epileptic", "6", "y")],
)
def test_a_label_that_does_not_exist(name: str, label: str, column: str, tmp_path: Path) -> None:
    separator = " " if name == "statlog" else ","

    def mislabel(lines: list[str]) -> list[str]:
        return [*lines[:4], separator.join([*lines[4].split(separator)[:-1], label]), *lines[5:]]

    error = broken(name, tmp_path, mislabel)
    assert (error.line, error.column) == (5, column)
    assert f"'{label}' is not in" in str(error)


def test_other_labels_by_name(tmp_path: Path) -> None:
    error = broken("adult", tmp_path, lambda lines: [line.replace(">50K", "more") for line in lines])
    assert (error.line, error.column) == (2, "income")
    assert "'more' is not one of <=50K, >50K" in str(error)


@pytest.mark.parametrize(("value", "complaint"), [("x", "is not a number"), ("nan", "finite"), ("inf", "finite")])
def test_a_number_that_is_none(value: str, complaint: str, tmp_path: Path) -> None:
    def spoil(lines: list[str]) -> list[str]:
        return [*lines[:7], " ".join([value, *lines[7].split(" ")[1:]]), *lines[8:]]

    error = broken("financial", tmp_path, spoil)
    assert (error.line, error.column) == (8, "MSFT")
    assert complaint in str(error)


def test_a_missing_value_where_none_may_be(tmp_path: Path) -> None:
    error = broken("covertype", tmp_path, lambda lines: [*lines[:2], "," + lines[2].partition(",")[2], *lines[3:]])
    assert (error.line, error.column) == (3, "Elevation")


def test_scania_without_its_header(tmp_path: Path) -> None:
    assert "no header" in str(broken("scania", tmp_path, lambda lines: lines[1:]))


def test_only_a_header(tmp_path: Path) -> None:
    error = broken("census", tmp_path, lambda lines: lines[:1])
    assert error.line == 2
    assert "no rows" in str(error)


def test_smartphones_with_fewer_labels_than_rows(tmp_path: Path) -> None:
    WRITERS["smartphones"](tmp_path)
    path = tmp_path / "UCI HAR Dataset" / "test" / "y_test.txt"
    path.write_text("1\n2\n3\n")
    with pytest.raises(DataError, match=r"y_test.txt, line 4: 3 labels for 12 rows"):
        lim2.problems.load("smartphones", 1, 0, data=tmp_path, verify=False)
    path.write_text("1\n" * 5 + "7\n" + "1\n" * 6)
    with pytest.raises(DataError, match=r"y_test.txt, line 6, column activity: 7 is not one of"):
        lim2.problems.load("smartphones", 1, 0, data=tmp_path, verify=False)


def test_jester_arrays_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "jester_data_40jokes_19181users.npy"
    path.write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(DataError, match="not a whole NumPy file"):
        lim2.problems.load("jester", 1, 0, data=tmp_path, verify=False)
    np.save(path, np.zeros((5, 39)))
    with pytest.raises(DataError, match=r"\(5, 39\), expected numbers \(users, 40\)"):
        lim2.problems.load("jester", 1, 0, data=tmp_path, verify=False)
    ratings = np.zeros((5, 40))
    ratings[3, 2] = 99
    np.save(path, ratings)
    with pytest.raises(DataError, match=r"line 4, column 3: a rating of 99"):
        lim2.problems.load("jester", 1, 0, data=tmp_path, verify=False)


def test_a_truncated_package(tmp_path: Path) -> None:
    WRITERS["statlog"](tmp_path)
    path = tmp_path / "shuttle.trn"
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    (tmp_path / "shuttle.trn.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"shuttle.trn.gz: the compressed file is truncated"):
        lim2.problems.load("statlog", 1, 0, data=tmp_path, verify=False)


def test_fewer_rows_than_documented_are_refused_unless_asked_for(tmp_path: Path) -> None:
    WRITERS["census"](tmp_path)
    with pytest.raises(DataError, match=rf"line {ROWS + 1}: the file ends after {ROWS} rows, documented are"):
        lim2.problems.load("census", 1, 0, data=tmp_path)
    assert lim2.problems.load("census", 1, 0, data=tmp_path, verify=False).rounds == 1


def test_a_file_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIM2_DATA", raising=False)
    with pytest.raises(MissingDataError) as caught:
        lim2.problems.load("statlog")
    message = str(caught.value)
    assert "statlog needs shuttle.trn" in message
    assert "lim2 data fetch statlog" in message
    assert "LIM2_DATA is not set" in message
    assert str(tmp_path / "cache" / "data") in message


@pytest.mark.parametrize("change", ["reordered", "truncated", "mislabelled", "columns"])
def test_the_real_file_changed(change: str, real_data: Path, tmp_path: Path) -> None:
    lines = gzip.decompress((real_data / "shuttle.trn.gz").read_bytes()).decode().splitlines()
    if change == "reordered":
        lines[20_000], lines[30_000] = lines[30_000], lines[20_000]
        expected = "starts to differ between lines 16385 and 43500"
    elif change == "truncated":
        lines = lines[:30_000]
        expected = "starts to differ between lines 16385 and 30000"
    elif change == "mislabelled":
        lines[0] = lines[0][:-1] + "3"
        expected = "starts to differ between lines 1 and 1 "
    else:
        lines = [" ".join(reversed(line.split())) for line in lines]
        expected = "line 1, column class: '50' is not in 1 .. 7"
    (tmp_path / "shuttle.trn").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError) as caught:
        lim2.problems.load("statlog", 1, 0, data=tmp_path)
    assert expected in str(caught.value)
    assert str(tmp_path / "shuttle.trn") in str(caught.value)


def test_other_class_counts_than_documented_are_refused() -> None:
    known = find("statlog").facts
    assert known is not None
    facts = dataclasses.replace(known, n_arms=2, published=Rows(4, (2, 2)), copies=())
    facts.check(pl.DataFrame({"label": [0, 1, 1, 0]}), Path("file"))
    with pytest.raises(DataError, match=r"the classes have \[1, 3\] rows, documented are \[2, 2\]"):
        facts.check(pl.DataFrame({"label": [0, 1, 1, 1]}), Path("file"))
