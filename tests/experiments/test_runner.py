from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import lim2
from lim2 import problems
from lim2.experiments import PlanError
from lim2.experiments.delayed import NoArmError
from lim2.experiments.feedback import Feedback
from lim2.experiments.names import Spec, agent_named, given
from lim2.experiments.plan import Run
from lim2.experiments.runner import draw, make, measured, play, run_once
from lim2.experiments.store import SCHEMA, Store, read

WHEEL = Spec("wheel", "wheel", {"delta": 0.8})


@pytest.mark.parametrize("rounds", [1, 7, 300])
def test_a_run_is_what_a_bare_loop_does(rounds: int) -> None:
    problem = problems.load("wheel", rounds=rounds, seed=3, delta=0.8)
    agent = lim2.LiM2(problem.n_arms, problem.n_features, seed=3)
    reward = regret = 0.0
    optimal = 0
    rewards = []
    for t in range(rounds):
        arm = agent.act(problem.contexts[t])
        agent.update(problem.contexts[t], arm, problem.rewards[t, arm])
        reward += problem.rewards[t, arm]
        regret += problem.best_rewards[t] - problem.expected_rewards[t, arm]
        optimal += problem.expected_rewards[t, arm] == problem.expected_rewards[t].max()
        rewards.append(reward)
    record = run_once(Run(WHEEL, Spec("LiM2", "LiM2"), rounds, 3))
    assert record["status"] == "ok", record.get("error")
    assert record["rounds"] == rounds
    assert record["reward"] == pytest.approx(reward, rel=1e-12)
    assert record["regret"] == pytest.approx(regret, rel=1e-9, abs=1e-9)
    assert record["optimal_rate"] == optimal / rounds
    assert record["agent_mb"] == pytest.approx(agent.nbytes / 1e6)
    assert record["curve_round"][-1] == rounds
    at = np.array(record["curve_round"]) - 1
    np.testing.assert_allclose(record["curve_reward"], np.array(rewards)[at])


def test_ticks_tell_how_far_it_is() -> None:
    problem = problems.load("linear", rounds=500, seed=0)
    ticks: list[tuple[int, float]] = []
    played = play(lim2.Uniform(5, 20, seed=0), problem, lambda done, reward: ticks.append((done, reward)))
    assert ticks[-1][0] == 500
    assert ticks[-1][1] == pytest.approx(measured(problem, played)["reward"])
    assert [done for done, _ in ticks] == sorted({done for done, _ in ticks})


def test_times_are_positive_and_ordered() -> None:
    record = run_once(Run(WHEEL, Spec("LinearTS", "LinearTS"), 200, 0))
    for word in ("act", "update"):
        quantiles = [record[f"{word}_us_{name}"] for name in ("p50", "p90", "p99", "max")]
        assert quantiles[0] > 0
        assert quantiles == sorted(quantiles)
    assert record["us_per_round"] == pytest.approx(record["act_us_mean"] + record["update_us_mean"])


class Second:
    """Good enough as an index, but no number."""

    def __index__(self) -> int:
        return 1


class Stubborn:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def act(self, context: Any) -> Any:
        return self.answer

    def update(self, context: Any, arm: int, reward: float) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (-1, "act returned -1 in round 1"),
        (5, "act returned 5 in round 1"),
        (0.5, "act returned 0.5, a float, in round 1"),
        (2.0, "act returned 2.0, a float, in round 1"),
        (True, "act returned True, a bool, in round 1"),
        (np.bool_(False), "a bool, in round 1"),
        (None, "act returned None, a NoneType, in round 1"),
        ("left", "act returned 'left', a str, in round 1"),
        ([1], r"act returned \[1\], a list, in round 1"),
        ((1, 2), r"act returned \(1, 2\), a tuple, in round 1"),
        (np.array([1]), r"act returned array\(\[1\]\), a ndarray, in round 1"),
        (np.nan, "act returned nan, a float, in round 1"),
        (slice(None), "a slice, in round 1"),
        ({}, "a dict, in round 1"),
    ],
)
@pytest.mark.parametrize("feedback", [Feedback(), Feedback(delay=2, batch=3)])
def test_what_is_no_arm_is_said_whatever_it_is(answer: Any, error: str, feedback: Feedback) -> None:
    problem = problems.load("wheel", rounds=10, seed=0)
    with pytest.raises(NoArmError, match=f"{error}.*expected a whole number from 0 to 4"):
        play(Stubborn(answer), problem, feedback=feedback)


@pytest.mark.parametrize("answer", [1, np.int64(1), np.uint8(1), np.array(1), Second()])
def test_whatever_is_a_whole_number_is_an_arm(answer: Any) -> None:
    problem = problems.load("wheel", rounds=10, seed=0)
    assert play(Stubborn(answer), problem).arms.tolist() == [1] * 10


def test_a_failure_of_the_agent_itself_stays_what_it_is() -> None:
    class Late(Stubborn):
        def update(self, context: Any, arm: int, reward: float) -> None:
            raise IndexError("of its own")

    with pytest.raises(IndexError, match="of its own"):
        play(Late(2), problems.load("wheel", rounds=10, seed=0))


def test_a_failure_is_a_row_with_a_traceback(outside: Path) -> None:
    record = run_once(Run(WHEEL, agent_named("outside_agents:Faulty"), 50, 0))
    assert record["status"] == "failed"
    assert "RuntimeError: no more memory for marbles" in record["error"]
    assert "outside_agents.py" in record["error"]


def test_warnings_are_kept_once(outside: Path) -> None:
    record = run_once(Run(WHEEL, agent_named("outside_agents:Wordy"), 50, 0))
    assert record["status"] == "ok"
    assert len(record["warnings"]) == 1
    assert record["warnings"][0].startswith("UserWarning: this is odd (outside_agents.py:")


def test_an_agent_without_its_methods() -> None:
    record = run_once(Run(WHEEL, given(dict), 10, 0))
    assert record["status"] == "failed"
    with pytest.raises(PlanError, match="expected a name, or a function"):
        given(3)  # type: ignore[arg-type]


def test_the_same_draw_is_kept_and_another_is_not() -> None:
    first = draw(WHEEL, 100, 0)
    assert draw(WHEEL, 100, 0) is first
    other = draw(Spec("wheel", "wheel", {"delta": 0.5}), 100, 0)
    assert not np.array_equal(other.expected_rewards, first.expected_rewards)
    assert draw(WHEEL, 100, 1).contexts.tolist() != first.contexts.tolist()


def test_problems_of_functions_and_tables(outside: Path) -> None:
    coins = draw(Spec("coins", "outside_agents:coins", {"stake": 2.0}), 30, 0)
    assert coins.rewards.max() == 2.0
    (outside / "own.csv").write_text("x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(20)))
    own = draw(Spec("own", f"csv:{outside / 'own.csv'}", {"label": "y"}), "all", 0)
    assert isinstance(own, problems.Problem)
    assert (own.rounds, own.n_arms) == (20, 2)
    record = run_once(Run(Spec("x", "json:dumps"), Spec("LiM2", "LiM2"), 10, 0))
    assert record["status"] == "failed"


def test_time_is_kept_along_the_way() -> None:
    record = run_once(Run(WHEEL, Spec("LinearTS", "LinearTS"), 300, 0))
    seconds = np.array(record["curve_seconds"])
    assert len(seconds) == len(record["curve_round"])
    assert (np.diff(seconds) > 0).all()
    assert seconds[-1] * 1e6 / 300 == pytest.approx(record["us_per_round"], rel=1.0)  # less the warm-up


class Noting(lim2.Agent):
    """Notes something of its own."""

    def __init__(self, n_arms: int, n_features: int, seed: int | None = None) -> None:
        super().__init__(lim2.algorithms.Uniform(n_arms, n_features, seed=seed))

    @property
    def traces(self) -> dict[str, list[float]]:
        return {"pulls": self.pulls.astype(float).tolist()}


def test_what_an_agent_notes_is_kept(tmp_path: Path) -> None:
    run = Run(WHEEL, given(Noting), 50, 0)
    record = run_once(run)
    store = Store(tmp_path)
    store.put(run, record)
    [row] = read([tmp_path / "runs" / run.file])["traces"].to_list()
    assert [trace["name"] for trace in row] == ["pulls"]
    assert sum(row[0]["values"]) == 50


def test_files_of_other_versions_are_read(tmp_path: Path) -> None:
    run = Run(WHEEL, Spec("Uniform", "Uniform"), 20, 0)
    Store(tmp_path).put(run, run_once(run))
    path = tmp_path / "runs" / run.file
    other = pl.read_parquet(path).drop("traces", "curve_seconds").with_columns(yet_unknown=pl.lit(1))
    other.write_parquet(path)
    frame = read([path])
    assert frame.schema == pl.Schema(SCHEMA)
    assert frame["curve_seconds"].null_count() == 1


def test_texts_are_read_by_the_text_network() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 30, size=(20, 60))
    problem = problems.Problem("texts", tokens, rng.random((20, 2)), n_tokens=30)
    agent: Any = make(Spec("LiM2", "LiM2"), problem, 0)
    assert agent.get_params()["representation"].n_tokens == 30
    assert play(agent, problem).arms.shape == (20,)
