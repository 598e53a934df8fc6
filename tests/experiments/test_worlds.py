"""Worlds in the runner: delays of the problem, dictionaries through lim2.Bandit, regret against the truth."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lim2
from lim2 import problems
from lim2.experiments import bench
from lim2.experiments.delayed import NoArmError
from lim2.experiments.feedback import Feedback
from lim2.experiments.names import Spec, agent_named, given
from lim2.experiments.plan import Run
from lim2.experiments.runner import make, measured, play, run_once
from lim2.experiments.store import SCHEMA
from lim2.problems import ItemProblem, Problem

IMMEDIATE = Feedback()


class Recorder:
    """Plays arms in turn, and notes after how many decisions each reward came."""

    def __init__(self) -> None:
        self.decisions = 0
        self.told: list[tuple[int, int, int]] = []  # decisions so far, round, arm

    def act(self, context: Any) -> int:
        assert context[0] == self.decisions
        self.decisions += 1
        return (self.decisions - 1) % 3

    def update(self, context: Any, arm: int, reward: float) -> None:
        assert reward == 10 * context[0] + arm
        self.told.append((self.decisions, int(context[0]), int(arm)))


def late(rounds: int, seed: int, most: int = 9) -> Problem:
    """Return a problem whose rewards name their round and arm, and whose delays are random."""
    number = np.arange(rounds, dtype=float)[:, None]
    delays = np.random.default_rng(seed).integers(0, most + 1, (rounds, 3))
    return Problem("late", number, 10 * number + np.arange(3), delays=delays)


# Delays of the problem


def test_a_reward_comes_after_exactly_its_number_of_decisions() -> None:
    problem, agent = late(200, 0), Recorder()
    played = play(agent, problem)
    assert problem.delays is not None
    due = {t: t + 1 + int(problem.delays[t, t % 3]) for t in range(200)}
    assert agent.told == sorted(((at, t, t % 3) for t, at in due.items() if at <= 200), key=lambda told: told[:2])
    assert played.learned_after.tolist() == [at for at, _, _ in agent.told]
    assert len(played.update_ns) == len(agent.told) < 200


def test_delays_of_0_are_as_no_delays() -> None:
    problem = problems.load("clicks", rounds=400, seed=0)
    prompt = replace(problem, delays=np.zeros((400, 4), dtype=int))
    arms = [play(lim2.AdaptiveTS(4, 10, hidden=(), seed=1), p).arms.tolist() for p in (problem, prompt)]
    assert arms[0] == arms[1]


@pytest.mark.parametrize(("delay", "batch"), [(5, 1), (0, 7), (3, 4)])
def test_delays_of_the_bench_are_added(delay: int, batch: int) -> None:
    problem, agent = late(100, 1), Recorder()
    play(agent, problem, None, Feedback(delay, batch))
    assert problem.delays is not None
    for at, t, arm in agent.told:
        arrives = t + 1 + delay + int(problem.delays[t, arm])
        assert at == min(100, -(-arrives // batch) * batch)
    assert {t for _, t, _ in agent.told} == {t for t in range(100) if t + 1 + delay + problem.delays[t, t % 3] <= 100}


def test_items_have_delays_too() -> None:
    problem = problems.load("item-clicks", rounds=60, seed=0, by_hand=True)
    delays = np.full(len(problem.rewards), 4)
    delays[problem.offsets[10] : problem.offsets[11]] = 20
    told: list[int] = []

    class First:
        decisions = 0

        def act(self, context: Any, items: Any) -> int:
            self.decisions += 1
            return 2

        def update(self, context: Any, item: Any, reward: float) -> None:
            t = next(t for t in range(60) if (problem.contexts[t] == context).all())
            assert (item == problem.items(t)[2]).all()
            assert self.decisions == t + 1 + (20 if t == 10 else 4)
            told.append(t)

    play(First(), replace(problem, delays=delays))
    assert sorted(told) == [t for t in range(60) if t + 1 + (20 if t == 10 else 4) <= 60]


def test_a_world_in_which_nothing_arrives_in_time() -> None:
    record = run_once(Run(Spec("late-zeros", "late-zeros"), Spec("Uniform", "Uniform"), 1, 0))
    assert record["status"] == "ok", record.get("error")
    assert record["update_us_mean"] == 0.0


# Dictionaries


def by_hand_in_a_loop(problem: Any, bandit: lim2.Bandit) -> list[int]:
    """Play as a user would write it; return the indices of the arms."""
    waiting: dict[int, list[tuple[int, Any, float]]] = {}
    arms = []
    for t in range(problem.rounds):
        if isinstance(problem, ItemProblem):
            context, items = problem.raw(t)
            decision = bandit.decide(context, items)
            arm = list(items).index(decision.arm)
            reward, delay = problem.rewards[problem.rows(t)][arm], 0
        else:
            decision = bandit.decide(problem.raw_contexts[t])
            arm = problem.arm_names.index(decision.arm)
            reward, delay = problem.rewards[t, arm], 0 if problem.delays is None else int(problem.delays[t, arm])
        arms.append(arm)
        waiting.setdefault(t + delay, []).append((t, decision, float(reward)))
        for _, due, value in sorted(waiting.pop(t, []), key=lambda entry: entry[0]):
            bandit.update(due, value)
    return arms


@pytest.mark.parametrize("name", ["shop", "shop-late", "banner", "item-clicks"])
@pytest.mark.parametrize("agent", ["AdaptiveTS", "LinearTS"])
def test_dictionaries_are_played_through_a_bandit(name: str, agent: str) -> None:
    problem = problems.load(name, rounds=120 if name == "item-clicks" else 500, seed=1)
    arms = play(make(Spec(agent, agent), problem, 3), problem).arms.tolist()
    names = None if isinstance(problem, ItemProblem) else problem.arm_names
    assert arms == by_hand_in_a_loop(problem, lim2.Bandit(names, algorithm=agent, seed=3))
    assert len(set(arms)) > 2


def test_settings_reach_the_algorithm() -> None:
    problem = problems.load("banner", rounds=50, seed=1)
    bandit: Any = make(Spec("s", "AdaptiveTS", {"hidden": []}), problem, 3)
    assert isinstance(bandit, lim2.Bandit)
    assert bandit.agent.get_params()["hidden"] == []


class Last:
    """A rival of one's own that takes dictionaries: it always plays the last arm."""

    def __init__(self, arms: Any, seed: int, usual_rewards: Any = None, wrong: bool = False) -> None:
        self.arms, self.seed, self.usual, self.wrong = arms, seed, usual_rewards, wrong

    def decide(self, context: Any, items: Any = None) -> Any:
        return SimpleNamespace(arm="nothing" if self.wrong else list(items or self.arms)[-1])

    def update(self, decision: Any, reward: float) -> None: ...


@pytest.mark.parametrize("name", ["shop", "item-clicks"])
def test_a_class_that_decides_plays_itself(name: str) -> None:
    problem = problems.load(name, rounds=30, seed=1)
    agent: Any = make(given(Last), problem, 5)
    assert (agent.seed, agent.usual) == (5, (0.0, 1.0))
    assert set(play(agent, problem).arms.tolist()) == {29 if name == "item-clicks" else 3}
    with pytest.raises(NoArmError, match="expected a decision whose attribute arm is one of"):
        play(make(given(Last).with_settings({"wrong": True}), problem, 5), problem)


class OnVectors:
    def __init__(self, n_arms: int, n_features: int) -> None: ...

    def act(self, context: Any) -> int:
        return 0

    def update(self, context: Any, arm: int, reward: float) -> None: ...


def test_an_agent_for_vectors_is_told_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"takes vectors, and 'shop' has dictionaries.*by_hand=true"):
        make(given(OnVectors), problems.load("shop", rounds=10, seed=0), 0)
    hand = problems.load("shop", rounds=10, seed=0, by_hand=True)
    assert play(make(given(OnVectors), hand, 0), hand).arms.tolist() == [0] * 10


# Vowpal Wabbit


@pytest.mark.parametrize("word", ["vw:adf-squarecb", "vw:adf-regcbopt"])
@pytest.mark.parametrize("name", ["shop-late", "item-clicks"])
def test_vowpal_wabbit_plays_dictionaries_with_the_probability_of_the_decision(word: str, name: str) -> None:
    pytest.importorskip("vowpalwabbit")
    problem = problems.load(name, rounds=700 if name == "shop-late" else 60, seed=1)
    agent: Any = make(agent_named(word), problem, 0)
    inner = agent._vw
    learned: list[str] = []

    class Spy:
        def predict(self, lines: list[str]) -> Any:
            return inner.predict(lines)

        def learn(self, lines: list[str]) -> None:
            learned.extend(line for line in lines if line.startswith("0:"))
            inner.learn(lines)

    agent._vw = Spy()
    arms = play(agent, problem).arms
    again: Any = make(agent_named(word), problem, 0)
    assert play(again, problem).arms.tolist() == arms.tolist()
    assert len(set(arms.tolist())) > 2
    assert learned
    assert all(0.0 < float(line.split()[0].split(":")[2]) <= 1.0 for line in learned)


def test_vowpal_wabbit_reads_a_context_as_words_and_numbers() -> None:
    pytest.importorskip("vowpalwabbit")
    raw = ({"age": 30, "new": True, "at": "2026-11-02T09:30:00"},)
    problem = Problem(
        "raw", np.ones((1, 1)), np.ones((1, 2)), arm_names=("red", "blue"), raw_contexts=raw, form="dictionaries"
    )
    agent: Any = make(agent_named("vw:adf-squarecb"), problem, 0)
    decision = agent.decide(raw[0])
    assert decision.lines[0] == "shared |x age:30 new=True at=2026-11-02T09_30_00 at.hour=09"
    assert decision.lines[1:] == ["|a arm=red", "|a arm=blue"]


def test_vowpal_wabbit_needs_action_features_for_dictionaries() -> None:
    pytest.importorskip("vowpalwabbit")
    with pytest.raises(TypeError, match="name vw:adf-squarecb"):
        make(agent_named("vw:squarecb"), problems.load("shop", rounds=10, seed=0), 0)


def test_a_range_of_costs_comes_from_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    vowpalwabbit = pytest.importorskip("vowpalwabbit")
    asked: list[str] = []
    monkeypatch.setattr(vowpalwabbit, "Workspace", asked.append)
    for name in ("revenue", "clicks", "linear", "item-clicks", "shop"):
        make(agent_named("vw:adf-regcbopt"), problems.load(name, rounds=5, seed=0), 0)
    costs = [tuple(map(float, re.findall(r"--cb_m\w\w_cost (\S+)", options))) for options in asked]
    assert costs == [(-1000.0, 0.0), *[(-1.0, 0.0)] * 4]


def test_columns_that_are_0_say_nothing_to_vowpal_wabbit() -> None:
    vowpalwabbit = pytest.importorskip("vowpalwabbit")
    texts = ("|x f0:0.0 f1:0.5 f2:0.0", "|x f1:0.5")
    found = []
    for text in texts:
        workspace = vowpalwabbit.Workspace("--cb_explore 3 --squarecb --random_seed 1 --quiet")
        for arm in (1, 2, 3, 1):
            workspace.learn(f"{arm}:{-arm / 3}:0.5 {text}")
        found.append(workspace.predict(text))
    assert found[0] == found[1]


# Regret against the truth, and changes


def test_regret_by_hand() -> None:
    truth = np.array([[0.1, 0.5], [0.3, 0.2], [0.0, 1.0]])
    problem = Problem("hand", np.zeros((3, 1)), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), truth)

    class Turns:
        turn = -1

        def act(self, context: Any) -> int:
            self.turn += 1
            return [0, 1, 1][self.turn]

        def update(self, context: Any, arm: int, reward: float) -> None: ...

    record = measured(problem, play(Turns(), problem))
    assert record["reward"] == 3.0
    assert record["regret"] == pytest.approx(0.4 + 0.1 + 0.0)
    assert record["random_regret"] == pytest.approx(0.2 + 0.05 + 0.5)
    assert record["changes"] is record["false_changes"] is None


def test_the_random_regret_of_items() -> None:
    problem = problems.load("item-clicks", rounds=100, seed=0)
    record = run_once(Run(Spec("item-clicks", "item-clicks"), Spec("Uniform", "Uniform"), 100, 0))
    truth = [problem.expected_rewards[problem.rows(t)] for t in range(100)]
    assert record["random_regret"] == pytest.approx(sum(rewards.max() - rewards.mean() for rewards in truth))


class Alarmed:
    """Reports a change after some decisions."""

    def __init__(self, *after: int) -> None:
        self.after, self.decisions = after, 0

    @property
    def info(self) -> Any:
        return SimpleNamespace(changes=sum(self.decisions >= at for at in self.after))

    def act(self, context: Any) -> int:
        self.decisions += 1
        return 0

    def update(self, context: Any, arm: int, reward: float) -> None: ...


def test_changes_that_follow_no_real_change_are_false() -> None:
    problem = problems.load("one-change", rounds=8000, seed=0)
    record = measured(problem, play(Alarmed(300, 3900, 4100, 5800, 6200), problem))
    assert (record["changes"], record["false_changes"]) == (5, 3)
    stationary = measured(replace(problem, changes=()), play(Alarmed(300, 4100), problem))
    assert (stationary["changes"], stationary["false_changes"]) == (2, 2)


def test_the_bench_stores_regret_beside_reward(tmp_path: Any) -> None:
    results = bench(["cold-start", "shop"], ["AdaptiveTS"], rounds=300, runs=2, jobs=1, quiet=True, out=tmp_path)
    rows = {(row["problem"], row["agent"]): row for row in results.rows}
    runs = results.runs
    assert runs.schema.keys() >= SCHEMA.keys()
    for (problem, agent), row in rows.items():
        group = runs.filter((runs["problem"] == problem) & (runs["agent"] == agent))
        assert row["regret_share"] == pytest.approx((group["regret"] / group["random_regret"]).mean())
        assert ("false_changes" in row) == (agent == "AdaptiveTS")
        assert (group["cpu_seconds"] > 0).all()
    assert 0.8 < rows["shop", "Uniform"]["regret_share"] < 1.2
    assert f"({100 * rows['shop', 'AdaptiveTS']['regret_share']:.1f}%)" in (tmp_path / "report.md").read_text()
