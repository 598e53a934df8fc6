"""Files of LinearTS of lim2 0.2 with settings that it no longer has: they open as AdaptiveTS(hidden=())."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from persistence import saved_agents as saved

import lim2
from lim2.persistence.container import pack, unpack

DATA = Path(__file__).parents[1] / "data"
SAVED = sorted((DATA / "linear-ts-0.2").glob("*.lim2"))
SMALL = [DATA / "agents-v2" / f"{name}.lim2" for name in saved.CONVERTED]  # 25 rounds
by_name = pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)


def means_of(opened: Any, said: dict[str, Any]) -> Any:
    if "items" in said:
        return np.array([opened.means(context, said["items"]) for context in said["contexts"]])
    if isinstance(opened, lim2.Bandit):
        return np.array([opened.decide(context).means for context in said["contexts"]])
    return opened.means(said["contexts"])


def agent_in(opened: Any) -> lim2.Agent:
    return opened if isinstance(opened, lim2.Agent) else agent_in(opened.agent)


def assert_near(found: Any, before: Any, correlation: float, same: float) -> None:
    """Compare means by context: their correlation, and the share of contexts with the same best arm."""
    assert np.corrcoef(found.ravel(), before.ravel())[0, 1] >= correlation
    assert np.mean(found.argmax(axis=1) == before.argmax(axis=1)) >= same


@by_name
def test_an_opened_agent_knows_what_the_saved_one_knew(path: Path) -> None:
    said, opened = json.loads(path.with_suffix(".json").read_text()), lim2.load(path)
    agent = agent_in(opened)
    assert agent.name == "AdaptiveTS" and agent.get_params()["hidden"] == ()
    if path.stem == "new":
        assert agent.state.refits == 0
    else:
        assert_near(means_of(opened, said), np.array(said["means"]), 0.997, 0.96)
        assert agent.rounds in (400, 500) and agent.state.memory.stored == agent.rounds


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_the_samples_of_format_2_open(path: Path) -> None:
    said, opened = json.loads(path.with_suffix(".json").read_text()), lim2.load(path)
    assert_near(opened.means(saved.contexts_of(opened, 8, 7)), np.array(said["before"]), 0.99, 1.0)
    assert opened.metadata == said["metadata"]


@by_name
def test_an_opened_agent_goes_on(path: Path) -> None:
    """It learns, refits and is saved again; a new arm starts in the scale of the others, also before any reward."""
    agent = agent_in(lim2.load(path))
    assert lim2.from_bytes(agent.to_bytes()).to_bytes() == agent.to_bytes()
    if agent.algorithm.n_item_features is None:
        before = agent.state.rewards.mean
        agent.add_arm("new")
        agent.remove_arm(agent.arms[0])
        if path.stem != "new":
            context = agent.state.moments.mean
            assert agent.means(context)[-1] == pytest.approx(before)
            scales = agent.algorithm.score(agent.state, context).scale
            assert scales[-1] > scales[:-1].max()
    rows = np.random.default_rng(0).normal(size=(300, *agent.context_shape))
    if agent.state.moments.weight:
        rows = agent.state.moments.mean + agent.state.moments.std * rows
    refits = agent.state.refits
    for row in rows:
        agent.update(row, agent.act(row), agent.state.rewards.mean)
    assert agent.state.refits > refits + 1
    assert lim2.from_bytes(agent.to_bytes()).to_bytes() == agent.to_bytes()


def test_more_columns_than_it_has_features_are_narrowed_to_those_that_explain_most() -> None:
    header, arrays = unpack((DATA / "linear-ts-0.2" / "forget.lim2").read_bytes())
    rng, n, d, n_arms = np.random.default_rng(0), 3000, 300, 3
    contexts, weights = rng.normal(size=(n, d)), np.zeros((n_arms, d))
    weights[:, -5:] = rng.normal(size=(n_arms, 5))  # the last columns matter
    Z = np.column_stack((contexts, np.ones(n)))
    for arm in range(n_arms):
        rows, rewards = Z[arm::n_arms], contexts[arm::n_arms] @ weights[arm]
        new = {"gram": rows.T @ rows, "cross": rewards @ rows, "squares": rewards @ rewards, "weight": len(rows)}
        for name, value in new.items():
            array = np.asarray(value, dtype=float)
            arrays.setdefault("new/" + name, np.zeros((n_arms, *array.shape)))[arm] = array
    arrays |= {f"state/sums/{name}": arrays.pop(f"new/{name}") for name in ("gram", "cross", "squares", "weight")}
    arrays |= {
        "state/posterior/mu": np.zeros((n_arms, d + 1)),
        "state/posterior/cov": np.tile(np.eye(d + 1), (3, 1, 1)),
    }
    agent = lim2.from_bytes(pack({**header, "settings": {**header["settings"], "n_features": d}}, arrays))
    assert set(range(d - 5, d)) <= set(agent.state.view.order[:10].tolist())
    found, expected = agent.means(contexts[:100]), contexts[:100] @ weights.T
    assert_near(found, expected, 0.95, 0.85)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("forget", {"state/sums/gram": np.zeros((3, 9, 9))}),
        ("forget", {"state/sums/weight": np.array([1.0, -1.0, 1.0])}),
        ("scaled", {"state/moments/origin": np.zeros(5)}),
        ("scaled", {"state/sums/cross": np.full((3, 5), np.nan)}),
    ],
)
def test_sums_that_cannot_be_are_refused(name: str, change: dict[str, Any]) -> None:
    header, arrays = unpack((DATA / "linear-ts-0.2" / f"{name}.lim2").read_bytes())
    assert set(change) <= set(arrays)
    with pytest.raises(lim2.LoadError):
        lim2.from_bytes(pack(header, arrays | change))


def test_the_settings_name_what_replaces_them() -> None:
    for setting in ("scaled", "standardize", "forget"):
        with pytest.raises(TypeError, match=r"AdaptiveTS\(hidden=\(\)\)"):
            lim2.LinearTS(2, 2, **{setting: True})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"AdaptiveTS\(hidden=\(\)\)"):
        lim2.Bandit(["a", "b"], algorithm="LinearTS", scaled=True)
