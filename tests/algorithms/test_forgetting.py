"""Forgetting against its closed form: Bayesian regression in which a tuple of age s counts (1 - forget)^s."""

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.algorithms import LinearTS
from lim2.exploration.posterior import Posterior

Float = NDArray[np.float64]

FORGET, ROUNDS = 0.03, 90
RNG = np.random.default_rng(0)
CONTEXTS = RNG.normal(size=(ROUNDS, 3))
ARMS = RNG.integers(2, size=ROUNDS)
REWARDS = CONTEXTS[:, 0] + 0.3 * RNG.normal(size=ROUNDS)
WEIGHTS = (1.0 - FORGET) ** np.arange(ROUNDS - 1, -1, -1.0)


class Weighted:
    """Normal-inverse-gamma regression with weights, by explicit inverses."""

    def __init__(self, z: Float, r: Float, w: Float, precision: float) -> None:
        information = precision * np.eye(z.shape[1]) + z.T @ (w[:, None] * z)
        self.cov = np.linalg.inv(information)
        self.mu = self.cov @ (z.T @ (w * r))
        residual = r - z @ self.mu
        self.a = 6.0 + 0.5 * w.sum()
        self.b = 6.0 + 0.5 * (w @ residual**2 + precision * float(self.mu @ self.mu))


def assert_same(posterior: Posterior, arm: int, expected: Weighted) -> None:
    np.testing.assert_allclose(posterior.cov[arm], expected.cov, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(posterior.mu[arm], expected.mu, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(posterior.a[arm], expected.a, rtol=1e-10)
    np.testing.assert_allclose(posterior.b[arm], expected.b, rtol=1e-8)


@pytest.mark.parametrize("standardize", [False, True])
def test_linear_ts(standardize: bool) -> None:
    agent = lim2.LinearTS(2, 3, forget=FORGET, standardize=standardize, seed=0)
    agent.update_many(CONTEXTS, ARMS, REWARDS)
    for arm in (0, 1):
        played = arm == ARMS
        assert isinstance(agent.algorithm, LinearTS)
        z = agent.algorithm.features(agent.state, CONTEXTS[played])
        assert_same(agent.state.posterior, arm, Weighted(z, REWARDS[played], WEIGHTS[played], 0.25))


def test_forgetting_pays_where_the_problem_changes() -> None:
    problem = lim2.problems.load("drifting", rounds=1200, seed=0, changes=2)
    totals = []
    for forget in (0.0, 0.01):
        agent = lim2.LinearTS(problem.n_arms, problem.n_features, forget=forget, seed=0)
        total = 0.0
        for context, rewards, expected in zip(problem.contexts, problem.rewards, problem.expected_rewards, strict=True):
            arm = agent.act(context)
            agent.update(context, arm, float(rewards[arm]))
            total += float(expected[arm])
        totals.append(total)
    assert totals[1] > 1.1 * totals[0]
