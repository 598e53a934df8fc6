"""LiM2-Transport where the context is not among the features: all rests on the network."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.matching import transport_map
from lim2.representation import MLP
from lim2.representation.optimizers import Adam

N_ARMS, N_FEATURES = 3, 4
Float = NDArray[np.float64]


def make(**settings: Any) -> lim2.TransportTS:
    defaults = {"hidden": (6,), "batch": 8, "buffer": 30, "skip": False, "seed": 0}
    return lim2.TransportTS(N_ARMS, N_FEATURES, **{**defaults, **settings})


def play(agent: lim2.TransportTS, rounds: int) -> list[int]:
    rng = np.random.default_rng(0)
    arms = []
    for context in rng.normal(size=(rounds, N_FEATURES)):
        arms.append(agent.act(context))
        reward = np.sin(context[arms[-1]] * context[3]) + 0.1 * arms[-1] + 0.1 * rng.normal()
        agent.update(context, arms[-1], float(reward))
    return arms


class Shifted(MLP):
    """The same network, told with a constant more in every feature."""

    shift = 50.0

    def features(self, contexts: Float) -> Float:
        return super().features(contexts) + self.shift

    def train_step(self, contexts: Float, arms: NDArray[np.intp], rewards: Float) -> Float:
        return super().train_step(contexts, arms, rewards) + self.shift

    @property
    def head(self) -> tuple[Float, Float]:
        weights, bias = super().head
        return weights, bias - self.shift * weights.sum(axis=1)


def test_what_all_contexts_share_is_no_feature() -> None:
    agents = [make(representation=network((6,)), train_every=1, tolerance=0.1) for network in (MLP, Shifted)]
    plain, shifted = (play(agent, 300) for agent in agents)
    assert plain == shifted
    assert agents[0].refits == agents[1].refits
    assert agents[0].deferred == agents[1].deferred > 0
    contexts = np.random.default_rng(1).normal(size=(5, N_FEATURES))
    np.testing.assert_allclose(agents[0].means(contexts), agents[1].means(contexts), atol=1e-6)
    np.testing.assert_allclose(agents[0].variances(contexts), agents[1].variances(contexts), rtol=1e-6)


def test_noise_is_not_what_is_left_once_the_buffer_is_known_by_heart() -> None:
    """Rewards are noise of variance 1, which a large network learns by heart, 60 tuples at a time."""
    rng = np.random.default_rng(2)
    network = MLP((100,), optimizer=Adam(0.01))
    agent = lim2.TransportTS(
        N_ARMS, 20, representation=network, buffer=60, batch=30, steps=5, train_every=1, skip=False, seed=0
    )
    agent.update_many(rng.normal(size=(500, 20)), rng.integers(N_ARMS, size=500), rng.normal(size=500))
    assert agent.info is not None
    assert agent.info.loss is not None
    assert agent.info.loss < 0.2, "it is there to learn by heart"
    noise = agent.posterior.b / agent.posterior.a
    assert ((noise > 0.3) & (noise < 1.2)).all(), "residuals of the buffer would tell 0.01"


def test_lead_is_by_how_much_the_network_was_closer_before_it_learned() -> None:
    agent = make(tolerance=1e9, surprise=np.inf)
    play(agent, 60)
    before, context, reward = agent._lead, np.ones(N_FEATURES), 0.7
    hidden = agent.representation.features(context[None] / agent.units.size)[0]
    weights, bias = agent.representation.head
    output = agent.units.centre + agent.units.scale * (weights[1] @ hidden + bias[1])
    mean = agent.means(context)[1]
    agent.update(context, 1, reward)
    expected = before * (1.0 - 1.0 / 30.0) + (reward - mean) ** 2 - (reward - output) ** 2
    assert agent._lead == pytest.approx(expected)
    with_context = make(skip=True)
    play(with_context, 60)
    assert with_context._lead == 0.0


def test_a_jump_of_the_scale_leaves_the_other_arms_alone() -> None:
    """The refit that it brings defers to a last layer that was trained in the old units."""
    rng = np.random.default_rng(4)
    agent = make(hidden=(20,), buffer=40, seed=3)
    contexts = rng.normal(size=(400, N_FEATURES))
    agent.update_many(contexts, rng.integers(N_ARMS, size=400), 1.0 + 0.1 * rng.normal(size=400))
    before, scale, deferred = agent.means(contexts)[:, 1:], agent.units.scale, agent.deferred
    agent._lead = 1.0
    agent.update(contexts[0], 0, 50.0)
    assert agent.units.scale > 10.0 * scale
    assert agent.deferred == deferred + 1
    assert np.abs(agent.means(contexts)[:, 1:] - before).max() < 0.5


def test_drift_is_told_where_a_batch_has_no_spread() -> None:
    for agent in (make(batch=1), make(buffer=1)):
        play(agent, 200)
        assert agent.info is not None
        assert agent.info.drift is not None
        assert agent.info.drift < 10.0
        assert agent.refits < 150
    agent = make()
    agent.update_many(np.ones((100, N_FEATURES)), [0, 1] * 50, [0.0, 1.0] * 50)
    assert agent.refits < 50


def test_nothing_is_deferred_while_nothing_has_left() -> None:
    agent = make(buffer=1000, learning_rate=0.1)
    play(agent, 200)
    agent._lead = 1.0
    agent.tolerance = 0.0
    agent.update(np.ones(N_FEATURES), 0, 1.0)
    assert agent.info is not None
    assert (agent.info.evicted, agent.deferred) == (0, 0)


def test_noise_that_was_measured_stays_when_many_arms_come() -> None:
    rng = np.random.default_rng(5)
    agent = make(tolerance=0.0, steps=20, learning_rate=0.1, buffer=15)
    agent.update_many(rng.normal(size=(60, N_FEATURES)), [0, 1, 2] * 20, rng.normal(size=60))
    before = agent.posterior.b[1:3].copy()
    for arm in range(40):
        agent.add_arm(f"new {arm}")
    agent.update(np.ones(N_FEATURES), 0, 0.0)
    np.testing.assert_array_equal(agent.posterior.b[1:3], before)


def test_arms_that_were_seldom_played_at_first_are_trained_on_later() -> None:
    agents = make(), make(skip=True)
    for agent in agents:
        rng = np.random.default_rng(3)
        arms = np.append(np.zeros(28, dtype=int), rng.integers(N_ARMS, size=100))
        agent.update_many(rng.normal(size=(128, N_FEATURES)), arms, rng.normal(size=128))
    assert agents[0].memory.counts.tolist() == [10, 10, 10]
    assert agents[1].memory.counts.max() >= 28
    assert (agents[0].train_every, agents[1].train_every) == (1, 2)


@pytest.mark.parametrize("lead", [-1.0, 1.0])
def test_the_last_layer_takes_the_place_of_means_where_the_network_leads(lead: float) -> None:
    agent = make(tolerance=1e9, train_every=1, surprise=np.inf)
    play(agent, 100)
    contexts, before = agent.memory.contexts, agent.prior.mu.copy()
    old, raw = agent._features(contexts), agent._features_by(agent.representation, contexts, agent.units)
    agent._lead = lead
    agent._settle(agent.units, agent.posterior.copy(), old, raw)
    weights, bias = agent.representation.head
    outputs = agent.units.centre + agent.units.scale * (raw[:, :-1] @ weights.T + bias)
    seen = agent.prior.seen
    assert len(seen) >= 2
    means, outputs = agent._features(contexts) @ agent.prior.mu[seen].T, outputs[:, seen]
    assert agent.deferred == (lead > 0.0)
    if lead > 0.0:
        np.testing.assert_allclose(means, outputs, atol=1e-9)
    else:
        mapping = transport_map(old, agent._features(contexts), agent.ridge)
        np.testing.assert_allclose(agent.prior.mu[seen], before[seen] @ mapping.T, atol=1e-9)
        assert np.abs(means - outputs).max() > 0.1
