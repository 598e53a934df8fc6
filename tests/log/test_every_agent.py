"""Every agent learns from a log as it learns by itself, and again by replay."""

from pathlib import Path

import numpy as np
import pytest
from helpers.variants import N_FEATURES, every_agent, make
from helpers.worlds import reward_of
from log.world import learned, make_log

pytestmark = pytest.mark.one_store


@every_agent
def test_replay_gives_the_same_agent(variant: str, tmp_path: Path) -> None:
    agent, plain, fresh = make(variant), make(variant), make(variant)
    contexts = list(np.random.default_rng(0).normal(size=(25, N_FEATURES)))
    with make_log(tmp_path) as log:
        for context in contexts:
            decision = log.decide(agent, context)
            assert plain.act(context) == decision.arm
            reward = reward_of(context, decision.arm)  # type: ignore[arg-type]
            assert log.reward(decision.id, reward) == "recorded"
            assert log.apply(agent) == 1
            plain.update(context, decision.arm, reward)
        assert log.replay(fresh) == 25
        snapshot = agent.snapshot()
        assert log.get(log.decide(snapshot, contexts[0]).id).status == "pending"
    assert learned(agent) == learned(fresh)
    if agent.algorithm.dated:  # a log tells the times of decisions, an agent by itself numbers them
        np.testing.assert_allclose(agent.means(contexts), plain.means(contexts), rtol=1e-6, atol=1e-9)
    else:
        plain.metadata = agent.metadata
        assert learned(agent) == learned(plain)
