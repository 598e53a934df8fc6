"""NeuralUCB and NeuralTS against the literal oracle, finite differences and closed forms."""

import copy
from typing import Any

import numpy as np
import pytest
from gradient_world import (
    AGENTS,
    HIDDEN,
    N_ARMS,
    N_FEATURES,
    Array,
    both,
    context_of,
    make,
    parameters_of,
    reward_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.gradient_bandit import OracleGradientBandit

from lim2.agents.gradient_bandit import GradientBandit
from lim2.exploration.gradient_precision import Diagonal, Full
from lim2.representation.blocks import BlockNetwork, Descent

TOLERANCE = 1e-8


def next_order(agent: GradientBandit, n: int) -> list[int]:
    """The order that the agent's next update of n tuples will go by."""
    rng, agent._learn_rng = agent._learn_rng, copy.deepcopy(agent._learn_rng)
    order: list[int] = agent._shuffled(n).tolist()
    agent._learn_rng = rng
    return order


def oracle_like(agent: GradientBandit, exploration: str, **options: Any) -> OracleGradientBandit:
    """Start the oracle from the agent's parameters."""
    net = agent.network
    concatenated = net.weights.transpose(2, 0, 1).reshape(net.hidden, -1)  # (hidden, n_arms * d)
    layers = concatenated, net.bias, net.head, float(net.head_bias[0])
    options = {"iterations": agent.iterations, **{k: v for k, v in options.items() if k != "hidden"}}
    return OracleGradientBandit(*layers, net.n_arms, exploration=exploration, **options)


def close(fast: Any, slow: Any, what: str) -> None:
    np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def run_together(exploration: str, rounds: int, **options: Any) -> GradientBandit:
    """Let an agent and its oracle play, each by itself, with the same draws and orders."""
    agent = make(exploration, **options)
    oracle = oracle_like(agent, exploration, **options)
    world = np.random.default_rng(7)
    probes = np.array([context_of(world) for _ in range(3)])
    for t in range(rounds):
        context = context_of(world)
        draws = copy.deepcopy(agent._act_rng).standard_normal(N_ARMS)
        arm = agent.act(context)
        assert arm == oracle.act(context, draws), f"decision of round {t}"
        reward = reward_of(context, arm, world)
        held = t + 1 if agent.memory.bound is None else min(t + 1, agent.memory.bound)
        order = next_order(agent, held)
        agent.update(context, arm, reward)
        steps, loss = oracle.update(context, arm, reward, order)
        assert agent.trained.steps == steps, f"steps of round {t}"
        close(agent.trained.loss, loss, f"loss of round {t}")
        if t % 25 == 0 or t == rounds - 1:
            inputs = [[oracle.encode(c, k) for k in range(N_ARMS)] for c in probes]
            close(agent.means(probes), [[oracle.f(x) for x in row] for row in inputs], f"means of round {t}")
            close(agent.variances(probes), [[oracle.variance(x) for x in row] for row in inputs], f"variances, {t}")
            weights = agent.network.weights.transpose(2, 0, 1).reshape(agent.hidden, -1)
            close(weights, oracle.W1, f"weights of round {t}")
    assert len(np.unique(agent.pulls)) > 1, "a run that plays all arms alike shows little"
    return agent


SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "full": {"covariance": "full"},
    "bounded": {"history": 30},
    "bounded, full": {"history": 30, "covariance": "full"},
    "raw contexts": {"normalize": False},
    "strong decay": {"regularization": 0.5, "learning_rate": 0.05},
    "little exploration": {"nu": 0.01, "regularization": 0.1},
    "no early stop": {"stop_loss": 0.0},
    "early stop": {"stop_loss": 0.05},
}


@both
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_by_samples(exploration: str, options: dict[str, Any]) -> None:
    run_together(exploration, rounds=300, **{"iterations": 25, **options})


@both
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_by_batches(exploration: str, options: dict[str, Any]) -> None:
    rounds = 200 if not options or {"history", "covariance"} & options.keys() else 80
    run_together(exploration, rounds, **{"training": "batch", "iterations": 3, "learning_rate": 0.1, **options})


@both
def test_published_size(exploration: str) -> None:
    """100 hidden units and 1,000 steps a round, for fewer rounds."""
    agent = run_together(exploration, rounds=12, hidden=100, iterations=1000)
    assert agent.trained.steps > 100


def test_early_stop_was_used_and_so_was_the_limit() -> None:
    agent = make("ucb", stop_loss=0.05, iterations=60)
    rng = np.random.default_rng(0)
    steps = []
    for _ in range(40):
        context = context_of(rng)
        agent.update(context, 0, 0.5)
        steps.append(agent.trained.steps)
    assert steps[0] < 60
    assert agent.trained.loss <= 0.05
    agent.update(context, 0, 50.0)
    assert agent.trained.steps == 60


# Gradients, and the block form


def written_out(net: BlockNetwork, context: Array, arm: int) -> Array:
    """The gradient of an arm's output, from its factors, in the order of the network's parameters."""
    _, factors = net.forward(context[None], arm)
    gates, hidden = factors.gates[0, 0], factors.hidden[0, 0]
    own = np.zeros_like(net.weights)
    own[arm] = np.outer(context, gates)
    return np.concatenate([own.ravel(), gates, hidden, [1.0]])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), arm=st.integers(0, N_ARMS - 1))
def test_gradient_against_finite_differences(seed: int, arm: int) -> None:
    rng = np.random.default_rng(seed)
    net = BlockNetwork(N_ARMS, N_FEATURES, HIDDEN, rng)
    context = context_of(rng)
    start, step = parameters_of(net), 1e-6
    slopes = np.empty(net.size)
    for p in range(net.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[p] += sign * step
            net.restore({"parameters": moved})
            ends.append(float(net.forward(context[None], arm)[0][0, 0]))
        slopes[p] = (ends[0] - ends[1]) / (2.0 * step)
    net.restore({"parameters": start})
    before_relu = context @ net.weights[arm] + net.bias
    if np.abs(before_relu).min() > 1e-5:  # at a kink there is no derivative to compare with
        np.testing.assert_allclose(written_out(net, context, arm), slopes, atol=1e-8)


@pytest.mark.parametrize("training", ["sample", "batch"])
def test_training_step_against_finite_differences(training: str) -> None:
    rng = np.random.default_rng(3)
    net = BlockNetwork(N_ARMS, N_FEATURES, HIDDEN, rng)
    context, arm, reward, rate, decay = context_of(rng), 1, 0.7, 1e-3, 0.4
    start, step = parameters_of(net), 1e-6

    def loss(parameters: Array) -> float:
        net.restore({"parameters": parameters})
        error = float(net.forward(context[None], arm)[0][0, 0]) - reward
        return error**2 + 0.5 * decay * float(parameters @ parameters)

    slopes = np.array([(loss(start + e) - loss(start - e)) / (2.0 * step) for e in step * np.eye(net.size)])
    net.restore({"parameters": start})
    how = Descent(steps=1, rate=rate, decay=decay, stop_loss=0.0)
    if training == "sample":
        one = np.zeros(1, dtype=np.intp)
        net.train_by_samples(context[None], np.array([arm]), np.array([reward]), one, how)
    else:
        net.train_by_batches(context[None], np.array([reward]), [0, 0, 1, 1], how)
    np.testing.assert_allclose((start - parameters_of(net)) / rate, slopes, atol=1e-7)


def test_blocks_against_concatenation() -> None:
    """Every arm at once in blocks, against a network that sees the whole vector: outputs and gradients."""
    agent = make("ucb", normalize=False)
    oracle = oracle_like(agent, "ucb", normalize=False)
    rng = np.random.default_rng(5)
    for _ in range(20):
        context = context_of(rng)
        outputs, _ = agent.network.forward(context[None])
        for arm in range(N_ARMS):
            x = oracle.encode(context, arm)
            close(outputs[arm, 0], oracle.f(x), "output")
            blocks = written_out(agent.network, context, arm)
            inner = blocks[: N_ARMS * N_FEATURES * HIDDEN].reshape(N_ARMS * N_FEATURES, HIDDEN)
            close(np.concatenate([inner.T.ravel(), blocks[inner.size :]]), oracle.flat_gradient(x), "gradient")


def test_decay_reaches_the_blocks_of_other_arms_exactly() -> None:
    rng = np.random.default_rng(6)
    net = BlockNetwork(N_ARMS, N_FEATURES, HIDDEN, rng)
    others = net.weights[1:].copy()
    how = Descent(steps=2000, rate=0.1, decay=5.0, stop_loss=0.0)  # each step halves: the scale must be folded in
    context, one = context_of(rng)[None], np.zeros(1, dtype=np.intp)
    net.train_by_samples(context, one, np.ones(1), one, how._replace(steps=40))
    np.testing.assert_allclose(net.weights[1:], others * 0.5**40, rtol=1e-12)
    net.train_by_samples(context, one, np.ones(1), one, how)
    assert np.isfinite(parameters_of(net)).all()


# What is known


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_full_is_the_inverse_and_diagonal_its_diagonal(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    net = BlockNetwork(N_ARMS, 2, 3, rng)
    full, diagonal = Full(N_ARMS, 2, 3, 0.5), Diagonal(N_ARMS, 2, 3, 0.5)
    U = 0.5 * np.eye(net.size)
    for _ in range(n):
        context, arm = rng.normal(size=2), int(rng.integers(N_ARMS))
        g = written_out(net, context, arm)
        _, factors = net.forward(context[None], arm)
        for known in (full, diagonal):
            known.observe(context, arm, factors.gates[0, 0], factors.hidden[0, 0])
        U += np.outer(g, g)
    np.testing.assert_allclose(full.inverse @ U, np.eye(net.size), atol=1e-10)
    np.testing.assert_allclose(full.inverse, full.inverse.T, atol=1e-14)
    held = np.concatenate([diagonal.blocks.ravel(), diagonal.shared])
    np.testing.assert_allclose(held * np.diag(U), 1.0, rtol=1e-12)


@both
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_playing_an_arm_never_raises_a_variance_at_fixed_parameters(exploration: str, covariance: str) -> None:
    agent = make(exploration, covariance=covariance)
    agent._train = lambda slots: agent.trained  # type: ignore[method-assign]  # leave the network as it is
    rng = np.random.default_rng(8)
    probes = rng.normal(size=(10, N_FEATURES))
    for _ in range(30):
        before = agent.variances(probes)
        agent.update(context_of(rng), int(rng.integers(N_ARMS)), 0.0)
        assert (agent.variances(probes) <= before * (1.0 + 1e-12)).all()


def test_nu_scales_the_variance_and_zero_is_greedy() -> None:
    context = np.linspace(-1.0, 1.0, N_FEATURES)
    assert make("ucb", nu=0.25).variances(context) == pytest.approx(0.25 * make("ucb").variances(context))
    for exploration in AGENTS:
        agent = make(exploration, nu=0.0)
        assert {agent.act(context) for _ in range(5)} == {int(agent.means(context).argmax())}


def test_ucb_adds_one_deviation_and_ts_draws_it() -> None:
    context = np.linspace(-1.0, 1.0, N_FEATURES)
    ucb, ts = make("ucb"), make("thompson")
    mean, deviation = ucb.means(context), np.sqrt(ucb.variances(context))
    np.testing.assert_allclose(ucb._draw(ucb._look(context)), mean + deviation)
    scores = ts._draw(ts._look(np.tile(context, (20_000, 1))))
    np.testing.assert_allclose(scores.mean(axis=0), mean, atol=5 * deviation.max() / np.sqrt(20_000))
    np.testing.assert_allclose(scores.std(axis=0), deviation, rtol=0.03)
