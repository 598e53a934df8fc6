"""All runs of the paper's experiments in a few small files: to be kept, and to go on from.

``runs/FOLDER.parquet`` has one row per run, ``runs/FOLDER.json`` what was asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import polars as pl

from lim2.experiments.names import PlanError
from lim2.experiments.plan import short
from lim2.experiments.store import Store, read, write
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables
from lim2.paper.run import EXPERIMENTS
from lim2.paper.sections import Section

FOLDERS = tuple(dict.fromkeys(experiment.folder for experiment in EXPERIMENTS.values()))


def pack(out: Path, to: Path) -> None:
    """Write all runs of a folder of results into a few files."""
    for folder in FOLDERS:
        store = Store(out / folder)
        files = sorted((store.folder / "runs").glob("*.parquet"))
        if not files:
            continue
        buffer = BytesIO()
        runs = read(files).with_columns(pl.col("agent_settings").map_elements(without_data, pl.String))
        runs.write_parquet(buffer, compression="zstd", compression_level=19)
        write(to / "runs" / f"{folder}.parquet", buffer.getvalue())
        write(to / "runs" / f"{folder}.json", (without_data(json.dumps(store.plans(), indent=1)) + "\n").encode())


def without_data(text: str) -> str:
    """Return settings without contexts: rows of a dataset do not belong into what is passed on.

    A run is found by its key, which stays that of the whole settings.

    Examples
    --------
    >>> without_data('{"contexts":[[1.0,2.0],[3.0,4.0]],"width":50}')
    '{"contexts":"...","width":50}'
    >>> without_data("Watch(width=50, contexts=[[1.0, 2.0], [3.0, 4.0]])")
    'Watch(width=50, contexts=...)'
    """
    text = re.sub(r'"contexts": ?\[\[.*?\]\]', '"contexts":"..."', text)
    return re.sub(r"contexts=\[\[.*?\]\]", "contexts=...", text)


def tables_of(archive: Path, folder: str) -> Tables:
    """Return the tables of kept runs as they are, without unpacking them."""
    runs = read([archive / "runs" / f"{folder}.parquet"]).sort("problem", "agent", "seed")
    return Tables(runs, summarize(runs))


def sections_of(archive: Path) -> dict[str, Section]:
    """Return the sections of the experiments whose runs are kept, by name."""
    return sections_from({folder: tables_of(archive, folder) for folder in folders_of(archive)})


def folders_of(archive: Path) -> list[str]:
    """Return the folders of the experiments whose runs are kept."""
    return [folder for folder in FOLDERS if (archive / "runs" / f"{folder}.parquet").is_file()]


def sections_from(tables: Mapping[str, Tables]) -> dict[str, Section]:
    """Return the sections of experiments, by name."""
    found = {e.name: e.section(tables[e.folder]) for e in EXPERIMENTS.values() if e.folder in tables}
    return {name: section for name, section in found.items() if section is not None}


def unpack(archive: Path, out: Path) -> int:
    """Put kept runs back, so that they are not run again; return how many. What is there already stays."""
    files = [archive / "runs" / f"{folder}.parquet" for folder in FOLDERS]
    if not any(file.is_file() for file in files):
        raise PlanError(f"{archive} has no kept runs (no files runs/*.parquet in it)")
    count = 0
    for folder, file in zip(FOLDERS, files, strict=True):
        if not file.is_file():
            continue
        for row in read([file]).iter_slices(1):
            path = out / folder / "runs" / _file(row)
            if not path.is_file():
                buffer = BytesIO()
                row.write_parquet(buffer, compression="zstd")
                write(path, buffer.getvalue())
                count += 1
        for number, plan in enumerate(json.loads(file.with_suffix(".json").read_text())):
            write(out / folder / "plans" / f"kept-{number}.json", json.dumps(plan, indent=1).encode())
    return count


def _file(row: pl.DataFrame) -> str:
    """Return the name of a run's file, as `lim2.experiments.plan.Run` gives it."""
    problem, agent, seed, key = row.select("problem_source", "agent_source", "seed", "key").row(0)
    return f"{short(problem)}_{short(agent)}_{seed}_{key}.parquet"
