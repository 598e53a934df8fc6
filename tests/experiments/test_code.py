"""Runs say which code and data made them; what differs is never pooled without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from experiments.made import made
from problems.small import WRITERS

from lim2.experiments import PlanError, bench
from lim2.experiments.benchmark import finish, planned
from lim2.experiments.names import agent_named
from lim2.experiments.store import Store

SMALL: dict[str, Any] = {"rounds": 30, "runs": 2, "jobs": 1, "quiet": True, "report": False}
UNVERIFIED = {"statlog": {"verify": False}}


def modules(frame: pl.DataFrame, **of: Any) -> set[str]:
    """Return the names of the modules of the first of some runs."""
    return {part["name"] for part in frame.filter(**of)["modules"][0]}


def with_digest(store: Store, module: str, digest: str, **of: Any) -> None:
    """Change what some runs of a store say of a module, as if an earlier version had made them."""
    changed = 0
    for path in (store.folder / "runs").iterdir():
        row = pl.read_parquet(path)
        if row.filter(**of).height:
            parts = [part | ({"digest": digest} if part["name"] == module else {}) for part in row["modules"][0]]
            row.with_columns(pl.Series("modules", [parts], dtype=row.schema["modules"])).write_parquet(path)
            changed += 1
    assert changed


# Data


@pytest.fixture
def statlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small file of Statlog, which is where datasets are looked for."""
    monkeypatch.setenv("LIM2_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LIM2_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    WRITERS["statlog"](tmp_path / "data")
    return tmp_path / "data" / "shuttle.trn"


def test_another_data_file_is_another_run(statlog: Path, tmp_path: Path) -> None:
    first = bench(["statlog"], ["Uniform"], out=tmp_path / "out", settings=UNVERIFIED, **SMALL)
    assert first.failures.is_empty() and len(first.runs) == 2
    lines = statlog.read_text().splitlines()
    statlog.write_text("\n".join(reversed(lines)) + "\n")
    second = bench(["statlog"], ["Uniform"], out=tmp_path / "out", settings=UNVERIFIED, **SMALL)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 4
    assert second.runs["data"].n_unique() == 1 and second.runs["data"][0] != first.runs["data"][0]
    statlog.write_text("this is no table\n")
    refused = bench(["statlog"], ["Uniform"], out=tmp_path / "out", settings=UNVERIFIED, **SMALL)
    assert len(refused.runs) == 0 and len(refused.failures) == 2


def test_a_part_of_a_dataset_has_other_keys_than_the_whole(statlog: Path) -> None:
    [whole] = [run.key for run in planned(["statlog"], ["Uniform"], rounds=10, runs=1)]
    statlog.write_text("\n".join(statlog.read_text().splitlines()[:30]) + "\n")
    [part] = [run.key for run in planned(["statlog"], ["Uniform"], rounds=10, runs=1)]
    assert whole != part


def test_the_same_data_elsewhere_are_the_same_run(statlog: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / statlog.name).write_bytes(statlog.read_bytes())
    there = {"statlog": {"data": str(tmp_path / "copy")}}
    keys = [
        [run.key for run in planned(["statlog"], ["Uniform"], rounds=9, runs=1, settings=settings)]
        for settings in ({}, there)
    ]
    assert keys[0] == keys[1]


# Code


def test_a_run_knows_the_modules_that_it_imports(tmp_path: Path) -> None:
    runs = bench(["wheel"], ["LiM2", "LinearTS"], out=tmp_path, **SMALL).runs
    lim2, linear = modules(runs, agent="LiM2"), modules(runs, agent="LinearTS")
    assert {"lim2.algorithms.lim2", "lim2.matching", "lim2.agent", "lim2.problems.synthetic.wheel"} <= lim2
    assert "lim2.algorithms.linear_ts" in linear and "lim2.matching" not in linear
    assert not [name for name in lim2 | linear if name.startswith(("lim2.log", "lim2.serve", "lim2.commands"))]
    assert runs["code"].n_unique() == 3


def test_runs_of_other_code_are_not_pooled_with_new_ones(tmp_path: Path) -> None:
    bench(["wheel"], ["LiM2"], out=tmp_path, **SMALL)
    with_digest(Store(tmp_path), "lim2.matching", "0" * 12, agent="LiM2")
    more = SMALL | {"runs": 3}
    with pytest.raises(PlanError, match=r"made by other code: lim2\.matching changed since"):
        bench(["wheel"], ["LiM2"], out=tmp_path, **more)
    assert len(list((tmp_path / "runs").iterdir())) == 4  # nothing was run
    results = bench(["wheel"], ["LiM2"], out=tmp_path, pool=True, **more)
    assert results.runs.filter(agent="LiM2").height == 3
    with pytest.raises(PlanError, match=r"different code: lim2\.matching \(0+ in 2 runs, \w+ in 1 runs\)"):
        finish(Store(tmp_path))
    bench(["wheel"], ["LiM2"], out=tmp_path, again=True, **more)


def test_a_report_says_that_the_code_was_edited_since(tmp_path: Path) -> None:
    store = made(tmp_path, {("wheel", "LiM2"): [1.0, 2.0], ("wheel", "Uniform"): [0.0, 0.5]})
    known = [{"name": "lim2.matching", "digest": "0" * 12}]
    for path in (tmp_path / "runs").iterdir():
        row = pl.read_parquet(path)
        row.with_columns(pl.Series("modules", [known], dtype=row.schema["modules"])).write_parquet(path)
    finish(store)
    assert "The code that made these runs was edited since: lim2.matching." in (tmp_path / "report.md").read_text()


def test_comments_and_docstrings_do_not_count(outside: Path) -> None:
    before = agent_named("outside_agents:Cycle").fingerprint
    path = outside / "outside_agents.py"
    path.write_text(path.read_text().replace("class Cycle:\n", "class Cycle:  # an agent\n"))
    assert agent_named("outside_agents:Cycle").fingerprint == before
    path.write_text(path.read_text().replace("self.last + self.step", "self.last - self.step"))
    assert agent_named("outside_agents:Cycle").fingerprint != before


def test_a_module_beside_a_users_module_counts(outside: Path) -> None:
    (outside / "steps.py").write_text("STEP = 1\n")
    path = outside / "outside_agents.py"
    path.write_text(f"from steps import STEP\n{path.read_text()}")
    before = agent_named("outside_agents:Cycle").fingerprint
    (outside / "steps.py").write_text("STEP = 2\n")
    assert agent_named("outside_agents:Cycle").fingerprint != before


def test_a_module_that_is_edited_midway_is_not_pooled_in_two_versions(outside: Path) -> None:
    path = outside / "outside_agents.py"
    path.write_text(
        path.read_text()
        + '''
class Restless(Cycle):
    """Its file is edited while the second run is under way."""

    def __init__(self, n_arms, n_features, seed=0):
        super().__init__(n_arms, n_features)
        if seed == 1:
            with open(__file__, "a") as file:
                file.write("EDITED = True\\n")
'''
    )
    results = bench(["wheel"], ["outside_agents:Restless"], out=outside / "out", **SMALL)
    assert results.runs.filter(agent="Restless")["seed"].to_list() == [0]
    [error] = results.failures["error"]
    assert "ChangedError" in error and "outside_agents" in error
