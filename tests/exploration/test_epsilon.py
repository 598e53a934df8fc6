"""Epsilon: a share of decisions is uniform among the eligible arms or items, and propensities say so exactly."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import lim2
from lim2.deciding import Question
from lim2.exploration import UCB, Thompson
from lim2.exploration.epsilon import uniform_choice, with_uniform
from lim2.items import beside

SHARES = st.floats(0.0, 1.0)
EXPLORATIONS: dict[str, Any] = {"thompson": Thompson(), "ucb": UCB(1.0), "greedy": Thompson(temperature=0.0)}
CONTEXT = np.array([0.3, -0.2])
ITEMS = np.array([[1.0, 0.2], [0.1, 0.4], [-0.5, 0.9], [0.8, 0.3]])

every_exploration = pytest.mark.parametrize("exploration", EXPLORATIONS)


def of_arms(exploration: str, **settings: Any) -> lim2.Agent:
    agent = lim2.LinearTS(4, 2, exploration=EXPLORATIONS[exploration], initial_pulls=0, seed=3, **settings)
    rng = np.random.default_rng(0)
    agent.update(rng.normal(size=(20, 2)), rng.integers(4, size=20), rng.random(20))
    return agent


def of_items(exploration: str, **settings: Any) -> lim2.ItemAgent:
    exploring = EXPLORATIONS[exploration]
    agent: lim2.ItemAgent = lim2.LinearTS(n_features=2, n_item_features=2, exploration=exploring, seed=3, **settings)
    rng = np.random.default_rng(0)
    agent.update(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), rng.random(20))
    return agent


def check_shares(drawn: NDArray[Any], expected: NDArray[np.float64]) -> None:
    """Compare the shares of choices with their probabilities: within 4.5 standard deviations."""
    shares = np.bincount(drawn, minlength=len(expected)) / len(drawn)
    deviations = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-4) / len(drawn))
    assert (np.abs(shares - expected) / deviations).max() < 4.5


@given(
    weights=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20).filter(lambda weights: sum(weights) > 0),
    epsilon=SHARES,
)
def test_propensities_sum_to_one_and_have_a_floor(weights: list[float], epsilon: float) -> None:
    policy = np.array(weights) / np.sum(weights)
    mixed = with_uniform(policy, epsilon)
    assert mixed.sum() == pytest.approx(1.0, abs=1e-12)
    assert mixed.min() >= epsilon / len(policy) - 1e-15
    np.testing.assert_array_equal(with_uniform(np.tile(policy, (2, 1)), epsilon), [mixed, mixed])


@given(epsilon=SHARES, k=st.integers(1, 50), seed=st.integers(0, 2**32))
def test_a_uniform_choice_is_one_of_k(epsilon: float, k: int, seed: int) -> None:
    chosen = uniform_choice(epsilon, k, np.random.default_rng(seed))
    assert chosen is None or 0 <= chosen < k
    if epsilon in (0.0, 1.0):
        assert (chosen is None) == (epsilon == 0.0)


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.0])
def test_uniform_choices_have_their_share(epsilon: float) -> None:
    rng = np.random.default_rng(1)
    drawn = [uniform_choice(epsilon, 3, rng) for _ in range(30_000)]
    places = np.array([3 if one is None else one for one in drawn])
    check_shares(places, np.array([epsilon / 3] * 3 + [1.0 - epsilon]))


@every_exploration
@given(epsilon=SHARES)
def test_propensities_have_a_closed_form(exploration: str, epsilon: float) -> None:
    """(1 - epsilon) p + epsilon / k, with p those of the agent without epsilon and k the eligible."""
    arms, items = of_arms(exploration), of_items(exploration)
    asked: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (arms, (CONTEXT,), {}),
        (arms, (CONTEXT,), {"arms": [2, 0]}),
        (arms, (np.tile(CONTEXT, (3, 1)),), {}),
        (items, (CONTEXT, ITEMS), {}),
        (items, (CONTEXT, ITEMS[:1]), {}),
    ]
    for agent, question, eligible in asked:
        agent.epsilon = 0.0
        policy = agent.propensities(*question, **eligible)
        agent.epsilon = epsilon
        mixed = agent.propensities(*question, **eligible)
        np.testing.assert_allclose(mixed, (1.0 - epsilon) * policy + epsilon / policy.shape[-1], atol=1e-12)
        np.testing.assert_allclose(mixed.sum(axis=-1), 1.0, atol=1e-9)
        assert mixed.min() >= epsilon / policy.shape[-1] - 1e-12
        assert agent.propensities(*question, **eligible, exploit=True).max() == 1.0


@every_exploration
def test_decisions_among_arms_follow_their_propensities(exploration: str) -> None:
    agent = of_arms(exploration, epsilon=0.2)
    for eligible in ([0, 1, 2, 3], [3, 1]):
        expected = agent.propensities(CONTEXT, arms=eligible)
        for drawn in (
            np.array([agent.decide(CONTEXT, arms=eligible).arm for _ in range(2_000)]),
            agent.act_many(np.tile(CONTEXT, (2_000, 1)), arms=eligible),
            np.array([agent.rank(CONTEXT, arms=eligible)[0].arm for _ in range(2_000)]),
        ):
            check_shares(np.array([eligible.index(arm) for arm in drawn]), expected)


@every_exploration
def test_decisions_among_items_follow_their_propensities(exploration: str) -> None:
    agent = of_items(exploration, epsilon=0.2)
    expected = agent.propensities(CONTEXT, ITEMS)
    rows = beside(CONTEXT, np.array(ITEMS))
    question = Question((0, 1, 2, 3), rows)
    together = [one.arm for _ in range(200) for one in agent.core.decide_many([question] * 10)]
    for drawn in (
        [agent.decide(CONTEXT, ITEMS).arm for _ in range(2_000)],
        [agent.rank(CONTEXT, ITEMS)[0].arm for _ in range(2_000)],
        together,
    ):
        check_shares(np.array(drawn), expected)


def test_epsilon_takes_part_in_initial_turns() -> None:
    agent = lim2.LinearTS(4, 2, epsilon=0.2, initial_pulls=1, seed=0)
    np.testing.assert_allclose(agent.propensities(CONTEXT), [0.85, 0.05, 0.05, 0.05])
    first = np.array([lim2.LinearTS(4, 2, epsilon=0.2, initial_pulls=1, seed=s).act(CONTEXT) for s in range(1_000)])
    check_shares(first, np.array([0.85, 0.05, 0.05, 0.05]))


def test_another_share_holds_from_then_on_and_not_for_snapshots() -> None:
    agent = of_arms("ucb")
    before = agent.snapshot()
    agent.epsilon = 0.4
    assert (agent.epsilon, before.epsilon, agent.snapshot().epsilon, agent.copy().epsilon) == (0.4, 0.0, 0.4, 0.4)
    assert agent.propensities(CONTEXT).min() == pytest.approx(0.1)
    assert before.propensities(CONTEXT).min() == 0.0
    with pytest.raises(AttributeError):
        before.epsilon = 0.4  # type: ignore[misc]


def test_a_share_stays_when_arms_change() -> None:
    agent = of_arms("ucb", epsilon=0.4)
    agent.add_arm(4)
    assert agent.propensities(CONTEXT).min() == pytest.approx(0.4 / 5)
    agent.remove_arm(0)
    agent.remove_arm(1)
    assert agent.propensities(CONTEXT).min() == pytest.approx(0.4 / 3)
