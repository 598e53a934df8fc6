"""Features recomputed in part: what is up to date when, and that all of it, always, is the default."""

from typing import Any

import numpy as np
import pytest

import lim2
from lim2.algorithms.neural import features_of
from lim2.representation.recomputed import Recompute

SMALL: dict[str, Any] = {"hidden": (6,), "batch": 5, "buffer": 20}
LIMITED = ("LiM2", "NeuralLinearMM", "NeuralLinearNaive")


def make(name: str = "LiM2", **settings: Any) -> Any:
    return lim2.AGENTS[name](3, 4, seed=0, **{**SMALL, **settings})


def play(agent: lim2.Agent, rounds: int, seed: int = 0) -> list[int]:
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        context = rng.normal(size=4)
        chosen.append(agent.act(context))
        agent.update(context, chosen[-1], float(np.sin(context[chosen[-1]])))
    return chosen


def test_everything_in_every_round_is_the_same_as_no_cache() -> None:
    agent = make()
    play(agent, 60)
    net, f, memory = agent.algorithm.net, agent.state.network, agent.state.memory
    whole, none = features_of(net, f, memory, None, None, None)
    cached, cache = features_of(net, f, memory, Recompute(1, 1.0), None, None)
    assert none is None
    assert cache is not None
    np.testing.assert_array_equal(whole, cached)


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize(("every", "share"), [(1, 0.25), (5, 1.0), (3, 0.5)])
def test_what_is_up_to_date(name: str, every: int, share: float) -> None:
    agent = make(name, recompute_every=every, recompute_share=share)
    rng = np.random.default_rng(1)
    for t in range(150):
        context, arm = rng.normal(size=4), int(rng.integers(3)) if t > 40 else t % 2
        agent.update(context, arm, float(rng.normal()))
        state = agent.state
        rows = state.memory.rows()
        fresh = agent.algorithm.net.features(state.network, state.memory.contexts[rows])
        current = np.abs(state.cache.features - fresh).max(axis=1) <= 1e-12 * np.abs(fresh).max()
        assert current[state.memory.stamps[rows] == t].all()
        if (t + 1) % every == 0:
            assert current.sum() >= np.ceil(share * len(rows))
            if share == 1.0:
                assert current.all()
        elif t > 60:
            assert not current.all(), "the others stay as they were"


def test_nothing_stays_old_for_long() -> None:
    agent = make("NeuralLinearMM", recompute_share=0.25)
    play(agent, 50)
    before = agent.state.cache.features
    for _ in range(4):  # four quarters
        agent.update(np.ones(4), 0, 1.0)
    assert (agent.state.cache.features != before).any(axis=1).all()


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
        spreads.append(float(agent.state.posterior.cov.sum()))
    assert len(set(spreads)) == 3
    assert min(rewards) > 330  # chance: 200


@pytest.mark.parametrize("bad", [{"recompute_every": 0}, {"recompute_share": 0.0}, {"recompute_share": 1.5}], ids=str)
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        make(**bad)
