"""Features recomputed in part: what is up to date when, and that all of it, always, is the default."""

import pickle
from typing import Any

import numpy as np
import pytest

import lim2
from lim2.agents.neural import NeuralLinearFamily
from lim2.agents.recompute import Recompute

SMALL: dict[str, Any] = {"hidden": (6,), "batch": 5, "buffer": 20}
LIMITED = ("LiM2", "NeuralLinear-MM", "NeuralLinear-Naive")


def make(name: str = "LiM2", **settings: Any) -> NeuralLinearFamily:
    agent = lim2.AGENTS[name](3, 4, seed=0, **{**SMALL, **settings})
    assert isinstance(agent, NeuralLinearFamily)
    return agent


def play(agent: lim2.Agent, rounds: int, seed: int = 0) -> list[int]:
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        context = rng.normal(size=4)
        chosen.append(agent.act(context))
        agent.update(context, chosen[-1], float(np.sin(context[chosen[-1]])))
    return chosen


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("settings", [{}, {"intercept": True, "refresh": "all"}, {"steps": 2}], ids=str)
def test_everything_in_every_round_is_the_default(name: str, settings: dict[str, Any]) -> None:
    default, explicit = make(name, **settings), make(name, **settings)
    assert default._recompute is None
    explicit._recompute = Recompute(1, 1.0)
    assert play(explicit, 120) == play(default, 120)
    np.testing.assert_array_equal(explicit.posterior.cov, default.posterior.cov)


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize(("every", "share"), [(1, 0.25), (5, 1.0), (3, 0.5)])
def test_what_is_up_to_date(name: str, every: int, share: float) -> None:
    """Against a list that remembers the round in which each tuple's features were last due."""
    agent = make(name, recompute_every=every, recompute_share=share)
    recompute = agent._recompute
    assert recompute is not None
    rng = np.random.default_rng(1)
    for t in range(150):
        context, arm = rng.normal(size=4), int(rng.integers(3)) if t > 40 else t % 2
        agent.update(context, arm, float(rng.normal()))
        held = len(agent.memory)
        fresh = agent._features(agent.memory.contexts)
        current = np.abs(recompute._features - fresh).max(axis=1) <= 1e-12 * np.abs(fresh).max()
        newest = agent.memory.stamps == t
        assert current[newest].all()
        if (t + 1) % every == 0:
            assert current.sum() >= np.ceil(share * held)
            if share == 1.0:
                assert current.all()
        elif t > 60:
            assert not current.all(), "the others stay as they were"
    assert agent.nbytes > make(name).nbytes


def test_nothing_stays_old_for_long() -> None:
    agent = make("NeuralLinear-MM", recompute_share=0.25)
    play(agent, 50)
    recompute = agent._recompute
    assert recompute is not None
    before = recompute._features.copy()
    for _ in range(4):  # four quarters
        agent.update(np.ones(4), 0, 1.0)
    assert (recompute._features != before).any(axis=1).all()


def test_less_computing_changes_beliefs_a_little_and_not_the_quality() -> None:
    rewards, spreads = [], []
    for settings in ({}, {"recompute_every": 10}, {"recompute_share": 0.1}):
        agent = make(hidden=(30,), buffer=150, batch=48, **settings)
        rng, total = np.random.default_rng(3), 0.0
        for _ in range(600):
            context = rng.normal(size=4)
            arm = agent.act(context)
            reward = float(arm == int(context[0] > 0) + int(context[1] > 0))
            agent.update(context, arm, reward)
            total += reward
        rewards.append(total)
        spreads.append(float(agent.posterior.cov.sum()))
    assert len(set(spreads)) == 3
    assert min(rewards) > 330  # chance: 200


def test_copies_go_on() -> None:
    agent = make(recompute_every=4, recompute_share=0.3)
    play(agent, 50)
    assert play(pickle.loads(pickle.dumps(agent)), 50, seed=1) == play(agent, 50, seed=1)


@pytest.mark.parametrize("bad", [{"recompute_every": 0}, {"recompute_share": 0.0}, {"recompute_share": 1.5}], ids=str)
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        make(**bad)
