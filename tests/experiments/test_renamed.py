"""Runs that were kept under earlier names of agents are found, read and shown under the names of today."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from helpers.kept import RESULTS, with_results

from lim2 import AGENTS
from lim2.experiments.benchmark import planned
from lim2.experiments.names import PlanError, Spec, agent_named
from lim2.experiments.plan import RENAMED_AGENTS, Run, earlier_name
from lim2.experiments.store import Store, read, with_current_names
from lim2.paper import ablation
from lim2.paper.archive import unpack
from lim2.paper.experiment import Scale
from lim2.paper.published import METHODS
from lim2.paper.run import sections_of


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept runs whose agents had other names, in a folder of results."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "archive" / "runs").mkdir(parents=True)
    for name in ("table", "forgetting", "memory", "ablation"):
        for kind in ("parquet", "json"):
            shutil.copy(RESULTS / "runs" / f"{name}.{kind}", folder / "archive" / "runs")
    unpack(folder / "archive", folder / "results")
    return folder / "results"


def test_every_name_of_today_is_an_agent() -> None:
    assert set(RENAMED_AGENTS.values()) <= set(AGENTS)
    assert not set(RENAMED_AGENTS) & set(AGENTS)


@pytest.mark.parametrize("name", RENAMED_AGENTS)
def test_an_earlier_name_is_refused_with_that_of_today(name: str) -> None:
    with pytest.raises(PlanError, match=f"there is no agent {name!r}; .*{RENAMED_AGENTS[name]}"):
        agent_named(name)


def test_then_and_today_are_inverse() -> None:
    for old, new in RENAMED_AGENTS.items():
        assert earlier_name(new) == old
        assert with_current_names(old) == new
    assert earlier_name("LiM2") == "LiM2"


def test_the_key_of_a_run_is_that_of_its_earlier_name() -> None:
    agent = Spec("any label", "NeuralLinearMM", {"buffer": 500, "hidden": (64,)})
    run = Run(Spec("statlog", "statlog"), agent, 5000, 3)
    assert run.key == "1171d0f3d77123a4"  # with the name NeuralLinear-MM
    assert run.file == "statlog_NeuralLinearMM_3_1171d0f3d77123a4.parquet"


@with_results
@pytest.mark.parametrize("name", ["ablation", "complexity", "forgetting", "memory", "table"])
def test_kept_runs_have_the_keys_that_are_computed_today(name: str) -> None:
    for row in read([RESULTS / "runs" / f"{name}.parquet"]).iter_rows(named=True):
        specs = [
            Spec(row[kind], with_current_names(row[f"{kind}_source"]), json.loads(row[f"{kind}_settings"]))
            for kind in ("problem", "agent")
        ]
        assert Run(specs[0], specs[1], row["rounds"], row["seed"]).key == row["key"]


@with_results
def test_kept_runs_are_not_run_again(unpacked: Path) -> None:
    methods = [method for method in METHODS if method not in ("NeuralUCB", "NeuralTS")]
    plan = planned(["statlog", "jester", "financial"], methods, rounds=5000, runs=10)
    store = Store(unpacked / "table")
    assert all(store.has(run) for run in plan)
    assert not store.has(next(iter(planned(["statlog"], ["NeuralLinearMM"], rounds=4999, runs=1))))


@with_results
@pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="a plan has the datasets that are here: set LIM2_DATA")
def test_kept_runs_of_variants_are_not_run_again(unpacked: Path) -> None:
    """They were settings of LiM2, under which their runs are still known."""
    [plan] = ablation.plans(Scale())
    assert all(Store(unpacked / "ablation").has(run) for run in plan)


@with_results
def test_nothing_that_is_read_has_an_earlier_name(unpacked: Path) -> None:
    for folder in ("table", "forgetting", "memory"):
        store = Store(unpacked / folder)
        runs, _ = store.frames()
        assert runs.height == pl.read_parquet(RESULTS / "runs" / f"{folder}.parquet").height
        words = [*runs["agent"], *runs["agent_source"], *runs["agent_settings"], json.dumps(store.plans())]
        assert not re.search("|".join(RENAMED_AGENTS), " ".join(words))
        assert set(runs["agent_source"]) <= set(AGENTS)


@with_results
def test_the_report_of_kept_runs_has_their_numbers(unpacked: Path) -> None:
    sections = sections_of(unpacked)
    sheets = {sheet.name: sheet.data for section in sections.values() for sheet in section.sheets}
    assert set(sheets) == {"normalised", "raw", "text", "forgetting", "memory", "ablation"}
    for name, data in sheets.items():
        assert data.write_csv(float_precision=6) == (RESULTS / "tables" / f"{name}.csv").read_text()
    raw = sheets["raw"].filter(pl.col("dataset") == "Statlog", pl.col("method") == "NeuralLinearNTK")
    assert raw["runs"].to_list() == [10]
