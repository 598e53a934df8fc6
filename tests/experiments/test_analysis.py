"""Agents over many datasets: the numbers, and what a report says of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.made import made
from helpers.kept import with_results

from lim2.experiments.analysis import Analysis, analysed
from lim2.experiments.benchmark import finish
from lim2.experiments.ranks import bootstrap, ranks
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables
from lim2.problems.registry import names

PROBLEMS = names()[:8]
AGENTS = ("LinearTS", "LiM2", "AdaptiveTS", "Uniform")
NOISE = np.random.default_rng(0).normal(size=(8, 4, 3))
# On every problem AdaptiveTS earns most, by far; LiM2 and LinearTS take turns.
MEANS = np.array([[50 + (-1) ** i, 50 - (-1) ** i, 90, 10] for i in range(8)], dtype=float)
REWARDS = {
    (problem, agent): (MEANS[i, j] + NOISE[i, j]).tolist()
    for i, problem in enumerate(PROBLEMS)
    for j, agent in enumerate(AGENTS)
}


def tables(rewards: dict[tuple[str, str], list[float]]) -> Tables:
    rows = [
        {"problem": problem, "agent": agent, "agent_source": agent, "seed": seed, "reward": reward, "rounds": 100}
        for (problem, agent), values in rewards.items()
        for seed, reward in enumerate(values)
    ]
    others = ("regret", "optimal_rate", "us_per_round", "agent_mb", "process_mb")
    runs = pl.DataFrame(rows).with_columns(pl.lit(1.0).alias(name) for name in others)
    return Tables(runs, summarize(runs))


def found(rewards: dict[tuple[str, str], list[float]]) -> Analysis | None:
    return analysed(tables(rewards))


def test_the_numbers() -> None:
    analysis = found(REWARDS)
    assert analysis is not None
    assert analysis.problems == tuple(PROBLEMS)
    assert analysis.left_out == ()
    means = (MEANS + NOISE.mean(axis=2))[:, :3]
    places = ranks(means)
    assert analysis.agents[0] == "AdaptiveTS"
    assert {place.agent: place.rank for place in analysis.places} == pytest.approx(
        dict(zip(AGENTS, places.mean(axis=0), strict=False))
    )
    best = analysis.places[0]
    assert (best.rank, best.rank_interval, best.score, best.score_interval) == (1.0, (1.0, 1.0), 1.0, (1.0, 1.0))
    random = (MEANS + NOISE.mean(axis=2))[:, 3:]
    scores = (means - random) / (means.max(axis=1, keepdims=True) - random)
    linear = next(place for place in analysis.places if place.agent == "LinearTS")
    assert linear.score == pytest.approx(scores[:, 0].mean())
    low, high = bootstrap(scores)
    assert linear.score_interval == pytest.approx((low[0], high[0]))
    pair = analysis.pair("LinearTS", "LiM2")
    gaps = means[:, 0] - means[:, 1]
    assert (pair.wins, pair.ties, pair.losses) == ((gaps > 0).sum(), 0, (gaps < 0).sum())
    other = analysis.pair("LiM2", "LinearTS")
    assert (other.wins, other.losses, other.clear_wins) == (pair.losses, pair.wins, pair.clear_losses)
    clear = analysis.pair("AdaptiveTS", "LiM2")
    assert (clear.wins, clear.clear_wins, clear.clear_losses) == (8, 8, 0)
    assert clear.p < 0.05 < pair.p
    assert analysis.friedman is not None
    assert analysis.friedman.p < 0.001
    assert {frozenset(group) for group in analysis.wilcoxon} == {frozenset({"LinearTS", "LiM2"})}
    assert analysis.as_dict()["friedman"]["chi2"] == analysis.friedman.chi2


def test_means_are_over_the_seeds_that_all_have() -> None:
    rewards = {**REWARDS, (PROBLEMS[0], "LiM2"): [*REWARDS[PROBLEMS[0], "LiM2"][:1]]}  # one run of three
    analysis = found(rewards)
    assert analysis is not None
    row = {agent: rewards[PROBLEMS[0], agent][0] for agent in AGENTS[:3]}
    won = row["LinearTS"] > row["LiM2"]
    before = found(REWARDS)
    assert before is not None
    others = before.pair("LinearTS", "LiM2").wins - bool(
        MEANS[0, 0] + NOISE[0, 0].mean() > MEANS[0, 1] + NOISE[0, 1].mean()
    )
    assert analysis.pair("LinearTS", "LiM2").wins == others + won


def test_who_did_not_play_everything() -> None:
    rewards = {key: value for key, value in REWARDS.items() if key != (PROBLEMS[0], "LiM2")}
    rewards |= {(problem, "NeuralTS"): [1.0, 2.0, 3.0] for problem in PROBLEMS[:4]}
    analysis = found(rewards)
    assert analysis is not None
    assert analysis.left_out == ("NeuralTS", PROBLEMS[0])
    assert len(analysis.problems) == 7


def test_few_problems_or_agents_are_not_compared() -> None:
    few = {(problem, agent): value for (problem, agent), value in REWARDS.items() if problem in PROBLEMS[:5]}
    assert found(few) is None
    alone = {(problem, agent): value for (problem, agent), value in REWARDS.items() if agent in ("LiM2", "Uniform")}
    assert found(alone) is None
    two = {(problem, agent): value for (problem, agent), value in REWARDS.items() if agent != "LinearTS"}
    analysis = found(two)
    assert analysis is not None
    assert (analysis.friedman, analysis.critical_difference, analysis.nemenyi) == (None, None, ())
    assert analysis.pair("AdaptiveTS", "LiM2").p == pytest.approx(2 / 2**8)


@pytest.fixture
def no_figures_of_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of each problem are drawn in test_report."""
    monkeypatch.setattr("lim2.experiments.report.views.of_problem", lambda *_: iter(()))


@pytest.mark.usefixtures("no_figures_of_problems")
def test_what_a_report_says(tmp_path: Path) -> None:
    finish(made(tmp_path / "eight", REWARDS))
    text = (tmp_path / "eight" / "report.md").read_text()
    assert "8 datasets, 3 agents; a dataset is one observation. AdaptiveTS has the best mean rank." in text
    assert "it is better than LinearTS and LiM2." in text or "it is better than LiM2 and LinearTS." in text
    assert "8 (8) / 0 / 0 (0)" in text
    table = (tmp_path / "eight" / "tables" / "datasets.tex").read_text()
    assert "AdaptiveTS & 1.00 & 1.00 to 1.00 & 1.000" in table
    few = {key: value for key, value in REWARDS.items() if key[0] in PROBLEMS[:6]}
    finish(made(tmp_path / "six", few))
    text = (tmp_path / "six" / "report.md").read_text()
    assert "With 6 datasets and 3 pairs that test could not show any: the least p possible is 0.09." in text


@pytest.mark.usefixtures("no_figures_of_problems")
def test_a_report_has_it(tmp_path: Path) -> None:
    rewards = {(p, a): values[:1] for (p, a), values in REWARDS.items() if p in PROBLEMS[:6] and a != "LinearTS"}
    finish(made(tmp_path, rewards))
    data = json.loads((tmp_path / "datasets.json").read_text())
    assert data["places"][0]["agent"] == "AdaptiveTS"
    for ending in ("svg", "png"):
        assert (tmp_path / "figures" / f"all-critical-difference.{ending}").stat().st_size > 1000
    assert "## Over many datasets" in (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "<h3>Over many datasets</h3>" in page
    assert 'aria-label="Critical-difference diagram; the table below has its numbers"' in page
    assert "6 (0) / 0 / 0 (0)" in page
    assert "AdaptiveTS" in (tmp_path / "tables" / "datasets.tex").read_text()


@with_results
def test_the_page_says_what_was_kept() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "research" / "suites.md").read_text()
    kept = json.loads((docs / "results" / "suites" / "datasets.json").read_text())
    for place in kept["places"]:
        assert f"| {place['agent']} | {place['rank']:.2f} |" in page, "run `python -m benchmarks.datasets`"
        assert f"| {place['score']:.3f} |" in page
    assert f"= {kept['friedman']['f']:.2f}, p" in page
