"""`lim2 tune`: a search that goes on after a kill, and is judged on what it has not seen."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from experiments.helpers import ended, lim2
from helpers.waiting import until

from lim2.experiments.names import PlanError
from lim2.experiments.suite import parsed_settings, read_suite
from lim2.experiments.tune import shares, tune
from lim2.experiments.tuned import Judged, set_line, summary

pytest.importorskip("optuna")

TEXT = """
problems = ["linear"]
rounds = 60
runs = 2
[variants.frail]
of = "frail_agents:Frail"
[tune]
problems = ["wheel", "nonlinear"]
rounds = 60
runs = 1
[tune.space.LinearTS]
prior_precision = { low = 0.01, high = 10.0, log = true }
intercept = { choices = [false, true] }
initial_pulls = { low = 1, high = 4 }
[tune.space.frail]
step = { low = 2, high = 3 }
"""


FRAIL = """
class Frail:
    def __init__(self, n_arms, n_features, step=1):
        self.step = step

    def act(self, context):
        return 0 if self.step == 1 else 1 // 0

    def update(self, context, arm, reward):
        pass
"""


def suite(folder: Path) -> Path:
    path = folder / "suite.toml"
    path.write_text(TEXT)
    return path


def trials(folder: Path) -> list[tuple[Any, ...]]:
    """Return the scores and settings of the trials that counted, in their order."""
    with closing(sqlite3.connect(folder / "trials.sqlite")) as base:
        rows: list[tuple[Any, ...]] = base.execute(
            "select v.value, a.value_json from trials t join trial_values v using (trial_id) "
            "join trial_user_attributes a using (trial_id) where a.key = 'settings' order by t.number"
        ).fetchall()
    return rows


def count(folder: Path) -> int:
    runs = folder / "tuning" / "runs"
    return len(list(runs.glob("[!.]*"))) if runs.is_dir() else 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_killed_it_ends_as_if_uninterrupted(tmp_path: Path) -> None:
    path = suite(tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    number = 8  # far more than there are at the kill, which comes late on a busy machine
    options: dict[str, Any] = {"trials": number, "jobs": 1, "report": False}
    found = tune("LinearTS", read_suite(path), out=whole, **options)
    words = ("tune", "LinearTS", "--suite", str(path), "--trials", str(number), "--jobs", "1", "--out", "killed")
    process = lim2(*words, cwd=tmp_path)
    # In the midst of the second trial: of its two runs one is there, after those of the defaults and of the first.
    until(lambda: count(killed) >= 4 + 2 + 1, "four seeds, two and one")
    process.send_signal(signal.SIGKILL)
    assert ended(process)[0] == -signal.SIGKILL
    assert len(trials(killed)) < number
    before = {file: file.stat().st_mtime_ns for file in (killed / "tuning" / "runs").iterdir()}
    said: list[str] = []
    assert tune("LinearTS", read_suite(path), out=killed, say=said.append, **options) == found
    assert any("are here already" in line for line in said)
    assert all(file.stat().st_mtime_ns == when for file, when in before.items())
    assert trials(killed) == trials(whole)
    with closing(sqlite3.connect(killed / "trials.sqlite")) as base:
        [(running,)] = base.execute("select count(*) from trials where state = 'RUNNING'")
    assert running == 0  # the one that was killed is marked as failed
    assert len(trials(whole)) == number
    assert json.loads((whole / "tuned.json").read_text())["best"] == found.best >= found.default
    text = summary(found, whole)
    assert f"best of {number} trials {found.best:.4f}" in text
    if found.settings:
        pairs = [word for word in shlex.split(found.line) if word != "--set"]
        assert parsed_settings(pairs) == {"LinearTS": dict(found.settings)}
        assert "which the search has not seen (1 problems, 2 runs each)" in text


def test_settings_with_which_the_agent_fails_are_told_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "frail_agents.py").write_text(FRAIL)
    monkeypatch.syspath_prepend(str(tmp_path))
    said: list[str] = []
    found = tune(
        "frail", read_suite(suite(tmp_path)), trials=2, jobs=1, out=tmp_path / "out", say=said.append, report=False
    )
    assert [line.partition(": failed with step=")[1] != "" for line in said] == [False, True, True]
    assert "ZeroDivisionError" in said[1]
    assert (found.settings, found.best, found.judged) == ({}, found.default, None)
    assert "there is nothing to set" in summary(found, tmp_path)


def test_another_search_is_refused(tmp_path: Path) -> None:
    read = read_suite(suite(tmp_path))
    out = tmp_path / "out"
    out.mkdir()
    with closing(sqlite3.connect(out / "lock.sqlite", isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        with pytest.raises(PlanError, match="another `lim2 tune` is running in"):
            tune("LinearTS", read, trials=1, out=out)
    with pytest.raises(PlanError, match="trials must be at least 1"):
        tune("LinearTS", read, trials=0, out=out)


def test_the_share_that_was_earned() -> None:
    runs = pl.DataFrame(
        {
            "problem": ["p", "p", "p", "p", "q", "q"],
            "agent": ["a", "Uniform", "a", "Uniform", "a", "Uniform"],
            "seed": [0, 0, 1, 1, 0, 0],
            "reward": [8.0, 4.0, 9.0, 3.0, 5.0, 5.0],
            "best_reward": [10.0, 10.0, 11.0, 11.0, 5.0, 5.0],
        }
    )
    found = shares(runs, "a")
    assert found["share"].to_list() == pytest.approx([4 / 7, 6 / 7, 0.0])  # (6 + 8) / 2 is what there is to earn in p


@pytest.mark.parametrize(
    ("problems", "difference", "half", "p", "words"),
    [
        (8, 0.1, 0.05, 0.01, "significantly better than the defaults on the evaluation part"),
        (8, -0.1, 0.05, 0.01, "significantly worse"),
        (8, 0.1, 0.05, 0.06, "No difference is shown"),
        (3, 0.1, 0.05, 0.25, "significantly better than the defaults on these 3 problems; too few to speak of others"),
        (3, 0.1, 0.11, 0.25, "No difference is shown"),
    ],
)
def test_the_verdict(problems: int, difference: float, half: float, p: float, words: str) -> None:
    assert words in Judged(problems, 2, 0.5, 0.5 + difference, difference, half, 1, 1, p).verdict


def test_what_is_pasted_is_what_was_found() -> None:
    settings = {
        "hidden": [100, 50],
        "matching": None,
        "exploration": "ucb",
        "learning_rate": 0.0123,
        "intercept": False,
    }
    words = set_line("my agent", settings)
    assert words.startswith("--set 'my agent.hidden=[100, 50]' --set 'my agent.matching=None'")
    assert parsed_settings([word for word in shlex.split(words) if word != "--set"]) == {"my agent": settings}
