"""`lim2 log` and `lim2 evaluate`: as the library says, and nothing is changed without a word."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands.shell import read, run

import lim2

N = 60


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def agent() -> lim2.Agent:
    return lim2.LinearTS(arms=["red", "blue"], n_features=2, epsilon=0.4, seed=0)


@pytest.fixture
def decisions(tmp_path: Path, agent: lim2.Agent) -> Path:
    """A log of 60 decisions, of which 50 have rewards, and an agent that has learned them all."""
    rng, path = np.random.default_rng(0), tmp_path / "decisions.db"
    with lim2.DecisionLog(path) as log:
        for t, context in enumerate(rng.normal(size=(N, 2))):
            decision = log.decide(agent, context, key=f"user{t % 3}")
            if t < 50:
                log.reward(decision.id, float(decision.arm == "red"))
        log.apply(agent)
        log.publish(agent)
    agent.save(tmp_path / "agent.lim2")
    return path


def test_state(decisions: Path) -> None:
    for address in (decisions, f"sqlite:{decisions}"):
        found = read("log", "state", address)
        assert (found["pending"], found["rewards"], found["position"], found["pruned"]) == (10, 50, 50, 0)
        assert found["settings"] == {"expire_after": None, "default_reward": None, "aggregate": None}
        assert (found["model"]["version"], found["model"]["position"]) == (1, 50)
    code, text = run("log", "state", decisions)
    assert code == 0
    assert "10 decisions, the oldest for" in text
    assert "version 1, at position 50" in text


def test_nothing_is_cut_in_a_pipe_or_a_narrow_terminal(decisions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lim2.DecisionLog(decisions, read_only=True) as log:
        first = log.pending()[0].id
    monkeypatch.delenv("COLUMNS")
    assert first in run("log", "tail", decisions, "-n", 10)[1]  # in one piece
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    monkeypatch.setenv("COLUMNS", "40")
    text = run("log", "tail", decisions, "-n", 1)[1]
    assert "reward" in text
    assert "pending" in text


def test_tail(decisions: Path, tmp_path: Path) -> None:
    code, text = run("log", "tail", decisions, "-n", 2, "--json")
    rows = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert [row["key"] for row in rows] == ["user1", "user2"]
    assert all(row["status"] == "pending" and row["arm"] in ("red", "blue") for row in rows)
    with lim2.DecisionLog(decisions, read_only=True) as log:
        assert rows[-1]["context"] == log.get(rows[-1]["id"]).context.tolist()
    code, text = run("log", "tail", decisions, "-n", 15)
    assert code == 0
    assert text.count("pending") == 10
    assert max(map(len, text.splitlines()[1:])) <= 80  # the first is the path


def test_proof_agrees_with_the_library(decisions: Path, agent: lim2.Agent, tmp_path: Path) -> None:
    (tmp_path / "myrules.py").write_text("def first(context, arms):\n    return arms[0]\n")
    with lim2.DecisionLog(decisions, read_only=True) as log:
        expected = {"always:red": log.proof("red"), "uniform": log.proof("uniform"), "agent.lim2": log.proof(agent)}
        expected["first"] = expected["myrules:first"] = log.proof("first")
    for rule, proof in expected.items():
        found = read("log", "proof", decisions, rule)
        assert (found["gain"], found["interval"]) == (proof.gain, list(proof.interval)), rule
        assert found["verdict"] == proof.verdict
    code, text = run("log", "proof", decisions, "always:red", "--reward-range", "0,1")
    assert code == 0 and str(expected["always:red"]).splitlines()[0] in text
    assert run("log", "proof", decisions, "always")[0] != 0
    assert run("log", "proof", decisions, "uniform", "--reward-range", "1")[0] != 0


def test_evaluate_agrees_with_the_library(decisions: Path, agent: lim2.Agent, tmp_path: Path) -> None:
    (tmp_path / "myrules.py").write_text("def first(context, arms):\n    return arms[0]\n")
    with lim2.DecisionLog(decisions, read_only=True) as log, pytest.warns(UserWarning):
        expected = {
            "always:red": lim2.evaluate(log, lambda *_: "red"),
            "myrules:first": lim2.evaluate(log, lambda _, arms: arms[0]),
            "uniform": lim2.evaluate(log, np.full((50, 2), 0.5)),
            "agent.lim2": lim2.evaluate(log, agent),
        }
    for policy, found in expected.items():
        for command in (("evaluate",), ("log", "evaluate")):
            shown = read(*command, decisions, policy)
            assert shown["dr"]["value"] == pytest.approx(found.dr.value)
            assert shown["n"] == found.n == 50
            learned = any("has learned from this log" in text for text in shown["warnings"])
            assert learned == (policy == "agent.lim2")
    code, text = run("log", "evaluate", decisions, "always:red", "--last", 30, "--level", 0.9, "--reward-range", "0,1")
    assert code == 0
    assert "20 decisions, effective sample size" in text
    assert "90% from" in text
    assert "warning: poor overlap" in text


def test_evaluate_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x_a": rng.normal(size=N), "arm": ["red", "blue"] * (N // 2), "click": [1, 0] * (N // 2)})
    frame.with_columns(p=pl.lit(0.5)).write_csv(tmp_path / "clicks.csv")
    columns = ("--arm-column", "arm", "--reward-column", "click", "--context", "x_")
    found = read("evaluate", "clicks.csv", "always:red", *columns, "--propensity", "p")
    assert found["snips"]["value"] == pytest.approx(1.0)
    code, text = run("evaluate", "clicks.csv", "always:red", *columns)
    assert code == 2
    assert "name its column with --propensity" in text


def test_replay_makes_the_same_agent_again(decisions: Path, agent: lim2.Agent, tmp_path: Path) -> None:
    found = read("log", "replay", decisions, "--like", "agent.lim2", "--decisions", "--out", "again.lim2")
    assert found == {"learned": 50, "rounds": 50, "position": 50, "file": "again.lim2"}
    assert lim2.load(tmp_path / "again.lim2").to_bytes() == agent.to_bytes()
    code, text = run("log", "replay", decisions, "--like", "agent.lim2", "--decisions", "--out", "again.lim2")
    assert "Every decision was made again" in text
    code, text = run("log", "replay", decisions, "--agent", "AdaptiveTS", "--seed", 1, "--out", "other.lim2")
    assert code == 0
    assert "50 rewards learned, up to position 50: other.lim2" in text
    assert lim2.load(tmp_path / "other.lim2").name == "AdaptiveTS"


def test_prune_deletes_what_was_learned_and_asks_first(decisions: Path) -> None:
    code, text = run("log", "prune", decisions, "--keep", 20, answer="n\n")
    assert code == 130
    assert read("log", "state", decisions)["pruned"] == 0
    assert "Delete settled decisions from" in text
    assert read("log", "prune", decisions, "--keep", 20, "--learned", 10, "--yes") == {"deleted": 10, "left": 40}
    assert read("log", "prune", decisions, "--keep", 20, "--learned", "agent.lim2", "--yes")["deleted"] == 20
    assert read("log", "prune", decisions, "--keep", "1d", "--yes") == {"deleted": 0, "left": 20}
    code, text = run("log", "prune", decisions, "--keep", 0, "--yes")
    assert code == 0
    assert "20 events deleted, 0 are left" in text
    state = read("log", "state", decisions)
    assert (state["pruned"], state["pending"]) == (50, 10)
    code, text = run("log", "replay", decisions, "--like", "agent.lim2", "--out", "again.lim2")
    assert code == 2
    assert "begins after position 50" in text
    assert "--partial" in text


def test_erase_forgets_a_person(decisions: Path) -> None:
    assert run("log", "erase", decisions, "user1", answer="n\n")[0] == 130
    code, text = run("log", "erase", decisions, "user1", answer="y\n")
    assert code == 0
    assert "20 decisions of 'user1' erased" in text
    assert read("log", "erase", decisions, "user1", "--yes") == {"erased": 0}
    assert read("log", "erase", decisions, "user2", "--yes") == {"erased": 20}
    assert read("log", "state", decisions)["erased"] == 33


def test_errors_have_status_2_and_make_nothing(decisions: Path, tmp_path: Path) -> None:
    with lim2.DecisionLog("other.db") as other:
        assert other.position == 0
    for words, message in (
        (("log", "state", "none.db"), "there is no log none.db"),
        (("log", "tail", "none.db"), "there is no log none.db"),
        (("log", "erase", "none.db", "x", "--yes"), "there is no log none.db"),
        (("log", "prune", "none.db", "--keep", "1", "--yes"), "there is no log none.db"),
        (("log", "prune", decisions, "--keep", "soon"), "--keep must be a number of decisions, or a time"),
        (("log", "prune", decisions, "--keep", "1", "--learned", "51", "--yes"), "at most 50"),
        (("log", "prune", "other.db", "--keep", "1"), "the log has no published agent"),
        (("log", "prune", "other.db", "--keep", "1", "--learned", "agent.lim2"), "has not learned from this log"),
        (("log", "evaluate", decisions, "nobody"), "POLICY must be the file of a saved agent"),
        (("log", "evaluate", decisions, "nobody:here"), "there is no policy 'nobody:here'"),
        (("log", "evaluate", decisions, "always:green"), "the arm 'green' was not eligible"),
        (("log", "evaluate", decisions, "uniform", "--reward-range", "1"), "--reward-range must be LOW,HIGH"),
        (("log", "replay", decisions, "--agent", "Nobody", "--out", "x.lim2"), "--agent must be one of"),
        (("evaluate", "clicks.txt", "uniform", "--propensity", "p"), "there is no file"),
    ):
        code, text = run(*words)
        assert (code, text.startswith("error: ")) == (2, True), text
        assert message in text
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "x.lim2").exists()
