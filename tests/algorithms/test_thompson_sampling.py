"""ThompsonSampling against its transcription, and what users may expect of it."""

from collections.abc import Callable

import numpy as np
import pytest
from oracle.thompson_sampling import OracleThompsonSampling
from scipy import stats

import lim2

X = [0.0, 0.0]


def clicks(rng: np.random.Generator, arm: int) -> float:
    return float(rng.random() < (0.05, 0.4, 0.5)[arm])


def amounts(rng: np.random.Generator, arm: int) -> float:
    return 1e6 + float(rng.normal(arm, 3.0))


def purchases(rng: np.random.Generator, arm: int) -> float:
    """Zeros at first, and then a sum: from Beta to Student-t under way."""
    return float(rng.exponential(30.0)) if rng.random() < 0.1 * (1 + arm) else 0.0


def constant(_: np.random.Generator, __: int) -> float:
    return 0.1


@pytest.mark.parametrize("reward", [clicks, amounts, purchases, constant])
def test_beliefs_are_those_of_the_transcription(reward: Callable[[np.random.Generator, int], float]) -> None:
    agent, oracle, rng = (
        lim2.ThompsonSampling(3, 2, initial_pulls=0, seed=1),
        OracleThompsonSampling(3),
        np.random.default_rng(0),
    )
    for t in range(400):
        arm = agent.act(X)
        value = reward(rng, arm)
        agent.update(X, arm, value)
        oracle.update(arm, value)
        beliefs = oracle.posteriors()
        np.testing.assert_allclose(agent.means(X), [b.mean() for b in beliefs], rtol=1e-8)
        np.testing.assert_allclose(agent.variances(X), [b.var() for b in beliefs], rtol=1e-8)
        if t in (0, 3, 30, 399):
            np.testing.assert_allclose(agent.propensities(X), oracle.propensities(), atol=1e-7)


def test_draws_have_the_distribution_of_the_posterior() -> None:
    agent = lim2.ThompsonSampling(2, 2, seed=0)
    agent.update([X] * 6, [0, 0, 0, 1, 1, 1], [1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    policy, score = agent.algorithm.policy, agent.algorithm.score(agent.state, np.zeros((4000, 2)))
    drawn = policy.scores(score, np.random.default_rng(0))
    for arm, belief in enumerate((stats.beta(3, 2), stats.beta(2, 3))):
        assert stats.kstest(drawn[:, arm], belief.cdf).pvalue > 0.001
    share = np.mean(agent.act_many(np.zeros((4000, 2))) == 0)
    assert abs(share - agent.propensities(X)[0]) < 4 * np.sqrt(0.25 / 4000)


def test_contexts_do_not_matter() -> None:
    agent = lim2.ThompsonSampling(2, 2, initial_pulls=0, seed=0)
    agent.update([[1.0, 5.0], [-1.0, 2.0]], [0, 1], [1.0, 0.0])
    for array in (agent.means([X, [9.0, 9.0]]), agent.propensities([X, [9.0, 9.0]])):
        assert (array[0] == array[1]).all()
        assert array[0, 0] > array[0, 1]


@pytest.mark.parametrize("offset", [0.0, 1e9, -40.0])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_units_of_rewards_do_not_matter(unit: float, offset: float) -> None:
    plays = []
    for scale, shift in ((1.0, 0.0), (unit, unit * offset)):
        agent, rng = lim2.ThompsonSampling(3, 2, seed=4), np.random.default_rng(1)
        agent.update(X, 0, shift + scale * 0.5)  # the first is neither 0 nor 1
        agent.update(X, 1, shift + scale * 1.5)
        arms = []
        for _ in range(300):
            arm = agent.act(X)
            arms.append(arm)
            agent.update(X, arm, shift + scale * float(rng.normal(arm)))
        plays.append(arms)
    assert plays[0] == plays[1]
    assert np.mean(np.array(plays[0][200:]) == 2) > 0.7


def test_a_batch_is_as_one_reward_after_the_other() -> None:
    one, many = lim2.ThompsonSampling(3, 2, seed=0), lim2.ThompsonSampling(3, 2, seed=0)
    rng = np.random.default_rng(0)
    arms, rewards = rng.integers(3, size=50), rng.normal(size=50)
    for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
        one.update(X, arm, reward)
    many.update(np.zeros((50, 2)), arms.tolist(), rewards, batch=20)
    np.testing.assert_array_equal(one.means(X), many.means(X))
    np.testing.assert_array_equal(one.variances(X), many.variances(X))


def test_a_new_arm_is_tried_and_an_old_one_can_go() -> None:
    bandit = lim2.Bandit(arms=["a", "b"], algorithm="ThompsonSampling", initial_pulls=0, seed=0)
    for t in range(200):
        decision = bandit.decide({"visit": t})
        bandit.update(decision, float(decision.arm == "a"))
    bandit.add_arm("c")
    assert 0.004 < bandit.decide({"visit": 0}).propensities[2] < 0.006  # 1 in 200, of Beta(1, 1) against Beta(199, 1)
    bandit.remove_arm("a")
    assert sum(bandit.decide({"visit": 0}).arm == "c" for _ in range(50)) > 25


def test_items_are_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="use AdaptiveTS or LinearTS for items"):
        lim2.Bandit(algorithm="ThompsonSampling")
    with pytest.raises(ValueError, match="cannot share it between items"):
        lim2.ThompsonSampling(n_features=2, n_item_features=3)
