"""The figures that benchmarks report follow from what was run or measured."""

import numpy as np
import polars as pl
import pytest

from benchmarks import catalogue, items, shop, wide
from lim2 import memory
from lim2.problems import ItemProblem, load


def runs(rewards: dict[str, list[float]]) -> pl.DataFrame:
    rows = [
        ("car", agent, seed, 100, reward) for agent, values in rewards.items() for seed, reward in enumerate(values)
    ]
    return pl.DataFrame(rows, schema=["problem", "agent", "seed", "rounds", "reward"], orient="row")


REWARDS = {"AdaptiveTS": [0.5, 0.7], "LinearTS": [0.6, 0.7], "vw:adf-squarecb": [0.4, 0.5], "Uniform": [0.1, 0.1]}


def test_agents_on_items_are_compared_in_pairs() -> None:
    row = items.compared(runs(REWARDS), "car")
    assert row is not None
    assert row["minus_peer"] == pytest.approx(0.15)
    assert (row["wins"], row["seeds"], row["best"]) == (2, [0, 1], "LinearTS")
    assert row["of_best"] == pytest.approx(0.6 / 0.65, abs=1e-4)
    assert row["of_best_span"] == pytest.approx(0.5 / 0.55, abs=1e-4)
    assert "| car | 2 of 100 | +0.1500" in items.report([row])


def test_a_draw_that_not_all_have_played_does_not_count() -> None:
    row = items.compared(runs({**REWARDS, "LinearTS": [0.6]}), "car")
    assert row is not None
    assert row["seeds"] == [0]
    assert items.compared(runs({"AdaptiveTS": [0.5]}), "car") is None
    assert items.compared(runs(REWARDS), "movielens") is None


def test_the_share_of_the_way_from_random_to_best() -> None:
    problem = load("catalogue", rounds=60, seed=100)
    assert isinstance(problem, ItemProblem)
    of_rounds = [problem.expected_rewards[problem.rows(t)] for t in range(60)]
    best, random = (np.array([of(each) for each in of_rounds]) for of in (np.max, np.mean))
    assert catalogue.share(problem, best, 20) == pytest.approx(1.0)
    assert catalogue.share(problem, random, 20) == pytest.approx(0.0)
    assert len(catalogue.with_bandit(problem.head(5), seed=100)) == 5


def test_a_shop_is_the_same_in_all_units_of_its_prices() -> None:
    cents, small = (shop.shop(50, 100, scale, 8, 12) for scale in (100.0, 1e-6))
    assert cents.by_hand.tolist() == small.by_hand.tolist()
    assert cents.clicks.tolist() == small.clicks.tolist()
    priced = next(t for t, raw in enumerate(cents.raw) if "price" in raw)
    assert small.raw[priced]["price"] == pytest.approx(1e-8 * cents.raw[priced]["price"])


def test_a_cell_of_the_grid_is_measured_in_a_process_of_its_own() -> None:
    row = wide.in_a_process(wide.played, wide.made("AdaptiveTS", 3, 2), 0.0, 40)
    assert row["updates"] == 40
    assert 0.0 <= row["update median ms"] <= row["update 99.9% ms"] <= row["update longest ms"]
    assert 0.0 < row["state MiB"] < row["peak MiB"]
    assert wide.in_a_process(dict, patience=60.0) == {}
    assert wide.in_a_process(_endless, patience=0.1) == {"failed": wide.TOO_LONG}


def _endless() -> None:
    while True:
        pass


def test_larger_cells_fail_like_smaller_ones() -> None:
    grid = {"LiM2 / 2 / 9": {"updates": 3}, "LiM2 / 10 / 20": {"failed": wide.TOO_LARGE}}
    assert (
        wide.fails_like(grid, "LiM2", 10, 100) == wide.fails_like(grid, "LiM2", 1000, 20) == {"failed": "above 4 GiB"}
    )
    assert wide.fails_like(grid, "LiM2", 2, 100) is None
    assert wide.fails_like(grid, "LinearTS", 10, 100) is None


def test_a_full_buffer_is_one_that_storing_leads_to() -> None:
    agent = wide.with_full_buffer(wide.made("LiM2", 3, 2), np.random.default_rng(0))
    memory.check(agent.state.memory.canonical())
    agent.update([0.5, 1.0], 1, 1.0)
    assert agent.state.memory.held == agent.state.memory.capacity == 300


def test_the_page_shows_what_was_measured_and_what_was_not() -> None:
    row = {"act median ms": 0.5, "act 99.9% ms": 2.0, "update median ms": 1234.0, "update 99.9% ms": 2000.0}
    grid = {"AdaptiveTS / 2 / 9": {**row, "state MiB": 1.0, "peak MiB": 90.0}, "AdaptiveTS / 2 / 20": {"failed": "no"}}
    text = wide.page({"code": "abc", "grid": grid, "steps": {"LinearTS / 8": 1.25}, "long": {"update mean ms": 0.6}})
    assert "| 2 arms | 0.50 / 2.0 | no | – |" in text
    assert "| 2 arms | 1,234 / 2,000 | no | – |" in text
    assert "| 2 arms | 1.0 / 90.0 | no | – |" in text
    assert "| LinearTS | 1.25 | – |" in text
    assert "| – | 0.6 | – |" in text
