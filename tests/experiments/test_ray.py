from __future__ import annotations

import importlib
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from experiments.helpers import ended, lim2, outcome
from helpers.waiting import until

from lim2.experiments import PlanError, bench

installed = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'lim2[ray]'")

PLAN = (
    "bench", "--problems", "wheel,linear,nonlinear", "--agents", "LiM2,LinearTS,outside_agents:Cycle", "--rounds", "60",
    "--runs", "2", "--jobs", "2", "--no-report", "--delay", "0,7", "--batch", "4",
)  # fmt: skip


def on_ray(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Run to its end, once more if Ray did not start: it allows itself 30 seconds, which a busy machine may exceed."""
    for _ in range(3):
        code, out, err = ended(lim2(*words, "--on", "ray", cwd=cwd))
        if "Ray did not start" not in err:
            break
    return code, out, err


@installed
def test_a_cluster_gives_the_same_results_even_when_killed(outside: Path) -> None:
    assert ended(lim2(*PLAN, "--out", "local", "--quiet", cwd=outside))[0] == 0
    process = lim2(*PLAN, "--out", "cluster", "--on", "ray", cwd=outside)
    until(lambda: len(list(outside.glob("cluster/runs/[!.]*"))) >= 3 or process.poll() is not None, "three results")
    process.send_signal(signal.SIGKILL)
    ended(process)
    code, _, err = on_ray(*PLAN, "--out", "cluster", cwd=outside)
    assert code == 0, err
    assert outcome(outside / "cluster").equals(outcome(outside / "local"))


@installed
def test_lost_and_failing_runs(outside: Path) -> None:
    words = (
        "bench", "--problems", "wheel", "--agents", "outside_agents:Mortal,outside_agents:Faulty", "--rounds", "20",
        "--runs", "1", "--jobs", "2", "--no-report", "--out", "out",
        "--set", f"Mortal.note={outside / 'deaths'}",
    )  # fmt: skip
    code, _, err = on_ray(*words, cwd=outside)
    assert code == 1, err
    assert "1 runs were repeated because their process died" in err
    assert "wheel / Faulty / seed 0: RuntimeError" in err


def test_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ray")
    with pytest.raises(PlanError, match=r"pip install 'lim2\[ray\]'"):
        bench(["wheel"], ["LiM2"], rounds=10, runs=1, out=tmp_path, on="ray")


@installed
def test_a_cluster_that_does_not_answer_is_a_plain_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise ConnectionError("no GCS")

    monkeypatch.setattr(importlib.import_module("ray"), "init", refuse)
    for address, message in ((None, "Ray did not start"), ("head:6379", "the cluster head:6379 .* did not answer")):
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        if address:
            monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(PlanError, match=f"{message}: no GCS"):
            bench(["wheel"], ["LiM2"], rounds=10, runs=1, out=tmp_path, on="ray")
