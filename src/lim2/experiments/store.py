"""Store of results: a folder with one small Parquet file per run, and the plans.

- ``runs/*.parquet``: one row each, named by a digest of all that decides the result.
- ``failures/*.parquet``: the same for runs that failed, with their tracebacks.
- ``plans/*.json``: what was asked for, and when. The newest plan that names a (problem, agent) says which runs are its.

A problem that is played with delay or in batches counts as one of its own, under a label that says so.

Every file is written under another name and then moved, so that a process that is killed leaves nothing half done,
and two processes that write the same file leave one of two equal ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from lim2.experiments.feedback import Feedback
from lim2.experiments.names import PlanError
from lim2.experiments.plan import Plan, Run, canonical
from lim2.experiments.runner import QUANTILES, Record
from lim2.problems.files import unfinished

_TIMES = [f"{word}_us_{name}" for word in ("act", "update") for name in ("mean", *QUANTILES)]

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "format": pl.Int64,
    "key": pl.String,
    "status": pl.String,
    "problem": pl.String,
    "problem_source": pl.String,
    "problem_settings": pl.String,
    "agent": pl.String,
    "agent_source": pl.String,
    "agent_settings": pl.String,
    "seed": pl.Int64,
    "rounds": pl.Int64,
    "n_arms": pl.Int64,
    "n_features": pl.Int64,
    "n_item_features": pl.Int64,  # where arms are items; then their mean number is n_candidates, and n_arms is null
    "n_candidates": pl.Float64,
    "reward": pl.Float64,
    "regret": pl.Float64,
    "best_reward": pl.Float64,
    "random_regret": pl.Float64,  # regret of the uniformly random policy against the truth
    "optimal_rate": pl.Float64,
    "curve_round": pl.List(pl.Int64),
    "curve_reward": pl.List(pl.Float64),
    "curve_regret": pl.List(pl.Float64),
    "curve_optimal": pl.List(pl.Int64),
    "curve_seconds": pl.List(pl.Float64),
    "traces": pl.List(pl.Struct({"name": pl.String, "values": pl.List(pl.Float64)})),
    "memory_round": pl.List(pl.Int64),
    "memory_mb": pl.List(pl.Float64),
    "agent_mb": pl.Float64,
    "changes": pl.Int64,  # that the agent reported; null where it reports none
    "false_changes": pl.Int64,  # of these, that follow no real change
    "notes": pl.List(pl.String),
    "warnings": pl.List(pl.String),
    "error": pl.String,
    "us_per_round": pl.Float64,
    **dict.fromkeys(_TIMES, pl.Float64),
    "process_mb": pl.Float64,
    "cpu_seconds": pl.Float64,
    "seconds": pl.Float64,
    "started": pl.Datetime("us", "UTC"),
    "attempts": pl.Int64,
    "version": pl.String,
    "data": pl.String,  # SHA-256 of the problem's files
    "code": pl.String,  # a digest of the modules
    "modules": pl.List(pl.Struct({"name": pl.String, "digest": pl.String})),
    "python": pl.String,
    "numpy": pl.String,
    "scipy": pl.String,
    "kernels": pl.String,
    "system": pl.String,
    "processor": pl.String,
    "cores": pl.Int64,
}

# Only in files of runs with delay or in batches. Other files are what they were before there were these columns.
LATE: dict[str, pl.DataType | type[pl.DataType]] = {"delay": pl.Int64, "batch": pl.Int64}

# What differs between two executions of one run: clocks, and where it ran. All other columns are equal, bit for bit.
MEASURED = (
    "us_per_round", *_TIMES, "curve_seconds", "process_mb", "cpu_seconds", "seconds", "started", "attempts",
    "python", "numpy", "scipy", "kernels", "system", "processor", "cores",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """Runs of one (problem, agent)."""

    problem: str  # label with delay and batch
    agent: str
    problem_text: str
    agent_text: str
    rounds: int | str
    files: tuple[str, ...]  # in the order of their seeds
    delay: int = 0
    batch: int = 1

    @property
    def feedback(self) -> Feedback:
        """Delay and batch of the rewards."""
        return Feedback(self.delay, self.batch)

    @property
    def played(self) -> dict[str, tuple[Any, ...]]:
        """Label of the problem with and without delay and batch.

        Cells compare if these are equal where both have them: delays and batches of one problem share its settings and
        rounds.
        """
        drawn = (self.problem_text, self.rounds)
        return {f"own {self.feedback.unlabelled(self.problem)}": drawn, self.problem: (*drawn, self.feedback)}

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON object; delay and batch only if rewards are not learned at once."""
        always = {key: value for key, value in vars(self).items() if key not in LATE}
        return always | self.feedback.changes


class Store:
    """A folder of results.

    Parameters
    ----------
    folder
        Folder of the results; it is created by the first write.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def has(self, run: Run) -> bool:
        """Return whether the result of a run exists."""
        return (self.folder / "runs" / run.file).is_file()

    def put(self, run: Run, record: Record) -> None:
        """Write the row of a run atomically; a success replaces an earlier failure."""
        ok = record["status"] == "ok"
        buffer = BytesIO()
        schema = SCHEMA | LATE if run.feedback.changes else SCHEMA
        pl.DataFrame([record], schema=schema).write_parquet(buffer, compression="zstd")
        write(self.folder / ("runs" if ok else "failures") / run.file, buffer.getvalue())
        if ok:
            (self.folder / "failures" / run.file).unlink(missing_ok=True)

    def ask(self, plan: Plan, command: Sequence[str] = ()) -> None:
        """Store a plan."""
        cells: dict[tuple[str, str], Cell] = {}
        for run in plan:
            where = (run.label, run.agent.label)
            new = Cell(*where, run.problem.text, run.agent.text, run.rounds, (), run.feedback.delay, run.feedback.batch)
            cell = cells.get(where, new)
            cells[where] = replace(cell, files=(*cell.files, run.file))
        listed = [cell.as_dict() for cell in cells.values()]
        name = hashlib.sha256(canonical(listed).encode()).hexdigest()[:16]
        content = {"asked": time.time_ns(), "command": list(command), "cells": listed}
        write(self.folder / "plans" / f"{name}.json", json.dumps(content, indent=1).encode())

    def plans(self) -> list[dict[str, Any]]:
        """Return the stored plans, oldest first."""
        read = [json.loads(path.read_text()) for path in sorted((self.folder / "plans").glob("*.json"))]
        return sorted(read, key=lambda plan: int(plan["asked"]))

    def cells(self) -> list[Cell]:
        """Return the (problem, agent) pairs of the report.

        For each pair, the newest plan that names it counts. If a plan runs a problem with other settings or rounds,
        older results of that problem are not comparable and are left out. Other delays and batches are added, because
        they are reported separately.
        """
        cells: dict[tuple[str, str], Cell] = {}
        for plan in self.plans():
            new = [Cell(**{**cell, "files": tuple(cell["files"])}) for cell in plan["cells"]]
            played = {key: terms for cell in new for key, terms in cell.played.items()}
            cells = {
                where: cell
                for where, cell in cells.items()
                if all(played.get(key, terms) == terms for key, terms in cell.played.items())
            }
            for cell in new:
                where = (cell.problem, cell.agent)
                before = cells.get(where)
                # More runs of the same: the longer list stays.
                if before and before.agent_text == cell.agent_text and set(cell.files) < set(before.files):
                    continue
                cells[where] = cell
        return list(cells.values())

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return tables of the planned runs and of the failures, one row each, with the labels of the plans.

        The columns are those of ``SCHEMA``, and ``delay`` and ``batch``.
        """
        runs: list[pl.DataFrame] = []
        failures: list[pl.DataFrame] = []
        for cell in self.cells():
            for place, rows in (("runs", runs), ("failures", failures)):
                paths = [self.folder / place / file for file in cell.files]
                there = [path for path in paths if path.is_file()]
                if place == "failures":
                    there = [path for path in there if not (self.folder / "runs" / path.name).is_file()]
                if there:
                    labels = (pl.lit(cell.problem).alias("problem"), pl.lit(cell.agent).alias("agent"))
                    late = (pl.lit(getattr(cell, name), dtype).alias(name) for name, dtype in LATE.items())
                    rows.append(read(there).with_columns(*labels, *late))
        empty = pl.DataFrame(schema=SCHEMA | LATE)
        return pl.concat([empty, *runs]), pl.concat([empty, *failures])

    def missing(self) -> int:
        """Return the number of planned runs without a result."""
        asked = {file for cell in self.cells() for file in cell.files}
        return sum(not (self.folder / "runs" / file).is_file() for file in asked)

    def tidy(self, older_than: float = 3600.0) -> None:
        """Remove unfinished files of killed processes, unless they may still be in progress."""
        for path in self.folder.glob("*/.*.parquet-*"):
            if time.time() - path.stat().st_mtime > older_than:
                path.unlink(missing_ok=True)


def opened(folder: Path | str) -> Store:
    """Return the store in a folder that should have one."""
    store = Store(folder)
    if not (store.folder / "plans").is_dir():
        raise PlanError(f"{folder} has no results of `lim2 bench` (no folder 'plans' in it); give the folder of --out")
    return store


def writable(folder: Path | str) -> Path:
    """Return a folder to write to, which is created; a `PlanError` if that cannot be."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanError(f"the folder {folder} cannot be created: {error.strerror}; give another folder") from error
    if not os.access(path, os.W_OK):
        raise PlanError(f"the folder {folder} cannot be written to; give another folder")
    return path


def read(paths: Iterable[Path]) -> pl.DataFrame:
    """Return the rows of runs' files, with the columns of ``SCHEMA``."""
    frames = (pl.read_parquet(path, hive_partitioning=False) for path in paths)
    # A file of another version may lack a column that has come since, or have one that this version does not know.
    return pl.concat(
        [frame.match_to_schema(SCHEMA, missing_columns="insert", extra_columns="ignore") for frame in frames]
    )


def write(path: Path, content: bytes) -> None:
    """Write a file atomically, even if the process or the machine crashes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(path) as part, part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        if sys.platform == "win32":
            file.close()  # an open file cannot be moved there
