"""Runs of the paper's experiments that are kept in the repository are found, and not run again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest
from helpers.kept import RESULTS, with_results

from lim2.experiments.benchmark import planned
from lim2.experiments.code import digest_of
from lim2.experiments.names import Spec
from lim2.experiments.plan import Run
from lim2.experiments.store import Store, read
from lim2.paper.archive import unpack
from lim2.paper.experiment import Scale
from lim2.paper.published import METHODS
from lim2.paper.run import EXPERIMENTS, sections_of

pytestmark = with_results
needs_data = pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="data are a part of a key: set LIM2_DATA")
FOLDERS = ("ablation", "collapse", "complexity", "drift", "forgetting", "memory", "table")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept runs in a folder of results."""
    folder = tmp_path_factory.mktemp("kept") / "results"
    unpack(RESULTS, folder)
    return folder


@pytest.mark.parametrize("name", [name for name in FOLDERS if name != "drift"])  # its settings are kept without data
def test_keys_are_those_that_are_computed_today(name: str) -> None:
    for row in read([RESULTS / "runs" / f"{name}.parquet"]).iter_rows(named=True):
        problem = Spec(row["problem"], row["problem_source"], json.loads(row["problem_settings"]), row["data"])
        agent = Spec(row["agent"], row["agent_source"], json.loads(row["agent_settings"]))
        assert Run(problem, agent, row["rounds"], row["seed"]).key == row["key"]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_run_says_what_code_made_it_and_the_commit_is_known(name: str) -> None:
    commits = json.loads((RESULTS / "commits.json").read_text())
    for code, modules in read([RESULTS / "runs" / f"{name}.parquet"]).select("code", "modules").iter_rows():
        assert code == digest_of({part["name"]: part["digest"] for part in modules})
        assert code in commits


@needs_data
def test_what_is_kept_is_not_run_again(unpacked: Path) -> None:
    methods = [method for method in METHODS if method not in ("NeuralUCB", "NeuralTS")]
    store = Store(unpacked / "table")
    assert all(store.has(run) for run in planned(["statlog", "jester", "financial"], methods, rounds=5000, runs=10))
    assert not store.has(next(iter(planned(["statlog"], ["NeuralLinearMM"], rounds=4999, runs=1))))
    for name in ("ablation", "drift", "forgetting", "memory"):
        [plan] = EXPERIMENTS[name].plans(Scale())
        assert all(Store(unpacked / name).has(run) for run in plan)


def test_the_report_has_their_numbers(unpacked: Path) -> None:
    sections = sections_of(unpacked)
    sheets = {sheet.name: sheet.data for section in sections.values() for sheet in section.sheets}
    assert set(sheets) == {"raw", "normalised", "text", *FOLDERS} - {"table"}
    for name, data in sheets.items():
        assert data.write_csv(float_precision=6) == (RESULTS / "tables" / f"{name}.csv").read_text()
    raw = sheets["raw"].filter(pl.col("dataset") == "Statlog", pl.col("method") == "NeuralLinearNTK")
    assert raw["runs"].to_list() == [10]
