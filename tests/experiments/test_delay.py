"""Rewards that arrive later, and decisions in batches: in a run, a plan, a folder of results and its report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from experiments.item_agents import Products, shelves
from experiments.made import made
from experiments.test_report import REWARDS, Page

import lim2
from lim2 import problems
from lim2.experiments import Feedback, PlanError, bench
from lim2.experiments.benchmark import finish, planned
from lim2.experiments.compare import compared
from lim2.experiments.names import Spec, agent_named, given
from lim2.experiments.plan import Plan, Run
from lim2.experiments.runner import Played, make, measured, play, run_once
from lim2.experiments.store import SCHEMA, Store, read
from lim2.experiments.suite import read_suite
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables

WHEEL = Spec("wheel", "wheel")
LINEAR = Spec("LinearTS", "LinearTS")
LATE = Feedback(delay=7, batch=4)


class Recorder:
    """Notes every call; chooses by how often it has decided and learned."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.learned = 0

    def act(self, context: Any, items: Any = range(5)) -> int:
        arm = (len(self.calls) + self.learned) % len(items)
        self.calls.append(("act", np.asarray(context).tolist(), np.asarray(items).tolist(), arm))
        return arm

    def update(self, context: Any, arm: Any, reward: float) -> None:
        self.learned += 1
        self.calls.append(("update", np.asarray(context).tolist(), np.asarray(arm).tolist(), reward))


def literally(agent: Any, problem: Any, delay: int, batch: int) -> list[int]:
    """Play round by round as the definition says it; return the arms."""
    items = isinstance(problem, problems.ItemProblem)
    rounds = list(problem) if items else list(zip(problem.contexts, problem.rewards, strict=True))
    waiting: list[tuple[int, tuple[Any, Any, float]]] = []
    arms = []
    for t, (context, *candidates, rewards) in enumerate(rounds, start=1):
        arm = agent.act(context, *candidates)
        arms.append(arm)
        waiting.append((t, (context, candidates[0][arm] if items else arm, float(rewards[arm]))))
        if t % batch == 0 or t == len(rounds):
            for of, what in list(waiting):
                if of + delay <= t:
                    agent.update(*what)
                    waiting.remove((of, what))
    return arms


@pytest.mark.parametrize("batch", [1, 2, 7, 50, 64])
@pytest.mark.parametrize("delay", [0, 1, 3, 20, 49, 50, 70])
@pytest.mark.parametrize("drawn", [lambda: problems.load("wheel", rounds=50, seed=0), lambda: shelves(50, 0)])
def test_calls_are_those_of_the_definition(delay: int, batch: int, drawn: Callable[[], Any]) -> None:
    problem = drawn()
    agent, reference = Recorder(), Recorder()
    played = play(agent, problem, None, Feedback(delay, batch))
    assert played.arms.tolist() == literally(reference, problem, delay, batch)
    assert agent.calls == reference.calls
    assert len(played.act_ns) == 50
    assert len(played.update_ns) == len(played.learned_after) == agent.learned == max(50 - delay, 0)
    # A reward was learned after so many decisions.
    decisions = [sum(call[0] == "act" for call in agent.calls[:i]) for i, c in enumerate(agent.calls) if c[0] != "act"]
    assert played.learned_after.tolist() == decisions


def test_many_rounds_in_several_stretches() -> None:
    problem = problems.load("wheel", rounds=1000, seed=0)
    agent, reference = Recorder(), Recorder()
    ticks: list[int] = []
    play(agent, problem, lambda done, _: ticks.append(done), Feedback(33, 64))
    literally(reference, problem, 33, 64)
    assert agent.calls == reference.calls
    assert len(ticks) > 2
    assert all(done % 64 == 0 for done in ticks[:-1])  # whole batches
    assert ticks[-1] == 1000


@pytest.mark.parametrize("name", sorted(lim2.AGENTS))
def test_every_agent_plays_as_in_a_plain_loop(name: str) -> None:
    problem = problems.load("linear", rounds=60, seed=1)
    arms = [
        player(make(Spec(name, name), problem, 3))
        for player in (
            lambda agent: play(agent, problem, None, LATE).arms.tolist(),
            lambda agent: literally(agent, problem, LATE.delay, LATE.batch),
        )
    ]
    assert arms[0] == arms[1]


def test_an_agent_with_items() -> None:
    problem = shelves(40, 1)
    arms = play(make(given(Products), problem, 0), problem, None, LATE).arms
    assert arms.tolist() == literally(make(given(Products), problem, 0), problem, LATE.delay, LATE.batch)


@pytest.mark.parametrize("name", ["vw:squarecb", "vw:adf-squarecb", "items"])
def test_vowpal_wabbit_learns_with_the_probability_of_the_decision(name: str) -> None:
    pytest.importorskip("vowpalwabbit")
    problem = shelves(40, 1) if name == "items" else problems.load("wheel", rounds=40, seed=1)
    agent: Any = make(agent_named("vw:adf-squarecb" if name == "items" else name), problem, 0)
    inner, decided, learned = agent._vw, [], []

    class Spy:
        def predict(self, example: Any) -> Any:
            chances = inner.predict(example)
            decided.append(chances)
            return chances

        def learn(self, example: Any) -> None:
            text = example if isinstance(example, str) else "\n".join(example)
            learned.append(float(re.search(r"\d+:\S+:(\S+) ", text)[1]))  # type: ignore[index]
            inner.learn(example)

    agent._vw = Spy()
    arms = play(agent, problem, None, LATE).arms
    assert learned == [decided[t][arms[t]] for t in range(40 - LATE.delay)]
    assert len(set(learned)) > 3


# Times


def test_times_are_of_calls_and_seconds_add_up_when_they_are_spent() -> None:
    problem = problems.load("wheel", rounds=10, seed=0)
    learned_after = np.array([4, 4, 8, 8, 8, 8, 10, 10])  # with a delay of 2, in batches of 4
    act, update = np.arange(10) * 1000 + 1000, np.arange(8) * 100_000 + 100_000
    played = Played(np.zeros(10, dtype=int), act, update, learned_after, [], [], {})
    record = measured(problem, played)
    assert record["act_us_mean"] == 5.5
    assert record["update_us_mean"] == 450.0  # over 8 calls, not over 10 rounds
    assert record["us_per_round"] == 455.5
    assert record["update_us_max"] == 800.0
    spent = np.array(record["curve_seconds"]) * 1e6
    acts = np.cumsum(np.arange(1, 11))
    updates = [0, 0, 0, 300, 300, 300, 300, 2100, 2100, 3600]  # of rounds 1 and 2, 3 to 6, 7 and 8
    np.testing.assert_allclose(spent, acts + updates)


def test_memory_is_looked_at_between_batches() -> None:
    problem = problems.load("wheel", rounds=200, seed=0)
    played = play(lim2.LinearTS(5, 2, seed=0), problem, None, Feedback(batch=64))
    assert played.memory_rounds == [64, 128, 192, 200]
    assert len(played.memory_bytes) == 4


# Identity


def test_runs_without_delay_are_known_as_before() -> None:
    problem, agent = Spec("wheel", "wheel", {"delta": 0.5}), Spec("NeuralLinearMM", "NeuralLinearMM", {"hidden": (3,)})
    run = Run(problem, agent, 100, 7)
    assert run.file == "wheel_NeuralLinearMM_7_085cdbff6218edc9.parquet"
    others = [Run(problem, agent, 100, 7, late) for late in (Feedback(5), Feedback(0, 5), Feedback(5, 5), Feedback(6))]
    assert len({run.key, *(other.key for other in others)}) == 5
    assert others[2].file.startswith("wheel_delay-5-batch-5_NeuralLinearMM_7_")
    assert str(others[0]) == "wheel (delay 5) / NeuralLinearMM / seed 7"


def test_files_say_delay_and_batch_only_where_there_are(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = planned(["wheel"], ["Uniform"], rounds=40, runs=1, delay=[0, 5], batch=[1, 8])
    store.ask(plan)
    for run in plan:
        store.put(run, run_once(run))
    plain = pl.read_parquet(tmp_path / "runs" / "wheel_Uniform_*.parquet")
    assert plain.schema == pl.Schema(SCHEMA)
    late = pl.read_parquet(tmp_path / "runs" / "wheel_delay-5-batch-8_*.parquet")
    assert late.select("problem", "delay", "batch").rows() == [("wheel (delay 5, batch 8)", 5, 8)]
    assert read((tmp_path / "runs").glob("*")).schema == pl.Schema(SCHEMA)
    [cells] = [plan["cells"] for plan in store.plans()]
    assert [cell.get("delay") for cell in cells] == [None, 5, 0, 5]
    assert list(cells[0]) == ["problem", "agent", "problem_text", "agent_text", "rounds", "files"]
    frame = store.frames()[0].sort("batch", "delay")
    assert frame.select("problem", "delay", "batch").rows() == [
        ("wheel", 0, 1),
        ("wheel (delay 5)", 5, 1),
        ("wheel (batch 8)", 0, 8),
        ("wheel (delay 5, batch 8)", 5, 8),
    ]


def test_delays_are_added_to_a_folder_and_other_rounds_are_not(tmp_path: Path) -> None:
    made(tmp_path, REWARDS)
    store = made(tmp_path, REWARDS, delay=20)
    assert {cell.problem for cell in store.cells()} == {"wheel", "linear", "wheel (delay 20)", "linear (delay 20)"}
    store.ask(planned(["wheel"], ["LiM2"], rounds=90, runs=1, delay=30))
    shown = {cell.problem for cell in store.cells()}
    assert shown == {"wheel (delay 30)", "linear", "linear (delay 20)"}  # 90 rounds do not compare with 100


# What is asked for


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay must be a whole number of rounds, at least 0, not -1"),
        ({"delay": 1.5}, "delay must be a whole number of rounds, at least 0, not 1.5"),
        ({"delay": "9"}, "delay must be a whole number of rounds, at least 0, not '9'"),
        ({"delay": True}, "delay must be a whole number"),
        ({"batch": 0}, "batch must be a whole number of rounds, at least 1, not 0"),
        ({"batch": [2, None]}, "batch must be a whole number"),
        ({"delay": []}, "delay has no number"),
        ({"delay": [3, 3]}, "delay has 3 twice"),
        ({"delay": 100}, "delay 100: no reward would be learned before the last decision of 100 rounds of 'wheel'"),
        ({"delay": 99}, "no reward would be learned"),  # that of round 1 would be, after the last decision
        ({"batch": 101}, "batch 101: no reward would be learned"),
        ({"batch": 100}, "no reward would be learned"),
        ({"delay": 64, "batch": 64}, "delay 64, batch 64: no reward would be learned"),
    ],
)
def test_what_cannot_be_played(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        planned(["wheel"], ["LiM2"], rounds=100, runs=1, **options)


def test_what_can_just_be_played() -> None:
    for late in (Feedback(98), Feedback(0, 99), Feedback(63, 64), Feedback(np.int64(3))):  # type: ignore[arg-type]
        agent = Recorder()
        play(agent, problems.load("wheel", rounds=100, seed=0), None, late)
        last = max(i for i, call in enumerate(agent.calls) if call[0] == "act")
        assert any(call[0] == "update" for call in agent.calls[:last])
        Plan((WHEEL,), (LINEAR,), (0,), 100, (late,))
    Plan((WHEEL,), (LINEAR,), (0,), 1)


def test_a_variant_may_not_take_the_label() -> None:
    problems = {"wheel": ("wheel", {}), "wheel (delay 5)": ("wheel", {"delta": 0.5})}
    with pytest.raises(PlanError, match=re.escape("two problems would have the name 'wheel (delay 5)'")):
        planned(problems, ["LiM2"], rounds=100, runs=1, delay=[0, 5])


def test_a_table_too_short_for_the_delay_fails_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(20)))
    spec = Spec("own", f"csv:{path}", {"label": "y"})
    record = run_once(Run(spec, LINEAR, "all", 0, Feedback(delay=19)))
    assert record["status"] == "failed"
    assert "no reward would be learned before the last decision of 20 rounds of 'own'" in record["error"]
    assert run_once(Run(spec, LINEAR, "all", 0, Feedback(delay=18)))["status"] == "ok"


def test_a_grid_in_a_plan() -> None:
    plan = planned(["wheel", "linear"], ["LiM2"], rounds=100, runs=2, delay=[0, 9], batch=[1, 4])
    assert len(plan) == len(list(plan)) == 2 * 2 * 2 * 4
    labels = list(dict.fromkeys(run.label for run in plan))
    assert labels[:4] == ["wheel", "wheel (delay 9)", "wheel (batch 4)", "wheel (delay 9, batch 4)"]
    assert planned(["wheel"], ["LiM2"], rounds=100, runs=1).feedbacks == (Feedback(),)


def test_a_grid_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text("delay = [0, 100, 1000]\nbatch = 64")
    plan = read_suite(path)
    assert (plan.delay, plan.batch) == ([0, 100, 1000], 64)
    for text in ("delay = -1", "delay = 1.5", 'delay = "100"', "batch = [0]", "batch = true"):
        path.write_text(text)
        with pytest.raises(PlanError, match=rf"suite.toml: {text.split()[0]} must be a whole number of rounds"):
            read_suite(path)


# Reports


def test_bench_keeps_delays_apart(tmp_path: Path) -> None:
    options: dict[str, Any] = {"rounds": 60, "runs": 2, "out": tmp_path, "quiet": True, "jobs": 1}
    results = bench(["linear"], ["LinearTS"], delay=[0, 30], report=False, **options)
    assert len(results.failures) == 0, results.failures["error"][0]
    told = [(row["problem"], row["agent"], row.get("delay"), row.get("batch"), row["runs"]) for row in results.rows]
    assert told == [
        ("linear", "LinearTS", None, None, 2),
        ("linear", "Uniform", None, None, 2),
        ("linear (delay 30)", "LinearTS", 30, 1, 2),
        ("linear (delay 30)", "Uniform", 30, 1, 2),
    ]
    problem = problems.load("linear", rounds=60, seed=0)
    alone = problem.earned(np.array(literally(make(LINEAR, problem, 0), problem, 30, 1))).sum()
    kept = results.runs.filter(pl.col("problem") == "linear (delay 30)", agent="LinearTS", seed=0)
    assert kept["reward"].to_list() == [pytest.approx(alone)]
    # What does not learn earns the same, whenever its rewards arrive.
    uniform = results.runs.filter(agent="Uniform").sort("delay", "seed")["reward"].to_list()
    assert uniform[:2] == uniform[2:]
    assert json.loads((tmp_path / "summary.json").read_text()) == results.rows
    with pytest.raises(ValueError, match="scores of different delays or batches cannot be averaged"):
        _ = Tables(results.runs, results.rows).leaderboard


def test_a_report_of_one_delay_says_so_everywhere(tmp_path: Path) -> None:
    wheel = {where: values for where, values in REWARDS.items() if where[0] == "wheel"}
    results = finish(made(tmp_path, wheel, delay=20, batch=8))
    page = Page(results.report.read_text())
    assert "LinearTS is not significantly different from it. All runs: delay 20, batch 8." in page.text
    assert "Leaderboard: delay 20, batch 8" in page.text
    assert "The reward of a round arrives 20 rounds later. Decisions are made in batches of 8" in page.text
    assert page.text.count("4 runs of each agent, delay 20, batch 8") == 1
    assert "Score against time (delay 20, batch 8)" in page.text
    assert "Reward by delay and batch" not in page.text
    figures = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert {"all-delay-20-batch-8-scores", "wheel-delay-20-batch-8-memory"} <= figures
    assert (tmp_path / "tables" / "normalized-delay-20-batch-8.tex").read_text().startswith("% delay 20, batch 8\n")
    markdown = (tmp_path / "report.md").read_text()
    assert "## Leaderboard: delay 20, batch 8" in markdown
    assert all((tmp_path / link).exists() for link in re.findall(r"\]\(([^)]+)\)", markdown))


def test_a_report_of_several_delays_has_each_apart_and_all_beside_one_another(tmp_path: Path) -> None:
    results = finish(made(tmp_path, REWARDS, delay=[0, 20], batch=[8]))
    page = Page(results.report.read_text())
    assert "2 problems, 3 agents, 2 settings of delay and batch, 48 runs" in page.text
    assert "LinearTS ranks first with every delay and batch." in page.text
    assert "Leaderboard: batch 8" in page.text
    assert "Leaderboard: delay 20, batch 8" in page.text
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert page.tags["figure"] == 2 * 2 + 2 + 1 + 4 * 3  # over all, over delays, in pairs, of each problem
    markdown = (tmp_path / "report.md").read_text()
    assert "| problem | agent | batch 8 | delay 20, batch 8 |" in markdown
    assert "| wheel | LiM2 | 103.2 | 101.2 |" in markdown
    assert all((tmp_path / link).exists() for link in re.findall(r"\]\(([^)]+)\)", markdown))
    names = ("normalized", "rewards", "leaderboard", "results", "runs")
    tables = {f"{table}-{late}" for table in names for late in ("batch-8", "delay-20-batch-8")}
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == tables


def test_the_leaderboard_of_a_delay_is_that_of_its_runs_alone(tmp_path: Path) -> None:
    boards = []
    for name, delays in (("grid", [0, 20]), ("alone", [20])):
        runs, _ = made(tmp_path / name, REWARDS, delay=delays, batch=[1, 8][: len(delays)]).frames()
        tables = Tables(runs, summarize(runs))
        boards.append(tables.parts[Feedback(20)].leaderboard)
    assert boards[0] == boards[1]
    runs, _ = Store(tmp_path / "grid").frames()
    parts = Tables(runs, summarize(runs)).parts
    assert [late.name for late in parts] == ["no delay", "delay 20", "batch 8", "delay 20, batch 8"]
    assert [len(part.problems) for part in parts.values()] == [2] * 4


def test_compare_never_mixes_delays(tmp_path: Path) -> None:
    now, later, both = (
        made(tmp_path / name, REWARDS, delay=delay) for name, delay in (("a", 0), ("b", 20), ("c", [0, 20]))
    )
    with pytest.raises(PlanError, match=r"wheel \(delay 20\) / Uniform here. The report of one folder compares"):
        compared(now, later)
    assert {d.verdict for d in compared(later, both)} == {"same"}
    assert {(d.problem, d.first.get("delay")) for d in compared(later, both)} == {
        ("wheel (delay 20)", 20),
        ("linear (delay 20)", 20),
    }
