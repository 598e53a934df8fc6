from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from experiments.helpers import ended, lim2

from lim2.paper import ablation, forgetting, memory, table
from lim2.paper.experiment import Scale
from lim2.paper.published import METHODS
from lim2.paper.run import EXPERIMENTS
from lim2.paper.write import commands_of, write_report

needs_data = pytest.mark.skipif(not os.environ.get("LIM2_DATA"), reason="needs Statlog: set LIM2_DATA to its folder")


def test_every_experiment_has_a_command() -> None:
    code, out, _ = ended(lim2("paper", "--help", cwd=Path.cwd(), COLUMNS="200"))
    assert code == 0
    assert [name for name in EXPERIMENTS if f"│ {name} " not in out] == []


@needs_data
def test_the_plans_are_the_papers() -> None:
    scale = Scale(runs=10, slow_runs=3)
    quick, slow, *_ = table.plans(scale)
    assert len(quick.problems) == 10
    assert {agent.label for agent in (*quick.agents, *slow.agents)} == {*METHODS, "Uniform"}
    assert (len(quick.seeds), len(slow.seeds)) == (10, 3)
    assert {run.rounds for run in quick} == {5000, 3713}
    [plan] = forgetting.plans(scale)
    limited = [dict(agent.settings) for agent in plan.agents if agent.settings]
    assert all(settings["buffer"] == 100 for settings in limited)
    assert {run.rounds for run in plan} == {4000}
    assert {"buffer": 100, "train_every": 400, "steps": 800} in limited
    [plan] = memory.plans(scale)
    sizes = {agent.settings["buffer"] for agent in plan.agents if agent.settings}
    assert max(sizes) / min(sizes) >= 100
    [plan] = ablation.plans(scale)
    assert {problem.label for problem in plan.problems} >= {"statlog", "covertype", "census", "epileptic"}


@needs_data
def test_a_quick_drift_ends_in_a_report_and_is_not_run_twice(tmp_path: Path) -> None:
    words = ("paper", "drift", "--quick", "--runs", "1")
    data = {"LIM2_DATA": str(Path(os.environ["LIM2_DATA"]).resolve())}  # it may be given relative to where tests start
    code, out, err = ended(lim2(*words, cwd=tmp_path, **data))
    assert code == 0, err
    assert "Report: results/paper-quick/report.html" in out
    folder = tmp_path / "results" / "paper-quick"
    page = (folder / "report.html").read_text()
    assert "Representation drift" in page and 'data-chart="drift/2"' in page
    assert "lim2 paper drift --quick" in (folder / "report.md").read_text()
    assert {"drift.png", "drift.svg"} == {path.name for path in (folder / "figures").iterdir()}
    assert r"\begin{tabular}{lrrr}" in (folder / "tables" / "drift.tex").read_text()
    frame = pl.read_csv(folder / "tables" / "drift.csv")
    assert set(frame["width"]) == {50, 100, 500, 1024}
    assert commands_of(folder) == ["lim2 paper drift --quick --runs 1"]
    written = (folder / "report.html").stat().st_mtime_ns
    code, out, err = ended(lim2(*words, cwd=tmp_path, **data))
    assert code == 0
    assert "4 of 4 runs are here already" in err
    assert "Report: results/paper-quick/report.html, of these runs already" in out
    assert (folder / "report.html").stat().st_mtime_ns == written
    code, out, _ = ended(lim2("paper", "report", "--out", str(folder), "--to", "kept", cwd=tmp_path))
    assert code == 0
    assert (tmp_path / "kept" / "report.md").read_text() == (folder / "report.md").read_text()
    assert not (tmp_path / "kept" / "drift").exists()
    code, out, _ = ended(lim2("paper", "unpack", "kept", "--out", "again", cwd=tmp_path))
    assert (code, out.strip()) == (0, "4 runs unpacked into again")
    code, _, err = ended(lim2(*words, "--out", "again", cwd=tmp_path, **data))
    assert "4 of 4 runs are here already" in err
    assert (tmp_path / "again" / "tables" / "drift.csv").read_bytes() == (folder / "tables" / "drift.csv").read_bytes()


def test_a_folder_without_kept_runs_is_an_error(tmp_path: Path) -> None:
    code, _, err = ended(lim2("paper", "unpack", "nowhere", cwd=tmp_path))
    assert code == 2
    assert "nowhere has no kept runs" in err


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    code, _, err = ended(lim2("paper", "report", "--out", "nowhere", cwd=tmp_path))
    assert code == 2
    assert "nowhere has no runs of `lim2 paper`" in err


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    page = write_report({}, tmp_path)
    assert "no runs in this folder yet" in page.read_text()


@needs_data
def test_a_part_of_an_experiment(tmp_path: Path) -> None:
    words = ("paper", "drift", "--quick", "--runs", "1", "--problems", "statlog", "--agents", "width 50")
    data = {"LIM2_DATA": str(Path(os.environ["LIM2_DATA"]).resolve())}
    code, _, err = ended(lim2(*words, cwd=tmp_path, **data))
    assert code == 0, err
    runs = list((tmp_path / "results" / "paper-quick" / "drift" / "runs").iterdir())
    assert [path.name.split("_")[1] for path in runs] == ["lim2.paper.ntk-KernelWatch"]
    code, _, err = ended(lim2(*words[:-1], "width 51", cwd=tmp_path, **data))
    assert code == 2
    assert "the plan has no agent 'width 51'; did you mean 'width 50'" in err
