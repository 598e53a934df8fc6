"""OpenML's tasks, from a server on this machine."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from problems.openml_server import API, CREDIT_FEATURES, answer, feature, put_credit, put_data, put_numbers, put_task
from problems.server import Web, serving

from lim2.problems import DataError, FetchError, MissingDataError, from_openml
from lim2.problems.openml import Task, fetch_study, fetch_task, find_task


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


@pytest.fixture(autouse=True)
def _own(own_cache: Path) -> None:
    """Checksums are remembered in a cache of the test's own."""


def fetched(web: Web, folder: Path, task: int = 31, *, parquet: bool = False, again: bool = False) -> Task:
    return fetch_task(task, folder, server=web.url(API), parquet=parquet, again=again)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_task_becomes_a_problem(web: Web, tmp_path: Path) -> None:
    put_credit(web)
    task = fetched(web, tmp_path)
    assert (task.name, task.data_id, task.target, task.rows()) == ("credit-g", 31, "class", 3)
    problem = from_openml(31, data=tmp_path)
    assert problem.arm_names == ("bad", "good")
    assert problem.feature_names == ("duration", "purpose=(missing)", "purpose=car", "purpose=new tv")
    assert problem.rewards.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert problem.contexts.tolist() == [[-1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0]]
    assert problem.notes == (
        "column id: left out, as OpenML says",
        "column comment: left out: a string is no feature",
        "1 rows without a label in column class were left out",
        "column duration: 1 missing value, taken as the mean",
        "column purpose: 1 missing value, taken as a value of its own",
    )
    assert from_openml(31, data=tmp_path, rounds=2, seed=1).rounds == 2
    narrow = from_openml(31, data=tmp_path, max_categories=2)
    assert narrow.feature_names == ("duration",)
    assert "column purpose: left out: 4 different values, more than 2 (max_categories)" in narrow.notes


def test_what_is_here_is_not_asked_for_again(web: Web, tmp_path: Path) -> None:
    path = put_credit(web)
    fetched(web, tmp_path)
    assert [asked for asked, _ in web.requests] == [
        f"{API}/task/31", f"{API}/data/31", f"{API}/data/features/31", path,
    ]  # fmt: skip
    web.requests.clear()
    fetched(web, tmp_path)
    assert web.requests == []
    fetched(web, tmp_path, again=True)
    assert len(web.requests) == 4
    place = "openml/data-31"
    kept = ["dataset.arff", "description.json", "features.json", "table.parquet"]
    assert files(tmp_path) == [*(f"{place}/{name}" for name in kept), "openml/task-31.json"]


def test_two_tasks_share_a_dataset(web: Web, tmp_path: Path) -> None:
    put_numbers(web, 3, "numbers")
    put_task(web, 4, 3)
    first = fetched(web, tmp_path, 3)
    web.requests.clear()
    second = fetched(web, tmp_path, 4)
    assert [asked for asked, _ in web.requests] == [f"{API}/task/4"]
    assert first.sha256 == second.sha256


def test_a_wrong_checksum_keeps_no_dataset(web: Web, tmp_path: Path) -> None:
    put_credit(web, md5_checksum="0" * 32)
    with pytest.raises(FetchError, match=r"wrong checksum: MD5 [0-9a-f]{32}, expected 0{32}.*Nothing was kept"):
        fetched(web, tmp_path)
    assert files(tmp_path / "openml" / "data-31") == ["description.json", "features.json"]
    with pytest.raises(MissingDataError, match="fetch it with `lim2 suite openml --task 31`"):
        find_task(31, tmp_path)


def test_a_broken_transfer_is_resumed(web: Web, tmp_path: Path) -> None:
    put_numbers(web, 5, "large", rows=20_000)
    path = next(name for name in web.files if name.endswith("large.arff"))
    web.breaks[path] = [100_000]
    assert fetched(web, tmp_path, 5).rows() == 20_000
    ranges = [asked for name, asked in web.requests if name == path]
    assert ranges == [None, "bytes=65536-"]


def test_what_openml_refuses_is_told(web: Web, tmp_path: Path) -> None:
    refusal = '{"error": {"code": "151", "message": "Unknown task"}}'
    web.refusals[f"{API}/task/9"] = [(412, refusal)]
    with pytest.raises(FetchError, match=r"task/9: OpenML says 'Unknown task' \(error 151\)"):
        fetched(web, tmp_path, 9)
    with pytest.raises(FetchError, match="the server answered 404"):
        fetched(web, tmp_path, 10)
    web.files[f"{API}/task/11"] = b"<html>"
    with pytest.raises(FetchError, match="the answer is not JSON"):
        fetched(web, tmp_path, 11)
    assert files(tmp_path) == []


def test_a_busy_server_is_asked_again(web: Web, tmp_path: Path) -> None:
    put_credit(web)
    web.refusals[f"{API}/task/31"] = [(503, "busy")]
    assert fetched(web, tmp_path).name == "credit-g"


def test_tasks_and_files_that_cannot_be_played(web: Web, tmp_path: Path) -> None:
    put_task(web, 6, 31, kind=2)
    with pytest.raises(DataError, match="task 6 is Supervised Regression; only Supervised Classification"):
        fetched(web, tmp_path, 6)
    put_credit(web, task=7, data=7)
    put_task(web, 7, 7, target="colour")
    with pytest.raises(DataError, match="dataset 7 has no column 'colour', the class of task 7"):
        fetched(web, tmp_path, 7)
    put_credit(web, task=8, data=8, format="Rimage")
    with pytest.raises(FetchError, match="in the format 'Rimage'"):
        fetched(web, tmp_path, 8)
    put_task(web, 9, 9)
    put_data(web, 9, "other", b"@relation r\n@attribute q real\n@data\n1\n", CREDIT_FEATURES)
    with pytest.raises(DataError, match="its columns are not those that OpenML lists"):
        fetched(web, tmp_path, 9)
    with pytest.raises(FetchError, match="OpenML names no Parquet file"):
        fetched(web, tmp_path, 8, parquet=True)


def test_columns_that_openml_says_to_ignore(web: Web, tmp_path: Path) -> None:
    put_credit(web, ignore_attribute=["purpose"], row_id_attribute="id")
    assert fetched(web, tmp_path).left_out.keys() == {"id", "purpose", "comment"}
    put_credit(web, task=32, data=32, ignore_attribute="purpose,duration")
    with pytest.raises(DataError, match="no column is left"):
        from_openml(fetched(web, tmp_path, 32).id, data=tmp_path)


def test_parquet(web: Web, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    colours = pl.Series("c", ["red", None, "blue"], dtype=pl.Categorical)
    pl.DataFrame(
        [pl.Series("a", [1, 2, 6]), colours, pl.Series("class", ["n", "y", "n"], dtype=pl.Categorical)]
    ).write_parquet(buffer)
    columns = [feature("a", "numeric"), feature("c", "nominal"), feature("class", "nominal")]
    put_task(web, 12, 12)
    put_data(web, 12, "p", b"never asked for", columns, parquet=buffer.getvalue())
    task = fetched(web, tmp_path, 12, parquet=True)
    assert task.file.name == "dataset.pq"
    problem = from_openml(12, data=tmp_path)
    assert problem.feature_names == ("a", "c=(missing)", "c=blue", "c=red")
    assert problem.rewards.tolist() == [[1, 0], [0, 1], [1, 0]]
    web.files["datasets/12.pq"] = b"PAR1 and no more"
    with pytest.raises(DataError, match="the file cannot be read"):
        fetched(web, tmp_path, 12, parquet=True, again=True)


def test_the_tasks_of_a_study(web: Web, tmp_path: Path) -> None:
    answer("study/99", {"study": {"id": "99", "name": "OpenML-CC18", "tasks": {"task_id": ["3", "6"]}}}, web)
    answer("study/1", {"study": {"id": "1", "data": {"data_id": ["2"]}}}, web)
    assert fetch_study(99, tmp_path, server=web.url(API)) == [3, 6]
    with pytest.raises(DataError, match="study 1 has no tasks"):
        fetch_study(1, tmp_path, server=web.url(API))


def test_answers_of_openml_itself(web: Web, tmp_path: Path) -> None:
    """scikit-learn keeps some of OpenML's answers and files."""
    sklearn = pytest.importorskip("sklearn")
    folder = Path(sklearn.__file__).parent / "datasets" / "tests" / "data" / "openml"
    if not folder.is_dir():
        pytest.skip("this scikit-learn came without its tests")
    for data, target, shape in (
        (62, "type", (101, 31, 7)),
        (40945, "survived", (1309, 12, 2)),
        (292, "Y", (85, 14, 2)),
    ):
        place = folder / f"id_{data}"
        description = json.loads(gzip.decompress((place / f"api-v1-jd-{data}.json.gz").read_bytes()))
        description["data_set_description"]["url"] = web.url(f"file-{data}")
        answer(f"data/{data}", description, web)
        web.files[f"{API}/data/features/{data}"] = gzip.decompress((place / f"api-v1-jdf-{data}.json.gz").read_bytes())
        web.files[f"file-{data}"] = gzip.decompress(next(place.glob("data-v1-dl-*.arff.gz")).read_bytes())
        put_task(web, data, data, target=target)
        fetched(web, tmp_path, data)
        problem = from_openml(data, data=tmp_path)
        assert (problem.rounds, problem.n_features, problem.n_arms) == shape, data
