"""Classification tasks of OpenML as problems: fetched once, checked, kept, and played without a network.

What the server answers is kept as it came, in the folder ``openml`` of the datasets' folder:

- ``task-31.json``: which dataset, which column is the class.
- ``data-31/description.json``, ``features.json``: its files and their MD5, its columns.
- ``data-31/dataset.arff`` or ``dataset.pq``: the dataset; ``table.parquet``: the same, parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lim2.problems.arff import read_arff
from lim2.problems.draw import Standardize
from lim2.problems.errors import DataError, FetchError, MissingDataError
from lim2.problems.fetch import TIMEOUT, Progress, fetch, target_folder
from lim2.problems.files import Folder, folders, remembered_sha256, unfinished, write_whole
from lim2.problems.labelled import Rounds, labelled
from lim2.problems.problem import Problem
from lim2.problems.sources import Remote, Source

if TYPE_CHECKING:
    import polars as pl

SERVER = "https://www.openml.org/api/v1/json"
PAGE = "https://www.openml.org"
CLASSIFICATION = 1  # OpenML's number of the type of task
REFUSED = 412  # the status with which OpenML says that there is no such thing
FILES = ("dataset.arff", "dataset.pq")
MOST_VALUES = 100  # of a nominal column


@dataclass(frozen=True)
class Task:
    """A task whose files are here."""

    id: int  # what OpenML calls it
    folder: Path

    @cached_property
    def source_data(self) -> Mapping[str, Any]:
        """The number of its dataset, and the column with the classes."""
        answer_file = self.folder / f"task-{self.id}.json"
        answer = _part_of_answer(answer_file, "task")
        if int(answer["task_type_id"]) != CLASSIFICATION:
            kind = answer.get("task_type", "of another type")
            raise DataError(
                answer_file, f"task {self.id} is {kind}; only Supervised Classification becomes a bandit problem"
            )
        for part in answer["input"]:
            if part["name"] == "source_data":
                data: Mapping[str, Any] = part["data_set"]
                return data
        raise DataError(answer_file, "the task names no source_data; fetch it again with --again")

    @property
    def data_id(self) -> int:
        """The number of its dataset."""
        return int(self.source_data["data_set_id"])

    @property
    def target(self) -> str:
        """The column with the classes."""
        return str(self.source_data["target_feature"])

    @property
    def place(self) -> Path:
        """The folder of its dataset."""
        return self.folder / f"data-{self.data_id}"

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """OpenML's description of the dataset."""
        return _part_of_answer(self.place / "description.json", "data_set_description")

    @cached_property
    def features(self) -> list[Mapping[str, Any]]:
        """OpenML's description of the columns."""
        found: list[Mapping[str, Any]] = _part_of_answer(self.place / "features.json", "data_features")["feature"]
        return found

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return str(self.description["name"])

    @property
    def file(self) -> Path:
        """The dataset's file, as it came."""
        there = [self.place / file for file in FILES if (self.place / file).is_file()]
        if not there:
            raise MissingDataError(_absent(self.id, self.folder))
        return there[0]

    @property
    def sha256(self) -> str:
        """Fingerprint of the dataset's file."""
        return remembered_sha256(self.file)

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are not features, with the reason."""
        why: dict[str, str] = {}
        names = [str(feature["name"]) for feature in self.features]
        for key in ("row_id_attribute", "ignore_attribute"):
            for column in _columns(self.description.get(key), names):
                why[column] = "left out, as OpenML says"
        for feature in self.features:
            if "true" in (feature.get("is_ignore"), feature.get("is_row_identifier")):
                why[feature["name"]] = "left out, as OpenML says"
            elif feature["data_type"] not in ("numeric", "nominal"):
                why.setdefault(feature["name"], f"left out: a {feature['data_type']} is no feature")
        why.pop(self.target, None)
        return why

    def table(self) -> pl.DataFrame:
        """Return the table: numbers as Float64, everything else as text."""
        import polars as pl

        parsed = self.place / "table.parquet"
        if not parsed.is_file():
            raise MissingDataError(_absent(self.id, self.folder))
        return pl.read_parquet(parsed)

    def rows(self) -> int:
        """Return the number of rows with a class, which is the largest number of rounds."""
        return int(self.table()[self.target].count())


def from_openml(
    task: int,
    *,
    rounds: Rounds = "all",
    seed: int | None = None,
    standardize: Standardize = "sample",
    max_categories: int = MOST_VALUES,
    data: Folder = None,
) -> Problem:
    """Return a problem made from a classification task of OpenML that `lim2 suite openml` has fetched.

    Numeric columns are standardised, nominal columns become one-hot. A missing number becomes the mean of its column,
    and a missing nominal value is a separate category. Identifiers, text, dates and nominal columns with very many
    values are left out; `problem.notes` lists them.

    Parameters
    ----------
    seed
        Seed that draws and shuffles the rows. None: keep their order.
    standardize
        Scaling of the numeric columns: `"sample"`, `"online"` or None.
    max_categories
        Largest number of values of a nominal column; columns with more are left out.
    data
        Folder of the datasets. None: `LIM2_DATA`, then the user's cache.
    """
    there = find_task(task, data)
    frame = there.table()
    why = dict(there.left_out)
    for feature in there.features:
        column = feature["name"]
        if column in why or column == there.target or feature["data_type"] != "nominal":
            continue
        if (values := frame[column].n_unique()) > max_categories:
            why[column] = f"left out: {values} different values, more than {max_categories} (max_categories)"
    nominal = [f["name"] for f in there.features if f["data_type"] == "nominal" and f["name"] not in why]
    return labelled(
        frame,
        there.target,
        there.file,
        name=there.name,
        categorical=[column for column in nominal if column != there.target],
        drop=list(why),
        rounds=rounds,
        seed=seed,
        standardize=standardize,
        notes=[f"column {column}: {reason}" for column, reason in why.items()],
    )


def find_task(task: int, data: Folder = None) -> Task:
    """Return a task that was fetched."""
    looked = [folder / "openml" for folder in folders(data)]
    for folder in looked:
        if (folder / f"task-{task}.json").is_file():
            found = Task(task, folder)
            if (found.place / "table.parquet").is_file():
                return found
    raise MissingDataError(_absent(task, *looked))


def _absent(task: int, *looked: Path) -> str:
    return (
        f"OpenML's task {task} is not in {', '.join(map(str, looked))}; "
        f"fetch it with `lim2 suite openml --task {task}`, or name its folder with --data or LIM2_DATA"
    )


def fetch_task(
    task: int,
    data: Folder = None,
    *,
    server: str = SERVER,
    parquet: bool = False,
    again: bool = False,
    progress: Progress | None = None,
) -> Task:
    """Fetch a task and its dataset, unless they are here, and parse the dataset.

    The MD5 that OpenML publishes is that of the ARFF file, which is therefore what is fetched. Of the Parquet file no
    checksum is published: its columns are compared with those that OpenML lists.
    """
    folder = target_folder(data) / "openml"
    _ask(server, f"task/{task}", folder / f"task-{task}.json", again=again)
    found = Task(task, folder)
    place, number = found.place, found.data_id
    _ask(server, f"data/{number}", place / "description.json", again=again)
    _ask(server, f"data/features/{number}", place / "features.json", again=again)
    if found.target not in [feature["name"] for feature in found.features]:
        raise DataError(
            place / "features.json", f"dataset {number} has no column {found.target!r}, the class of task {task}"
        )
    file = FILES[parquet]
    had = (place / file).is_file() and not again
    path = fetch(_source(found, file), place, progress=progress, again=again)
    parsed = place / "table.parquet"
    if not had or not parsed.is_file():
        frame = _table(found, path)
        with unfinished(parsed) as part:
            frame.write_parquet(part)
        (place / FILES[not parquet]).unlink(missing_ok=True)  # the table is that of one file
    return found


def fetch_study(study: int, data: Folder = None, *, server: str = SERVER, again: bool = False) -> list[int]:
    """Return the tasks of a study (a benchmark suite) of OpenML, such as 99, OpenML-CC18."""
    answer_file = target_folder(data) / "openml" / f"study-{study}.json"
    _ask(server, f"study/{study}", answer_file, again=again)
    tasks = _part_of_answer(answer_file, "study").get("tasks") or {}
    found = [int(task) for task in _several(tasks.get("task_id"))]
    if not found:
        raise DataError(answer_file, f"study {study} has no tasks; name a study of tasks, such as 99")
    return found


def _source(task: Task, file: str) -> Source:
    """Return the source of a file."""
    description = task.description
    parquet = file == FILES[1]
    url = (description.get("parquet_url") or description.get("minio_url")) if parquet else description.get("url")
    if not url:
        what = "Parquet" if parquet else "ARFF"
        raise FetchError(f"OpenML names no {what} file of dataset {task.data_id} ({task.name})")
    if not parquet and str(description.get("format", "")).lower() not in ("arff", "sparse_arff"):
        raise FetchError(
            f"dataset {task.data_id} ({task.name}) is in the format {description.get('format')!r}; "
            "ARFF and Sparse_ARFF can be read. Try --parquet"
        )
    md5 = None if parquet else description.get("md5_checksum")
    page = f"{PAGE}/d/{task.data_id}"
    licence = str(description.get("licence", "see its page"))
    return Source(file, page, licence, md5=md5, mirrors=(Remote(str(url)),))


def _table(task: Task, path: Path) -> pl.DataFrame:
    """Parse a dataset's file, and compare its columns with those that OpenML lists."""
    import polars as pl

    try:
        frame = pl.read_parquet(path) if path.suffix == ".pq" else read_arff(path)[0]
    except pl.exceptions.PolarsError as error:
        raise DataError(path, f"the file cannot be read: {error}; fetch it again with --again") from error
    listed = [str(feature["name"]) for feature in task.features]
    if frame.columns != listed:
        differ = sorted(set(frame.columns) ^ set(listed))
        raise DataError(
            path,
            f"its columns are not those that OpenML lists: {', '.join(differ[:5]) or 'they come in another order'}; "
            "fetch it again with --again",
        )
    numeric = {feature["name"] for feature in task.features if feature["data_type"] == "numeric"}
    return frame.select(pl.col(c).cast(pl.Float64 if c in numeric else pl.String) for c in frame.columns)


def _ask(server: str, path: str, answer_file: Path, *, again: bool) -> None:
    """Return the server's answer, cached on disk."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    if answer_file.is_file() and not again:
        return
    url = f"{server.rstrip('/')}/{path}"
    retry = Retry(
        total=3, connect=1, backoff_factor=0.2, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False
    )
    try:
        with requests.Session() as session:
            session.mount(url, HTTPAdapter(max_retries=retry))
            answer = session.get(url, timeout=TIMEOUT)
    except requests.RequestException as error:
        raise FetchError(f"{url}: no answer ({type(error).__name__}); is this machine offline?") from error
    if answer.status_code == REFUSED:
        raise FetchError(f"{url}: OpenML says {_refusal(answer.text)}")
    if not answer.ok:
        raise FetchError(f"{url}: the server answered {answer.status_code} {answer.reason}")
    try:
        answer.json()
    except requests.JSONDecodeError as error:
        raise FetchError(f"{url}: the answer is not JSON; is it OpenML's REST interface?") from error
    answer_file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(answer_file, answer.content)


def _refusal(text: str) -> str:
    """Return the server's error message.

    >>> _refusal('{"error": {"code": "151", "message": "Unknown task"}}')
    "'Unknown task' (error 151)"
    """
    try:
        error = json.loads(text)["error"]
        return f"{error['message']!r} (error {error['code']})"
    except (ValueError, KeyError, TypeError):
        return f"that it refuses, without a reason: {text[:80]!r}"


def _part_of_answer(path: Path, key: str) -> Mapping[str, Any]:
    """Return a part of an answer that was kept."""
    try:
        part: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))[key]
    except FileNotFoundError as error:
        raise MissingDataError(f"there is no {path}; fetch the task again with --again") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(path, f"no {key!r} in OpenML's answer; fetch it again with --again") from error
    return part


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def _columns(value: Any, names: list[str]) -> list[str]:
    """Return the columns that an entry of a description names: one, several, or several separated by commas.

    >>> _columns("a, b", ["a", "b", "c"]), _columns(["c"], ["a", "b", "c"]), _columns("a,b", ["a,b"])
    (['a', 'b'], ['c'], ['a,b'])
    """
    found: list[str] = []
    for entry in map(str, _several(value)):
        found += [entry] if entry in names else [word.strip(" '\"") for word in entry.split(",")]
    return [column for column in found if column in names]
