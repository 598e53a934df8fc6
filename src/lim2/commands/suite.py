"""`lim2 suite openml`: fetch classification tasks from OpenML, and write a suite of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lim2.commands.bench import ERRORS
from lim2.commands.data import DataOption, size_text
from lim2.commands.errors import FAILED, plain_errors, say
from lim2.experiments.benchmark import AGENTS
from lim2.experiments.names import PlanError
from lim2.experiments.store import writable
from lim2.problems.errors import DataError, FetchError, MissingDataError
from lim2.problems.files import write_whole
from lim2.problems.openml import SERVER, Task, fetch_study, fetch_task

app = typer.Typer(help="Suites: collections of datasets, for `lim2 bench --suite`.", no_args_is_help=True)


@app.callback()
def suite() -> None:
    """Suites: collections of datasets, for `lim2 bench --suite`."""


@app.command("openml")
def openml(
    task: Annotated[str | None, typer.Option(metavar="NUMBER,...", help="Numbers of OpenML tasks.")] = None,
    study: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Number of an OpenML study, all of whose tasks are fetched: 99 is OpenML-CC18."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file to write the suite to.")] = None,
    rounds: Annotated[int, typer.Option(help="In the suite: largest number of rounds per run.")] = 5000,
    runs: Annotated[int, typer.Option(help="In the suite: number of runs per agent.")] = 5,
    data: DataOption = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Fetch Parquet files, which have no checksum.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Fetch again, even if the files exist.")] = False,
    server: Annotated[
        str, typer.Option(metavar="URL", envvar="LIM2_OPENML", help="Address of OpenML's REST interface.")
    ] = SERVER,
) -> None:
    """Fetch classification tasks from OpenML; they become problems named openml:NUMBER.

    Example: lim2 suite openml --task 31,1464 --out suite.toml
    """
    console = Console(stderr=True, highlight=False)
    with plain_errors(*ERRORS):
        if out is not None and out.exists():
            raise PlanError(f"{out} exists already: give another --out, or delete it")
        for name, number in (("rounds", rounds), ("runs", runs)):
            if number < 1:
                raise PlanError(f"{name} must be at least 1, got {number}")
        if out is not None:
            writable(out.parent)
        numbers = _numbers(task)
        try:
            numbers += fetch_study(study, data, server=server, again=again) if study is not None else []
        except FetchError as error:
            raise PlanError(str(error)) from error
        if not numbers:
            raise PlanError("no tasks given: name tasks with --task 31,1464, or a study with --study 99")
    fetched: list[Fetched] = []
    failures: list[str] = []
    for number in dict.fromkeys(numbers):
        try:
            with console.status(f"task {number}"):
                fetched.append(_fetched(fetch_task(number, data, server=server, parquet=parquet, again=again)))
        except (FetchError, DataError, MissingDataError) as error:
            failures.append(f"task {number}: {error}")
    if fetched:
        Console(highlight=False).print(_table(fetched))
    if out is not None and fetched:
        write_whole(out, suite_text(fetched, rounds, runs).encode())
        Console(highlight=False).print(f"Run it with: lim2 bench --suite {out}", markup=False, soft_wrap=True)
    for failure in failures:
        say(failure)
    if failures:
        raise typer.Exit(FAILED)


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(word) for word in (text or "").split(",") if word.strip()]
    except ValueError as error:
        raise PlanError(f"--task must be one or several numbers, such as 31,1464, got {text!r}") from error


@dataclass(frozen=True)
class Fetched:
    """A fetched task and its size."""

    task: Task
    rows: int
    columns: int
    classes: int
    missing: int


def _fetched(task: Task) -> Fetched:
    frame = task.table().drop_nulls(task.target)
    features = frame.drop(task.target, *task.left_out)
    missing = sum(column.null_count() for column in features.iter_columns())
    return Fetched(task, frame.height, features.width, frame[task.target].n_unique(), missing)


def _table(fetched: list[Fetched]) -> Table:
    table = Table(title="OpenML tasks", title_justify="left")
    table.add_column("problem", no_wrap=True)
    table.add_column("dataset")
    for column in ("rows", "columns", "classes", "missing", "size"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("checked by")
    for entry in fetched:
        task = entry.task
        counts = (entry.rows, entry.columns, entry.classes, entry.missing)
        checked = "MD5" if task.file.suffix == ".arff" and task.description.get("md5_checksum") else "columns"
        size = size_text(task.file.stat().st_size)
        table.add_row(f"openml:{task.id}", task.name, *(f"{count:,}" for count in counts), size, checked)
    return table


def suite_text(fetched: list[Fetched], rounds: int, runs: int) -> str:
    """Return a suite of tasks as TOML; datasets with the same name get distinct names."""
    names = [entry.task.name for entry in fetched]
    lines, variants = [], []
    for entry in fetched:
        word = f"openml:{entry.task.id}"
        comment = f"{entry.task.name}: {entry.rows} rows, {entry.columns} columns, {entry.classes} classes"
        if names.count(entry.task.name) > 1:
            label = f"{entry.task.name} {entry.task.id}"
            variants += ["", f"[variants.{json.dumps(label)}]", f"of = {json.dumps(word)}"]
            word = label
        lines.append(f"  {json.dumps(word)}, # {comment}")
    tasks = ",".join(str(entry.task.id) for entry in fetched)
    head = ["# Classification tasks of OpenML, fetched by", f"# lim2 suite openml --task {tasks}"]
    agents = json.dumps(list(AGENTS))
    return "\n".join(
        [
            *head,
            "problems = [",
            *lines,
            "]",
            f"agents = {agents}",
            f"rounds = {rounds}",
            f"runs = {runs}",
            *variants,
            "",
        ]
    )
