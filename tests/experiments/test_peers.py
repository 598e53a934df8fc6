from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lim2 import problems
from lim2.experiments import PlanError, bench
from lim2.experiments.names import agent_named
from lim2.experiments.runner import make, play

installed = pytest.mark.skipif(
    pytest.importorskip("importlib.util").find_spec("vowpalwabbit") is None,
    reason="Vowpal Wabbit is not installed: pip install 'lim2[peers]'",
)


ALGORITHMS = ("squarecb", "epsilon", "bag", "cover", "regcbopt")
LEARNING = [*ALGORITHMS[:-1], *(f"adf-{name}" for name in ALGORITHMS)]


@installed
@pytest.mark.parametrize("name", LEARNING)
def test_it_learns_and_repeats_itself(name: str) -> None:
    problem = problems.load("linear", rounds=1000, seed=0)
    arms = [play(make(agent_named(f"vw:{name}"), problem, 1), problem).arms for _ in range(2)]
    assert (arms[0] == arms[1]).all()
    reward = problem.rewards[np.arange(1000), arms[0]]
    assert reward[500:].mean() > 0.5 * problem.best_rewards.mean()


@installed
def test_regcb_is_given_costs_from_minus_1_to_0() -> None:
    problem = problems.load("nonlinear", rounds=1500, seed=0)  # rewards are 0 or 1
    arms = play(make(agent_named("vw:adf-regcb"), problem, 1), problem).arms
    assert problem.rewards[np.arange(1500), arms].mean() > 1.1 * problem.rewards.mean()
    with pytest.raises(PlanError, match="there is no agent 'vw:regcb'"):
        agent_named("vw:regcb")


def catalogue(rounds: int) -> problems.ItemProblem:
    return problems.load("catalogue", rounds=rounds, seed=0, n_items=60, arrivals=10, eligible=8)


@installed
@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_learns_to_choose_items_and_repeats_itself(name: str) -> None:
    problem = catalogue(rounds=1200)
    arms = [play(make(agent_named(f"vw:adf-{name}"), problem, 1), problem).arms for _ in range(2)]
    assert (arms[0] == arms[1]).all()
    late = problem.expected(arms[0])[600:].mean()
    assert late > problem.uniform_reward + 0.15 * (problem.best_rewards.mean() - problem.uniform_reward)


@installed
def test_items_need_action_features() -> None:
    with pytest.raises(TypeError, match="vw:squarecb chooses among arms and cannot play items; name vw:adf-squarecb"):
        make(agent_named("vw:squarecb"), catalogue(rounds=2), 0)


@installed
def test_it_learns_from_its_own_decisions() -> None:
    items = np.array([[1.0, 0.0], [0.0, 1.0]])
    agent: Any = make(agent_named("vw:adf-squarecb"), problems.from_items([[1.0]], [items], [[0.0, 1.0]]), 0)
    with pytest.raises(ValueError, match="learns from its own decisions only"):
        agent.update([1.0], items[0], 1.0)
    row = agent.act([1.0], items)
    with pytest.raises(ValueError, match="learns from its own decisions only"):
        agent.update([1.0], items[1 - row], 1.0)
    agent.update([1.0], items[row], 1.0)


@installed
def test_bench_beside_lim2(tmp_path: Path) -> None:
    results = bench(
        ["linear"], ["vw:squarecb", "vw:epsilon"], rounds=60, runs=1, out=tmp_path, quiet=True, report=False,
        settings={"vw:epsilon": {"epsilon": 0.2}},
    )  # fmt: skip
    assert len(results.failures) == 0, results.failures["error"][0]
    assert [row["agent"] for row in results.rows] == ["vw:squarecb", "vw:epsilon", "Uniform"]


@installed
def test_settings_are_checked() -> None:
    with pytest.raises(PlanError, match="no setting 'epsilom'; did you mean 'epsilon'"):
        bench(["linear"], ["vw:epsilon"], settings={"vw:epsilon": {"epsilom": 0.2}})


def test_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    monkeypatch.setattr("lim2.experiments.peers.find_spec", lambda name: None)
    with pytest.raises(PlanError, match=r"pip install 'lim2\[peers\]'"):
        agent_named("vw:squarecb")
