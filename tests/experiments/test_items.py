"""Problems whose arms are items, in the runner, the bench and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from experiments.item_agents import First, Products, shelves

import lim2
from lim2 import problems
from lim2.experiments import bench
from lim2.experiments.delayed import NoArmError
from lim2.experiments.names import Spec, given
from lim2.experiments.plan import Run, rounds_of
from lim2.experiments.runner import draw, make, measured, play, run_once

CATALOGUE = Spec("catalogue", "catalogue", {"n_items": 60, "arrivals": 20, "eligible": 8})
SHELVES = given(shelves)


def test_an_agent_is_given_what_it_chose() -> None:
    problem = shelves(rounds=50, seed=1)
    agent = First(2, 3, row=1)
    played = play(agent, problem)
    expected = [(x.tolist(), items[1].tolist(), float(rewards[1])) for x, items, rewards in problem]
    assert agent.told == expected
    assert played.arms.tolist() == [1] * 50
    record = measured(problem, played)
    assert record["reward"] == sum(reward for _, _, reward in expected)
    assert record["regret"] == problem.best_rewards.sum() - record["reward"]
    assert record["curve_reward"][-1] == record["reward"]
    assert record["n_candidates"] == pytest.approx(problem.n_candidates.mean())
    assert (record["n_item_features"], record["n_features"], "n_arms" in record) == (3, 2, False)


def test_ticks_add_up_what_was_earned() -> None:
    problem = shelves(rounds=300, seed=2)
    ticks: list[tuple[int, float]] = []
    agent = lim2.Uniform(n_features=2, n_item_features=3, seed=0)
    played = play(agent, problem, lambda done, reward: ticks.append((done, reward)))
    assert ticks[-1] == (300, problem.earned(played.arms).sum())
    assert len(ticks) > 1


@pytest.mark.parametrize(
    ("row", "error"), [(-1, "act returned -1"), (4, "returned 4 in"), (0.5, "0.5, a float"), (None, "None")]
)
def test_rows_that_are_none(row: Any, error: str) -> None:
    with pytest.raises(NoArmError, match=error):
        play(First(2, 3, row=row), shelves(rounds=10, seed=0))


def test_uniform_chooses_every_candidate_equally_often() -> None:
    problem = problems.load("catalogue", rounds=4000, seed=0)
    arms = play(lim2.Uniform(n_features=4, n_item_features=18, seed=1), problem).arms
    assert (np.abs(np.bincount(arms, minlength=20) - 200) < 4 * np.sqrt(200 * 0.95)).all()
    again = play(lim2.Uniform(n_features=4, n_item_features=18, seed=1), problem).arms
    assert (arms == again).all()


def test_an_agent_with_products_learns() -> None:
    problem = draw(CATALOGUE, 600, 0)
    assert isinstance(problem, problems.ItemProblem)
    rewards = problem.expected(play(make(given(Products), problem, 0), problem).arms)
    span = problem.best_rewards[300:].mean() - problem.uniform_reward
    assert rewards[300:].mean() > problem.uniform_reward + 0.5 * span


class Arms:
    def __init__(self, n_arms: int, n_features: int) -> None: ...

    def act(self, context: Any) -> int:
        return 0

    def update(self, context: Any, arm: int, reward: float) -> None: ...


def test_agents_and_problems_that_do_not_fit() -> None:
    arms = run_once(Run(CATALOGUE, given(Arms), 10, 0))
    assert arms["status"] == "failed"
    assert "Arms chooses among arms, and 'catalogue' has items with features; name an agent that takes" in arms["error"]
    items = run_once(Run(Spec("wheel", "wheel"), given(First), 10, 0))
    assert items["status"] == "failed"
    assert "First chooses among items with features, and 'wheel' has arms; play it on a problem" in items["error"]


class Scaled(First):
    def __init__(self, n_features: int, n_item_features: int, scales: tuple[Any, Any]) -> None:
        super().__init__(n_features, n_item_features)
        self.scales = scales


def test_numbers_are_scaled_and_flags_are_not() -> None:
    rows = np.array([[1.0, 0.0, 7.0], [5.0, 1.0, 7.0], [3.0, 1.0, 7.0]])
    problem = problems.from_items(rows, [np.ones((2, 1))] * 3, [[0.0, 1.0]] * 3)
    agent: Any = make(given(Scaled), problem, 0)
    scaled = agent.scales[0](rows)
    np.testing.assert_allclose(scaled[:, 0].mean(), 0, atol=1e-12)
    np.testing.assert_allclose(scaled[:, 0].std(), 1)
    assert scaled[:, 1].tolist() == [0.0, 1.0, 1.0]
    assert scaled[:, 2].tolist() == [0.0, 0.0, 0.0]


def test_scales_are_given_to_who_asks_for_them() -> None:
    problem = draw(CATALOGUE, 50, 0)
    agent: Any = make(given(Scaled), problem, 0)
    assert agent.scales[0].mean == pytest.approx(problem.contexts.mean(axis=0))
    assert (agent.scales[1].mean[:10] == 0).all()


def test_no_more_rounds_than_a_dataset_has() -> None:
    assert rounds_of(Spec("movielens", "movielens"), 20_000) == 9_596
    assert rounds_of(Spec("electricity", "electricity"), 5_000) == 4_308


def test_bench_and_report(tmp_path: Path) -> None:
    results = bench(
        ["catalogue", shelves, "wheel"],
        [Products, lim2.LinearTS],
        settings={"catalogue": CATALOGUE.settings},
        rounds=80, runs=2, out=tmp_path, quiet=True, jobs=1,
    )  # fmt: skip
    failed = set(results.failures.select("problem", "agent").unique().rows())
    assert failed == {("wheel", "Products")}
    by_agent = {(row["problem"], row["agent"]): row for row in results.rows}
    assert by_agent["shelves", "Products"]["reward_mean"] > by_agent["shelves", "Uniform"]["reward_mean"]
    assert {("wheel", "LinearTS"), ("shelves", "LinearTS"), ("wheel", "Uniform")} <= by_agent.keys()
    text = (tmp_path / "report.md").read_text()
    assert "80 rounds, 8 items per round, 4 features of the context and 18 of an item, 2 runs" in text
    assert "80 rounds, 5 arms, 2 features, 2 runs" in text
    sizes = results.runs.filter(pl.col("problem") == "wheel").select("n_arms", "n_candidates").unique().rows()
    assert sizes == [(5, None)]
