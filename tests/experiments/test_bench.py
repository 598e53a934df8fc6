"""The whole way, with processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from experiments.helpers import outcome

import lim2
from lim2.experiments import PlanError, bench
from lim2.experiments.benchmark import carried_out, planned
from lim2.experiments.plan import Run
from lim2.experiments.store import Store

SMALL: dict[str, Any] = {"rounds": 30, "runs": 2, "jobs": 2, "quiet": True, "report": False}


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}


def test_rows_of_the_summary(tmp_path: Path) -> None:
    results = bench(["nonlinear", "linear"], ["LiM2", "LinearTS"], out=tmp_path, **SMALL | {"rounds": 120})
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert rows == results.rows
    assert list(rows[0]) == [
        "problem", "agent", "runs", "rounds", "reward_mean", "reward_std", "regret_mean", "normalized",
        "optimal_rate", "us_per_round", "peak_mb", "regret_share",
    ]  # fmt: skip
    assert {(row["problem"], row["agent"]) for row in rows} == {
        (problem, agent) for problem in ("nonlinear", "linear") for agent in ("LiM2", "LinearTS", "Uniform")
    }
    for row in rows:
        rewards = results.runs.filter(problem=row["problem"], agent=row["agent"])["reward"].to_numpy()
        assert row["runs"] == len(rewards) == 2
        assert row["reward_mean"] == pytest.approx(rewards.mean())
        assert row["reward_std"] == pytest.approx(rewards.std(ddof=1))
    for problem in ("nonlinear", "linear"):
        means = {row["agent"]: row["reward_mean"] for row in rows if row["problem"] == problem}
        zero, best = means["Uniform"], max(means.values())
        for row in rows:
            if row["problem"] == problem:
                assert row["normalized"] == pytest.approx((means[row["agent"]] - zero) / (best - zero))


def test_only_what_is_missing_or_changed_is_run(tmp_path: Path) -> None:
    bench(["wheel"], ["LiM2", "LinearTS"], out=tmp_path, **SMALL)
    before = stamps(tmp_path)
    assert len(before) == 6
    bench(["wheel"], ["LiM2", "LinearTS"], out=tmp_path, **SMALL)
    assert stamps(tmp_path) == before
    bench(["wheel"], ["LiM2", "LinearTS"], out=tmp_path, settings={"LiM2": {"hidden": [5]}}, **SMALL)
    after = stamps(tmp_path)
    assert {name: after[name] for name in before} == before
    assert sorted(name.split("_")[1] for name in set(after) - set(before)) == ["LiM2", "LiM2"]
    bench(["wheel"], ["LinearTS"], out=tmp_path, again=True, **SMALL)
    assert {name.split("_")[1] for name, time in stamps(tmp_path).items() if after[name] != time} == {
        "LinearTS",
        "Uniform",
    }


def test_how_many_processes_does_not_matter(tmp_path: Path) -> None:
    agents = ["LiM2", "LinearTS", "NeuralLinearNTK"]
    bench(["wheel", "nonlinear"], agents, out=tmp_path / "one", **SMALL | {"jobs": 1})
    bench(["wheel", "nonlinear"], agents, out=tmp_path / "two", **SMALL)
    assert outcome(tmp_path / "one").equals(outcome(tmp_path / "two"))


def test_an_agent_from_outside(outside: Path) -> None:
    results = bench(
        ["outside_agents:coins"],
        ["outside_agents:Cycle", "LinearTS"],
        out=outside / "out",
        settings={"Cycle": {"step": 2}},
        **SMALL,
    )
    assert len(results.failures) == 0, results.failures["error"][0]
    runs = results.runs.filter(agent="Cycle")
    for seed, reward in runs.select("seed", "reward").iter_rows():
        rewards = np.random.default_rng(seed)
        rewards.normal(size=(30, 2))
        paid = rewards.integers(0, 2, (30, 3))
        assert reward == sum(paid[t, 2 * (t + 1) % 3] for t in range(30))
    row = next(row for row in results.rows if row["agent"] == "Cycle")
    assert row["peak_mb"] is not None  # the growth of its process: it does not tell its size


def test_an_agent_of_a_script(tmp_path: Path) -> None:
    class Local:
        def __init__(self, n_arms: int, n_features: int) -> None:
            pass

        def act(self, context: object) -> int:
            return 0

        def update(self, context: object, arm: int, reward: float) -> None:
            pass

    Local.__module__ = "__main__"  # as in a notebook: there is no module to import it from
    results = bench(["wheel"], [Local, lim2.LinearTS], out=tmp_path, **SMALL)
    assert len(results.failures) == 0
    assert [row["runs"] for row in results.rows] == [2, 2, 2]


def test_variants_side_by_side(tmp_path: Path) -> None:
    results = bench(
        {"easy": ("wheel", {"delta": 0.5}), "hard": ("wheel", {"delta": 0.95})},
        {"LiM2": ("LiM2", {}), "small": ("LiM2", {"hidden": [5]})},
        out=tmp_path,
        **SMALL,
    )
    assert {(row["problem"], row["agent"]) for row in results.rows} == {
        (problem, agent) for problem in ("easy", "hard") for agent in ("LiM2", "small", "Uniform")
    }


def test_a_failing_run_is_recorded_and_the_others_go_on(outside: Path) -> None:
    results = bench(["wheel"], ["outside_agents:Faulty", "LinearTS"], out=outside / "out", **SMALL)
    assert set(results.failures["agent"]) == {"Faulty"}
    assert len(results.failures) == 2
    assert "no more memory for marbles" in results.failures["error"][0]
    assert set(results.runs["agent"]) == {"LinearTS", "Uniform"}


def test_a_worker_that_dies_is_tried_again(outside: Path) -> None:
    out, note = outside / "out", str(outside / "deaths")
    wanted = {"Mortal": {"note": note}}
    results = bench(["wheel"], ["outside_agents:Mortal"], out=out, settings=wanted, **SMALL)
    assert results.retried == 1
    assert len(results.failures) == 0
    assert sorted(results.runs.filter(agent="Mortal")["attempts"]) == [1, 2]
    assert results.runs.filter(agent="Uniform")["attempts"].to_list() == [1, 1]


def test_a_worker_that_always_dies_is_given_up(outside: Path) -> None:
    wanted = {"Mortal": {"note": str(outside / "deaths"), "deaths": 99}}
    small = SMALL | {"runs": 1}
    results = bench(["wheel"], ["outside_agents:Mortal"], out=outside / "out", settings=wanted, **small)
    assert results.failures["attempts"].to_list() == [3]
    assert "tried 3 times, and each time signal 9 ended its process" in results.failures["error"][0]
    assert set(results.runs["agent"]) == {"Uniform"}


def test_processes_have_one_thread_each(outside: Path) -> None:
    (outside / "threads.py").write_text("""
from threadpoolctl import threadpool_info

class Threads:
    def __init__(self, n_arms, n_features):
        assert all(pool["num_threads"] == 1 for pool in threadpool_info()), threadpool_info()
    def act(self, context):
        return 0
    def update(self, context, arm, reward):
        pass
""")
    results = bench(["wheel"], ["threads:Threads"], out=outside / "out", **SMALL)
    assert len(results.failures) == 0, results.failures["error"][0]


class Recorder:
    """A backend that does nothing but remember, one run at a time."""

    slots = 1

    def __init__(self) -> None:
        self.closed = False

    def start(self, run: Run) -> None:
        raise KeyboardInterrupt

    def events(self, timeout: float) -> Any:
        yield from ()

    def close(self) -> None:
        self.closed = True


def test_whatever_happens_processes_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr("lim2.experiments.benchmark._backend", lambda *_: recorder)
    plan = planned(["wheel"], ["LiM2"], rounds=10, runs=1)
    with pytest.raises(KeyboardInterrupt):
        carried_out(plan, tmp_path, quiet=True)
    assert recorder.closed


def test_wrong_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match="jobs must be at least 1"):
        bench(["wheel"], ["LiM2"], out=tmp_path, jobs=0)
    with pytest.raises(PlanError, match="on must be 'local' or 'ray'"):
        bench(["wheel"], ["LiM2"], out=tmp_path, on="moon")  # type: ignore[arg-type]
    monkeypatch.setenv("LIM2_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("LIM2_CACHE", str(tmp_path / "none"))
    with pytest.raises(PlanError, match="the files of statlog, adult are not on this machine"):
        bench(["statlog", "wheel", "adult"], ["LiM2"], out=tmp_path)
    assert Store(tmp_path).plans()[0]["cells"][0]["problem"] == "wheel"  # only that of "moon" was written down


def test_frames_are_tables(tmp_path: Path) -> None:
    results = bench("wheel", "LinearTS", out=tmp_path, **SMALL)
    assert results.runs.group_by("agent").agg(pl.col("reward").mean()).height == 2
    assert results.report == tmp_path / "report.html"
