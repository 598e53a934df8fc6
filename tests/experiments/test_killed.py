"""`lim2 bench`, killed: the same command goes on, and ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import pytest
from experiments.helpers import ended, gone, lim2, outcome
from helpers.waiting import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

RUNS = 2 * 3 * 8  # far more than there are at a kill, which comes late on a busy machine
PLAN = (
    "bench", "--problems", "wheel,linear", "--agents", "LiM2,LinearTS,Uniform",
    "--rounds", "60", "--runs", "8", "--jobs", "2",
)  # fmt: skip


def results(folder: Path) -> int:
    return len(list((folder / "runs").glob("[!.]*.parquet"))) if (folder / "runs").is_dir() else 0


def summary(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((folder / "summary.json").read_text())
    measured = ("us_per_round",)
    return sorted(
        ({key: value for key, value in row.items() if key not in measured} for row in rows),
        key=lambda row: (str(row["problem"]), str(row["agent"])),
    )


def test_killed_twice_it_ends_as_if_uninterrupted(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert ended(lim2(*PLAN, "--out", str(whole), "--quiet", "--no-report", cwd=tmp_path))[0] == 0
    assert results(whole) == RUNS
    moments = random.Random(0)
    out = tmp_path / "killed"
    had = 0
    for _ in range(2):
        process = lim2(*PLAN, "--out", str(out), "--quiet", cwd=tmp_path)
        aim = min(had + moments.randint(1, 10), 23)
        looks = moments.randint(0, 30)

        until(lambda aim=aim: results(out) >= aim, "results")  # type: ignore[misc]
        for _ in range(looks):  # a little later, but never at the same point
            results(out)
        process.send_signal(signal.SIGKILL)
        status, _, _ = ended(process)
        assert status == -signal.SIGKILL
        assert had <= results(out) < RUNS
        had = results(out)
        assert outcome(out).height == had  # what is there can be read at any moment
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "runs").glob("[!.]*")}
    assert ended(lim2(*PLAN, "--out", str(out), cwd=tmp_path))[0] == 0
    assert {path.name: path.stat().st_mtime_ns for path in (out / "runs").glob("[!.]*") if path.name in kept} == kept
    assert outcome(out).equals(outcome(whole))
    assert summary(out) == summary(whole)
    assert (out / "report.html").exists()


def test_two_at_once_do_no_harm(tmp_path: Path) -> None:
    out, alone = tmp_path / "both", tmp_path / "alone"
    plan = (
        "bench",
        "--problems",
        "wheel",
        "--agents",
        "LiM2,LinearTS",
        "--rounds",
        "60",
        "--runs",
        "4",
        "--jobs",
        "1",
        "--no-report",
    )
    processes = [lim2(*plan, "--out", str(out), cwd=tmp_path) for _ in range(2)]
    assert [ended(process)[0] for process in processes] == [0, 0]
    assert ended(lim2(*plan, "--out", str(alone), cwd=tmp_path))[0] == 0
    assert outcome(out).equals(outcome(alone))
    assert summary(out) == summary(alone)
    assert not [path for path in out.rglob(".*") if path.is_file()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_bench(number: signal.Signals, outside: Path) -> None:
    note = outside / "pid"
    words = (
        "bench", "--problems", "wheel", "--agents", "outside_agents:Endless", "--rounds", "1000000", "--runs", "1",
        "--jobs", "1", "--set", f"Endless.note={note}", "--out", "a folder",
    )  # fmt: skip
    process = lim2(*words, cwd=outside)
    until(lambda: note.exists() or process.poll() is not None, "a note")
    process.send_signal(number)
    status, _, err = ended(process)
    until(lambda: gone(int(note.read_text())), "its end")
    if number == signal.SIGKILL:
        assert status == -number
    else:
        assert status == 130
        assert "Stopped. 0 of 2 runs are kept" in err
        assert "  lim2 bench --problems wheel --agents outside_agents:Endless" in err
        assert "lim2 report 'a folder'" in err
        assert "Traceback" not in err
