"""docs/research/adding-an-algorithm.md shows its example's file, and the file is an agent like any other."""

import re
from pathlib import Path

import numpy as np
import pytest

import lim2
from examples import own_algorithm
from lim2.agents import register
from lim2.algorithms import ALGORITHMS
from lim2.algorithms.base import Algorithm
from lim2.experiments import bench

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "research" / "adding-an-algorithm.md").read_text()
FILE = (ROOT / "examples" / "own_algorithm.py").read_text()


def test_the_page_shows_what_is_in_the_file() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 3
    shown = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    missing = [line for line in shown if line.split("  #")[0].rstrip() not in FILE]
    assert missing == []


def test_it_is_known_by_its_name(tmp_path: Path) -> None:
    assert lim2.AGENTS["LinUCB"] is own_algorithm.make
    assert ALGORITHMS["LinUCB"] is own_algorithm.LinUCB
    agent = own_algorithm.make(n_arms=2, n_features=3, alpha=0.5, seed=0)
    assert repr(agent) == "LinUCB(n_arms=2, n_features=3, seed=0, alpha=0.5)"
    agent.update([1.0, 0.0, 2.0], 1, 1.0)
    agent.save(tmp_path / "agent.lim2")
    loaded = lim2.load(tmp_path / "agent.lim2")
    np.testing.assert_array_equal(loaded.state.A, agent.state.A)
    assert loaded.get_params() == agent.get_params()


def test_it_is_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    agent, rows, rewards = own_algorithm.make(n_arms=1, n_features=3), rng.normal(size=(40, 3)), rng.normal(size=40)
    agent.update(rows, [0] * 40, rewards)
    cov = np.linalg.inv(np.eye(3) + rows.T @ rows)
    np.testing.assert_allclose(agent.means(rows)[:, 0], rows @ cov @ rows.T @ rewards, rtol=1e-10)
    np.testing.assert_allclose(agent.variances(rows)[:, 0], np.vecdot(rows @ cov, rows), rtol=1e-10)


def test_the_bench_runs_it(tmp_path: Path) -> None:
    report = bench(["linear"], [own_algorithm.LinUCB, "LinearTS"], rounds=200, runs=1, out=tmp_path / "out")
    assert report is not None
    assert (tmp_path / "out" / "report.html").exists()


def test_names_of_lim2_are_taken() -> None:
    class LiM2(Algorithm):
        """Another one."""

    with pytest.raises(ValueError, match="'LiM2' is an algorithm of lim2"):
        register(LiM2)  # type: ignore[type-abstract]
