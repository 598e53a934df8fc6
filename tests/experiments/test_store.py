from __future__ import annotations

import json
import os
import time
from pathlib import Path

import polars as pl
import pytest

from lim2.experiments.benchmark import planned
from lim2.experiments.names import PlanError
from lim2.experiments.plan import Plan
from lim2.experiments.runner import run_once
from lim2.experiments.store import SCHEMA, Store, opened


def plan(agents: list[str], *, rounds: int = 20, runs: int = 2, **settings: dict[str, object]) -> Plan:
    return planned(["wheel"], agents, rounds=rounds, runs=runs, settings=settings)


def filled(store: Store, wanted: Plan) -> None:
    store.ask(wanted)
    for run in wanted:
        if not store.has(run):
            store.put(run, run_once(run))


def shown(store: Store) -> dict[tuple[str, str], int]:
    runs, _ = store.frames()
    return {(a, s): n for a, s, n in runs.group_by("agent", "agent_settings").len().iter_rows()}


def test_files_are_read_by_any_tool(tmp_path: Path) -> None:
    store = Store(tmp_path)
    filled(store, plan(["LinearTS"]))
    table = pl.read_parquet(tmp_path / "runs" / "*.parquet")
    assert table.schema == pl.Schema(SCHEMA)
    assert len(table) == 4
    assert table["curve_round"].list.last().to_list() == [20] * 4
    assert not list(tmp_path.rglob(".*"))


def test_a_changed_setting_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    filled(store, plan(["LinearTS"]))
    filled(store, plan(["LinearTS"], LinearTS={"a0": 3.0}))
    assert shown(store) == {("LinearTS", '{"a0":3.0}'): 2, ("Uniform", "{}"): 2}
    store.ask(plan(["LinearTS"]))  # and back
    assert shown(store) == {("LinearTS", "{}"): 2, ("Uniform", "{}"): 2}


def test_more_agents_and_more_runs_are_added(tmp_path: Path) -> None:
    store = Store(tmp_path)
    filled(store, plan(["LinearTS"], runs=3))
    filled(store, plan(["NeuralLinearNTK"], runs=2))
    assert shown(store) == {("LinearTS", "{}"): 3, ("Uniform", "{}"): 3, ("NeuralLinearNTK", "{}"): 2}


def test_other_rounds_do_not_compare_and_are_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    filled(store, plan(["LinearTS", "NeuralLinearNTK"]))
    filled(store, plan(["LinearTS"], rounds=30))
    runs, _ = store.frames()
    assert set(runs["agent"]) == {"LinearTS", "Uniform"}
    assert set(runs["rounds"]) == {30}


def test_a_success_takes_the_place_of_a_failure_and_never_the_reverse(tmp_path: Path) -> None:
    store = Store(tmp_path)
    wanted = plan(["LinearTS"], runs=1)
    store.ask(wanted)
    run = next(iter(wanted))
    good = run_once(run)
    bad = {**{key: good[key] for key in ("key", "agent", "problem", "seed")}, "status": "failed", "error": "x"}
    store.put(run, bad)
    runs, failures = store.frames()
    assert (len(runs), len(failures), store.missing(), store.has(run)) == (0, 1, 2, False)
    store.put(run, good)
    assert [len(frame) for frame in store.frames()] == [1, 0]
    store.put(run, bad)  # another process, later
    assert [len(frame) for frame in store.frames()] == [1, 0]


def test_half_written_files_are_neither_read_nor_kept_for_ever(tmp_path: Path) -> None:
    store = Store(tmp_path)
    wanted = plan(["LinearTS"], runs=1)
    filled(store, wanted)
    half = tmp_path / "runs" / f".{next(iter(wanted)).file}-123-abcd"
    half.write_bytes(b"PAR1")
    assert len(store.frames()[0]) == 2
    store.tidy()
    assert half.exists()  # it may be under way
    old = time.time() - 7200
    os.utime(half, (old, old))
    store.tidy()
    assert not half.exists()


def test_what_is_no_folder_of_results(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="has no results of `lim2 bench`"):
        opened(tmp_path)


def test_plans_remember_the_command(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.ask(plan(["LinearTS"]), ["lim2", "bench"])
    store.ask(plan(["LinearTS"]), ["lim2", "bench"])
    assert len(store.plans()) == 1
    text = next((tmp_path / "plans").iterdir()).read_text()
    assert json.loads(text)["command"] == ["lim2", "bench"]
