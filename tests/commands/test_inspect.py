"""`lim2 inspect`: what is said is true of the agent that was saved."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands.shell import read, run

import lim2
from lim2.representation import MLP


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def taught(agent: Any, rounds: int = 40) -> Any:
    rng = np.random.default_rng(0)
    for context in rng.normal(size=(rounds, 2)):
        arm = agent.act(context)
        agent.update(context, arm, float(context[0] > 0) if arm == agent.arms[0] else 0.5)
    return agent


def test_an_agent(tmp_path: Path) -> None:
    agent = taught(lim2.LiM2(arms=["red", "blue"], n_features=2, representation=MLP((8,)), buffer=30, seed=0))
    agent.metadata["owner"] = "shop"
    agent.save(tmp_path / "a.lim2")
    found = read("inspect", tmp_path / "a.lim2")
    assert found["algorithm"] == "LiM2"
    assert found["rounds"] == 40
    assert found["bytes"] == (tmp_path / "a.lim2").stat().st_size
    assert found["state_bytes"] == lim2.load(tmp_path / "a.lim2").nbytes
    assert set(found["changed"]) == {"arms", "n_features", "representation", "buffer", "seed"}
    assert found["settings"]["buffer"] == 30
    assert found["memory"] == {"held": 30, "capacity": 30}
    assert found["log"] == {"id": None, "position": None, "event": None}
    assert found["metadata"] == {"owner": "shop"}
    assert [(one["arm"], one["pulls"]) for one in found["arms"]] == list(
        zip(agent.arms, agent.pulls.tolist(), strict=True)
    )
    memory = agent.state.memory
    rows = memory.contexts[memory.rows()]
    beliefs = found["beliefs"]["by_arm"]
    assert [one["mean"] for one in beliefs] == pytest.approx(agent.means(rows).mean(axis=0).tolist())
    assert sum(one["share"] for one in beliefs) == pytest.approx(1.0)
    code, text = run("inspect", tmp_path / "a.lim2")
    assert code == 0
    for word in ("LiM2", "buffer=30", "30 tuples, at most 30", '{"owner": "shop"}', "red", "blue", "none, it has not"):
        assert word in text
    assert max(map(len, text.splitlines()[1:])) <= 80  # the first is the path


def test_beliefs_in_a_context_and_the_position_in_a_log(tmp_path: Path) -> None:
    agent = lim2.LinearTS(n_arms=2, n_features=2, seed=0)
    with lim2.DecisionLog(tmp_path / "d.db") as log:
        log.reward(log.decide(agent, [1.0, 2.0]).id, 1.0)
        log.apply(agent)
        agent.save(tmp_path / "a.lim2")
        found = read("inspect", tmp_path / "a.lim2", "--context", "[1, 2]")
        assert (found["log"]["id"], found["log"]["position"]) == (log.id, 1)
    by_arm = found["beliefs"]["by_arm"]
    assert [one["mean"] for one in by_arm] == pytest.approx(agent.means([1.0, 2.0]).tolist())
    assert [one["share"] for one in by_arm] == pytest.approx(agent.propensities([1.0, 2.0]).tolist())
    assert read("inspect", tmp_path / "a.lim2")["beliefs"] is None
    assert "give --context for expected rewards" in run("inspect", tmp_path / "a.lim2")[1]
    assert "propensity" in run("inspect", tmp_path / "a.lim2", "--context", "[1, 2]")[1]


def test_bandits_and_items(tmp_path: Path) -> None:
    arms, shop = lim2.Bandit(arms=["a", "b"], seed=0), lim2.Bandit(seed=0)
    items = {"sku1": {"price": 1.0}, "sku2": {"price": 2.0}}
    for t in range(6):
        arms.update(arms.decide({"t": t, "country": "AT"}), 1.0)
        shop.update(shop.decide({"t": t}, items), 0.5)
    arms.save(tmp_path / "arms.lim2")
    shop.save(tmp_path / "shop.lim2")
    vectors = lim2.AdaptiveTS(n_features=2, n_item_features=1, seed=0)
    vectors.update([0.1, 0.2], [0.3], 1.0)
    vectors.save(tmp_path / "vectors.lim2")
    found = read("inspect", tmp_path / "arms.lim2")
    assert (found["kind"], found["context"], len(found["arms"])) == ("Bandit", "raw", 2)
    assert [(one["of"], one["key"], one["kind"], one["count"]) for one in found["keys"]] == [
        ("context", "t", "number", 6),
        ("context", "country", "category", 6),
    ]
    given = read("inspect", tmp_path / "shop.lim2", "--context", '{"t": 1}', "--items", '{"x": {"price": 3}}')
    assert [one["arm"] for one in given["beliefs"]["by_arm"]] == ["x"]
    found = read("inspect", tmp_path / "vectors.lim2")
    assert (found["kind"], found["arms"], found["context"]) == ("ItemAgent", None, {"context": 2, "item": 1})
    assert found["beliefs"]["of_items"]["mean"] == pytest.approx(float(vectors.means([0.1, 0.2], [[0.3]])[0]))
    for name in ("arms", "shop", "vectors"):
        code, text = run("inspect", tmp_path / f"{name}.lim2")
        assert code == 0
        assert max(map(len, text.splitlines()[1:])) <= 80  # the first is the path


def test_many_arms_are_cut_on_the_screen_only(tmp_path: Path) -> None:
    lim2.LinearTS(n_arms=50, n_features=1, seed=0).save(tmp_path / "a.lim2")
    assert "20 more: use --json to see all" in run("inspect", tmp_path / "a.lim2")[1]
    assert len(read("inspect", tmp_path / "a.lim2")["arms"]) == 50


def test_what_cannot_be_shown_is_an_error_of_status_2(tmp_path: Path) -> None:
    (tmp_path / "text.lim2").write_text("hello, this is no agent at all")
    lim2.LinearTS(n_arms=2, n_features=2).save(tmp_path / "a.lim2")
    for words, message in (
        ((tmp_path / "none.lim2",), "there is no file"),
        ((tmp_path / "text.lim2",), "this is not a file written by agent.save"),
        ((tmp_path / "a.lim2", "--context", "[1"), "--context must be valid JSON"),
        ((tmp_path / "a.lim2", "--context", "[1]"), "a context must be a 1-D array of 2 numbers"),
        ((tmp_path / "a.lim2", "--items", "{}"), "--items needs --context"),
    ):
        code, text = run("inspect", *words)
        assert code == 2
        assert text.startswith("error: ")
        assert message in text
