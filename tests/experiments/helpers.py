"""What tests of experiments share: agents from outside the package, and `lim2` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from helpers.waiting import PATIENCE

from lim2.experiments.store import MEASURED, Store

AGENTS = '''
import os, pathlib, signal, time, warnings


class Cycle:
    """Plays the arms in turn; knows nothing of lim2, takes no seed, has no nbytes."""

    def __init__(self, n_arms, n_features, step=1):
        self.n_arms, self.step, self.last = n_arms, step, 0

    def act(self, context):
        self.last = (self.last + self.step) % self.n_arms
        return self.last

    def update(self, context, arm, reward):
        print("noise on standard output")


class Faulty(Cycle):
    def update(self, context, arm, reward):
        raise RuntimeError("no more memory for marbles")


class Wordy(Cycle):
    def update(self, context, arm, reward):
        warnings.warn("this is odd")


class Mortal(Cycle):
    """Its process is killed, the first `deaths` times."""

    def __init__(self, n_arms, n_features, note="", deaths=1):
        super().__init__(n_arms, n_features)
        died = pathlib.Path(note)
        count = len(died.read_text()) if died.exists() else 0
        if count < deaths:
            died.write_text("x" * (count + 1))
            os.kill(os.getpid(), signal.SIGKILL)


class Endless(Cycle):
    """Says who it is, and never comes to an end."""

    def __init__(self, n_arms, n_features, note=""):
        super().__init__(n_arms, n_features)
        part = pathlib.Path(note + ".part")
        part.write_text(str(os.getpid()))
        part.rename(note)

    def update(self, context, arm, reward):
        time.sleep(0.01)


def coins(rounds, seed, stake=1.0):
    import numpy as np
    from lim2.problems import Problem

    rng = np.random.default_rng(seed)
    return Problem("coins", rng.normal(size=(rounds, 2)), stake * rng.integers(0, 2, (rounds, 3)).astype(float))


not_callable = 3
'''


def write_agents(folder: Path, name: str = "outside_agents") -> None:
    (folder / f"{name}.py").write_text(AGENTS)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module of agents that lim2 has never heard of; the user is in it."""
    write_agents(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("outside_agents", None)


def lim2(*words: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """Start `lim2` as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "lim2", *words],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], timeout: float = PATIENCE) -> tuple[int, str, str]:
    """Wait for a process; return its status and what it printed."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def gone(pid: int) -> bool:
    """Say whether a process has ended; one that nobody has waited for counts as ended."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def outcome(folder: Path) -> pl.DataFrame:
    """Return everything in a folder of results that must not depend on when and where it was made."""
    return Store(folder).frames()[0].drop(MEASURED).sort("key")
