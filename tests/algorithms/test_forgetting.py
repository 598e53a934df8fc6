"""Forgetting against its closed form: Bayesian regression in which a tuple of age s counts (1 - forget)^s."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.algorithms.neural import Neural
from lim2.exploration.posterior import Posterior, relax
from lim2.memory import empty, sample, store
from lim2.representation import MLP, RMSProp

Float = NDArray[np.float64]

FORGET, ROUNDS = 0.03, 90
RNG = np.random.default_rng(0)
CONTEXTS = RNG.normal(size=(ROUNDS, 3))
ARMS = RNG.integers(2, size=ROUNDS)
REWARDS = CONTEXTS[:, 0] + 0.3 * RNG.normal(size=ROUNDS)
WEIGHTS = (1.0 - FORGET) ** np.arange(ROUNDS - 1, -1, -1.0)


class Weighted:
    """Normal-inverse-gamma regression with weights, by explicit inverses."""

    def __init__(self, z: Float, r: Float, w: Float, precision: float, mean: Float | None = None) -> None:
        mean = np.zeros(z.shape[1]) if mean is None else mean
        information = precision * np.eye(z.shape[1]) + z.T @ (w[:, None] * z)
        self.cov = np.linalg.inv(information)
        self.mu = self.cov @ (precision * mean + z.T @ (w * r))
        residual = r - z @ self.mu
        self.a = 6.0 + 0.5 * w.sum()
        self.b = 6.0 + 0.5 * (w @ residual**2 + precision * float((self.mu - mean) @ (self.mu - mean)))


def assert_same(posterior: Posterior, arm: int, expected: Weighted) -> None:
    np.testing.assert_allclose(posterior.cov[arm], expected.cov, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(posterior.mu[arm], expected.mu, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(posterior.a[arm], expected.a, rtol=1e-10)
    np.testing.assert_allclose(posterior.b[arm], expected.b, rtol=1e-8)


def still(width: int = 4) -> MLP:
    """Return a network that training does not move."""
    return MLP((width,), RMSProp(1e-300))


def features(agent: lim2.Agent, contexts: Float) -> Float:
    """Return the features of contexts as the agent's beliefs take them now."""
    assert isinstance(agent.algorithm, Neural)
    return agent.algorithm.net.features(agent.state.network, contexts)


def last_layer(agent: lim2.Agent, arm: int) -> Float:
    assert isinstance(agent.algorithm, Neural)
    weights: Float = agent.algorithm.net.last_layer(agent.state.network)[0][arm]
    return weights


def rows_of(agent: lim2.Agent, arm: int) -> Any:
    """Return the rows of memory that hold an arm's tuples."""
    rows, bounds = agent.state.memory.by_arm()
    return rows[bounds[arm] : bounds[arm + 1]]


def test_ntk_with_a_network_that_stands_still() -> None:
    agent = lim2.NeuralLinearNTK(2, 3, forget=FORGET, refresh="all", representation=still(), seed=0)
    agent.update_many(CONTEXTS, ARMS, REWARDS)
    for arm in (0, 1):
        played = arm == ARMS
        z = features(agent, CONTEXTS[played])
        expected = Weighted(z, REWARDS[played], WEIGHTS[played], 1.0, last_layer(agent, arm))
        assert_same(agent.state.posterior, arm, expected)


@pytest.mark.parametrize("name", ["NeuralLinearMM", "NeuralLinearNaive"])
def test_limited_memory_regresses_on_a_weighted_buffer(name: str) -> None:
    agent: Any = lim2.AGENTS[name](2, 3, forget=FORGET, refresh="all", noise="buffer", buffer=40, hidden=(4,), seed=0)
    agent.update_many(CONTEXTS, ARMS, REWARDS)
    memory = agent.state.memory
    for arm in (0, 1):
        rows = rows_of(agent, arm)
        z, w = features(agent, memory.contexts[rows]), WEIGHTS[memory.stamps[rows]]
        mean = last_layer(agent, arm) if name.endswith("MM") else None
        assert_same(agent.state.posterior, arm, Weighted(z, memory.rewards[rows], w, 1.0, mean))


def test_noise_over_all_history_fades() -> None:
    agent = lim2.NeuralLinearNaive(2, 3, forget=FORGET, refresh="all", buffer=20, hidden=(4,), seed=0)
    agent.update_many(CONTEXTS, ARMS, REWARDS)
    memory = agent.state.memory
    held = np.isin(np.arange(ROUNDS), memory.stamps[memory.rows()])
    for arm in (0, 1):
        played = arm == ARMS
        assert agent.state.posterior.a[arm] == pytest.approx(6.0 + 0.5 * WEIGHTS[played].sum())
        z, r, w = (part[played & held] for part in (features(agent, CONTEXTS), REWARDS, WEIGHTS))
        left = float((WEIGHTS * REWARDS**2)[played & ~held].sum())
        assert agent.state.posterior.b[arm] == pytest.approx(Weighted(z, r, w, 1.0).b + 0.5 * left)


@pytest.mark.parametrize("matching", [None, "batch"])
def test_lim2_that_counts_once_is_a_weighted_regression_on_all_history(matching: str | None) -> None:
    settings: dict[str, Any] = {"matching": matching, "matching_jitter": 0.0, "buffer": 20}
    agent = lim2.LiM2(2, 3, forget=FORGET, recount=False, representation=still(), seed=0, **settings)
    agent.update_many(CONTEXTS, ARMS, REWARDS)
    for arm in (0, 1):
        played = arm == ARMS
        z = features(agent, CONTEXTS[played])
        expected = Weighted(z, REWARDS[played], WEIGHTS[played], 1.0)
        np.testing.assert_allclose(agent.state.posterior.cov[arm], expected.cov, rtol=1e-6, atol=1e-9)


def test_lim2_that_recounts_forgets_what_it_carries() -> None:
    """The paper's prior is the last posterior; each round it moves towards I before the buffer is added again."""
    agent = lim2.LiM2(2, 3, forget=FORGET, matching=None, buffer=20, representation=still(), seed=0)
    information = np.tile(np.eye(4), (2, 1, 1))
    for t in range(ROUNDS):
        agent.update(CONTEXTS[t], int(ARMS[t]), REWARDS[t])
        information = (1.0 - FORGET) * information + FORGET * np.eye(4)
        for arm in (0, 1):
            rows = rows_of(agent, arm)
            z = features(agent, agent.state.memory.contexts[rows])
            w = (1.0 - FORGET) ** (t - agent.state.memory.stamps[rows])
            information[arm] += z.T @ (w[:, None] * z)
        np.testing.assert_allclose(agent.state.posterior.cov, np.linalg.inv(information), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", ["NeuralLinear", "NeuralLinearNaive"])
@pytest.mark.parametrize("rounds", [60, 75, 90])
def test_phases_and_what_lies_between(name: str, rounds: int) -> None:
    settings = {"representation": still(), "train_every": 30, "steps": 2, "forget": FORGET, "prior_precision": 0.25}
    bounded = {} if name == "NeuralLinear" else {"buffer": 500}
    agent: Any = lim2.AGENTS[name](2, 3, seed=0, **settings, **bounded)
    agent.update_many(CONTEXTS[:rounds], ARMS[:rounds], REWARDS[:rounds])
    for arm in (0, 1):
        played = arm == ARMS[:rounds]
        z = features(agent, CONTEXTS[:rounds][played])
        weights = WEIGHTS[ROUNDS - rounds :][played]
        assert_same(agent.state.posterior, arm, Weighted(z, REWARDS[:rounds][played], weights, 0.25))


def test_bounds_on_eigenvalues_stay_true() -> None:
    agent = lim2.LiM2(3, 4, forget=0.02, hidden=(6,), buffer=30, batch=8, seed=0)
    rng = np.random.default_rng(1)
    for t in range(150):
        agent.update(rng.normal(size=4), t % 3, float(rng.normal()))
        smallest = np.linalg.eigvalsh(agent.state.posterior.cov)[:, 0]
        assert (smallest > 0.0).all()
        assert (agent.state.floor <= smallest * (1.0 + 1e-9) + 1e-12).all()


def test_relaxing_on_the_edge_of_the_cone() -> None:
    edge = np.diag([0.0, 0.5])
    np.testing.assert_allclose(
        relax(edge, 0.9, 2.0, out=edge), np.diag([0.0, 1.0 / (0.9 * 2.0 + 0.1 * 2.0)]), atol=1e-12
    )


def test_training_prefers_what_is_new() -> None:
    memory = empty(capacity=100, n_arms=1, shape=(1,))
    for t in range(100):
        memory, _ = store(memory, np.array([float(t)]), 0, 0.0)
    weights = memory.weights(0.9)
    assert weights is not None
    assert weights[99] == 1.0
    batch = sample(memory, 20_000, np.random.default_rng(0), weights)
    counts = np.bincount(batch.contexts[:, 0].astype(int), minlength=100) / 20_000
    expected = weights[:100] / weights[:100].sum()
    np.testing.assert_allclose(counts, expected, atol=0.01)  # 4 standard deviations of a share of 0.1
