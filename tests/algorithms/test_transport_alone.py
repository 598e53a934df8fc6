"""TransportTS where the context is not among the features: everything depends on the network."""

from typing import Any

import numpy as np
import pytest
from algorithms import transport_world
from algorithms.transport_world import N_ARMS, N_FEATURES, Float, algorithm_of, features_by, held, learned, play
from numpy.typing import NDArray

import lim2
from lim2.matching import transport_map
from lim2.representation import MLP
from lim2.representation.optimizers import Adam


def make(**settings: Any) -> lim2.Agent:
    return transport_world.make(**{"skip": False, **settings})


class Shifted(MLP):
    """The same network, with a constant added to every feature."""

    shift = 50.0

    def features(self, f: Any, contexts: Float) -> Float:
        return super().features(f, contexts) + self.shift

    def train(self, f: Any, contexts: Float, arms: NDArray[np.intp], rewards: Float) -> Any:
        features, g, step = super().train(f, contexts, arms, rewards)
        return features + self.shift, g, step

    def last_layer(self, f: Any) -> tuple[Float, Float]:
        weights, bias = super().last_layer(f)
        return weights, bias - self.shift * weights.sum(axis=1)


def test_what_all_contexts_share_is_no_feature() -> None:
    agents = [make(representation=network((6,)), train_every=1, tolerance=0.1) for network in (MLP, Shifted)]
    plain, shifted = (play(agent, 300) for agent in agents)
    assert plain == shifted
    assert agents[0].state.refits == agents[1].state.refits
    assert agents[0].state.network_priors == agents[1].state.network_priors > 0
    contexts = np.random.default_rng(1).normal(size=(5, N_FEATURES))
    np.testing.assert_allclose(agents[0].means(contexts), agents[1].means(contexts), atol=1e-6)
    np.testing.assert_allclose(agents[0].variances(contexts), agents[1].variances(contexts), rtol=1e-6)


def test_noise_is_not_the_residual_of_a_buffer_that_the_network_has_memorised() -> None:
    """Rewards are noise of variance 1, which a large network memorises, 60 tuples at a time."""
    rng = np.random.default_rng(2)
    network = MLP((100,), optimizer=Adam(0.01))
    agent = lim2.TransportTS(
        N_ARMS, 20, representation=network, buffer=60, batch=30, steps=5, train_every=1, skip=False, seed=0
    )
    agent.update_many(rng.normal(size=(500, 20)), rng.integers(N_ARMS, size=500), rng.normal(size=500))
    assert agent.info is not None
    assert agent.info.loss is not None
    assert agent.info.loss < 0.2, "it is there to memorise"
    noise = agent.state.posterior.b / agent.state.posterior.a
    assert ((noise > 0.3) & (noise < 1.2)).all(), "by residuals of the buffer it would be 0.01"


def test_advantage_is_by_how_much_the_network_was_closer_before_it_learned() -> None:
    agent = make(tolerance=1e9, change_threshold=np.inf)
    play(agent, 60)
    state, net, context, reward = agent.state, algorithm_of(agent).net, np.ones(N_FEATURES), 0.7
    hidden = net.features(state.network, context[None] / state.scales.size)[0]
    weights, bias = net.last_layer(state.network)
    output = state.scales.centre + state.scales.scale * (weights[1] @ hidden + bias[1])
    mean = agent.means(context)[1]
    expected = state.advantage * (1.0 - 1.0 / 30.0) + (reward - mean) ** 2 - (reward - output) ** 2
    assert learned(agent, state, context, 1, reward).advantage == pytest.approx(expected)
    with_context = make(skip=True)
    play(with_context, 60)
    assert with_context.state.advantage == 0.0


def test_a_jump_of_the_scale_hardly_changes_the_other_arms() -> None:
    """The refit that it brings takes a last layer that was trained in the old scales."""
    rng = np.random.default_rng(4)
    agent = make(hidden=(20,), buffer=40, seed=3)
    contexts = rng.normal(size=(400, N_FEATURES))
    agent.update_many(contexts, rng.integers(N_ARMS, size=400), 1.0 + 0.1 * rng.normal(size=400))
    before, state = agent.means(contexts)[:, 1:], agent.state
    after = learned(agent, state._replace(advantage=1.0), contexts[0], 0, 50.0)
    assert after.scales.scale > 10.0 * state.scales.scale
    assert after.network_priors == state.network_priors + 1
    assert np.abs(agent.algorithm.score(after, contexts).mean[:, 1:] - before).max() < 0.5


def test_drift_is_finite_where_a_batch_has_no_spread() -> None:
    for agent in (make(batch=1), make(buffer=1)):
        play(agent, 200)
        assert agent.info is not None
        assert agent.info.drift is not None
        assert agent.info.drift < 10.0
        assert agent.state.refits < 150
    agent = make()
    agent.update_many(np.ones((100, N_FEATURES)), [0, 1] * 50, [0.0, 1.0] * 50)
    assert agent.state.refits < 50


def test_the_last_layer_is_no_prior_while_nothing_has_left() -> None:
    agent = make(buffer=1000, learning_rate=0.1)
    play(agent, 200)
    state = agent.state._replace(advantage=1.0)
    after = learned(agent, state, np.ones(N_FEATURES), 0, 1.0, tolerance=0.0)
    assert (after.refits, after.memory.evicted, after.network_priors) == (state.refits + 1, 0, 0)


def test_noise_that_was_measured_stays_when_many_arms_come() -> None:
    rng = np.random.default_rng(5)
    agent = make(tolerance=0.0, steps=20, learning_rate=0.1, buffer=15)
    agent.update_many(rng.normal(size=(60, N_FEATURES)), [0, 1, 2] * 20, rng.normal(size=60))
    before = agent.state.posterior.b[1:3].copy()
    for arm in range(40):
        agent.add_arm(f"new {arm}")
    agent.update(np.ones(N_FEATURES), 0, 0.0)
    np.testing.assert_array_equal(agent.state.posterior.b[1:3], before)


def test_arms_that_were_seldom_played_at_first_are_trained_on_later() -> None:
    agents = make(), make(skip=True)
    for agent in agents:
        rng = np.random.default_rng(3)
        arms = np.append(np.zeros(28, dtype=int), rng.integers(N_ARMS, size=100))
        agent.update_many(rng.normal(size=(128, N_FEATURES)), arms, rng.normal(size=128))
    assert agents[0].state.memory.counts.tolist() == [10, 10, 10]
    assert agents[1].state.memory.counts.max() >= 28
    assert (algorithm_of(agents[0]).period, algorithm_of(agents[1]).period) == (1, 2)


@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_the_last_layer_replaces_means_where_the_network_is_better(advantage: float) -> None:
    """A refit in a round that does not train: the scales have moved by more than 0."""
    agent = make(tolerance=1e9, train_every=1, change_threshold=np.inf)
    play(agent, 100)
    state, how = agent.state, algorithm_of(agent)
    led, event = state._replace(advantage=1e9 * advantage), (np.zeros(N_FEATURES), 0, 0.0)
    before = learned(agent, led, *event, train_every=1000)  # without a refit
    after = learned(agent, led, *event, train_every=1000, tolerance=0.0)
    assert after.network_priors == state.network_priors + (advantage > 0.0)
    contexts = held(after)[0]
    raw = how.net.features(state.network, contexts / after.scales.size)
    np.testing.assert_allclose(after.origin, np.append(raw.mean(axis=0), 0.0), atol=1e-12)
    weights, bias = how.net.last_layer(state.network)
    outputs = state.scales.centre + state.scales.scale * (raw @ weights.T + bias)
    new = np.column_stack((raw - after.origin[:-1], np.ones(len(raw))))
    old = features_by(agent, state.reference, contexts) - state.origin
    informed = after.prior.a > how.a0
    assert informed.sum() >= 2
    means, outputs = new @ after.prior.mu[informed].T, outputs[:, informed]
    if advantage > 0.0:
        np.testing.assert_allclose(means, outputs, atol=1e-9)
    else:
        mapping = transport_map(old, new, how.ridge)
        np.testing.assert_allclose(after.prior.mu[informed], before.prior.mu[informed] @ mapping.T, atol=1e-9)
        assert np.abs(means - outputs).max() > 0.1
