"""Learning from items: one by one and many at once, whole or not at all, and against a literal computation."""

from typing import Any

import numpy as np
import pytest
from helpers.faults import fails_at, fails_at_line
from items.shop import (
    N_CONTEXT,
    N_ITEM,
    every_agent,
    items_of,
    play,
    played,
    reward_of,
    some_agents,
    user_of,
)
from oracle import OracleLinearTS

import lim2

USER, ITEMS = user_of(7), items_of(5, 7)


def batch_of(n: int) -> tuple[Any, Any, Any]:
    """Return contexts, items and rewards."""
    users, items = np.array([user_of(i) for i in range(n)]), items_of(n, 3)
    return users, items, np.array([reward_of(user, item) for user, item in zip(users, items, strict=True)])


@every_agent
def test_many_at_once_as_one_by_one(variant: str) -> None:
    one, many = played(variant, 10), played(variant, 10)
    users, items, rewards = batch_of(12)
    many.update(users, items, rewards)
    for user, item, reward in zip(users, items, rewards, strict=True):
        one.update(user, item, reward)
    assert one.agent.to_bytes() == many.agent.to_bytes()
    assert one.rounds == many.rounds == 22
    many.update(users.tolist(), items.tolist(), rewards.tolist())
    many.update(users[:0], items[:0], rewards[:0])
    assert many.rounds == 34


@every_agent
def test_what_is_learned_is_the_item_not_its_name(variant: str) -> None:
    agent = played(variant)
    before = agent.means(USER, ITEMS[:1]), agent.variances(USER, ITEMS[:1])
    for _ in range(20):
        agent.update(USER, ITEMS[0], 3.0)
    assert agent.rounds == 50
    assert agent.info is not None
    if agent.name != "Uniform":
        assert abs(agent.means(USER, {"never seen": ITEMS[0]}) - 3.0) < abs(before[0] - 3.0)


BAD: dict[str, tuple[Any, Any, Any]] = {
    "item size": (USER, np.ones(N_ITEM + 1), 1.0),
    "item rows": (USER, ITEMS[:1], 1.0),
    "item nan": (USER, [np.nan, 0.0], 1.0),
    "item infinity": (USER, [np.inf, 0.0], 1.0),
    "item words": (USER, ["a", "b"], 1.0),
    "item nothing": (USER, None, 1.0),
    "context size": (np.ones(N_CONTEXT + 1), ITEMS[0], 1.0),
    "context nan": ([np.nan, 0.0], ITEMS[0], 1.0),
    "reward nan": (USER, ITEMS[0], np.nan),
    "reward infinity": (USER, ITEMS[0], -np.inf),
    "reward large": (USER, ITEMS[0], 1e30),
    "reward word": (USER, ITEMS[0], "one"),
    "rewards": (USER, ITEMS[0], [1.0]),
    "no reward": (USER, ITEMS[0], None),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_update_changes_nothing(bad: tuple[Any, Any, Any]) -> None:
    agent = played("AdaptiveTS", 8)
    before = agent.agent.to_bytes()
    with pytest.raises(ValueError, match=r"item|context|reward"):
        agent.update(*bad)
    assert agent.agent.to_bytes() == before


MANY: dict[str, tuple[Any, Any, Any]] = {
    "fewer items": (np.ones((3, N_CONTEXT)), np.ones((2, N_ITEM)), np.ones(3)),
    "fewer rewards": (np.ones((3, N_CONTEXT)), np.ones((3, N_ITEM)), np.ones(2)),
    "one context": (np.ones(N_CONTEXT), np.ones((1, N_ITEM)), np.ones(1)),
    "a number": (1.0, 1.0, 1.0),
    "sizes swapped": (np.ones((3, N_ITEM + 1)), np.ones((3, N_CONTEXT)), np.ones(3)),
    "nan at the end": (np.ones((3, N_CONTEXT)), [[1.0, 1.0], [1.0, 1.0], [1.0, np.nan]], np.ones(3)),
    "reward at the end": (np.ones((3, N_CONTEXT)), np.ones((3, N_ITEM)), [1.0, 1.0, np.nan]),
}


@pytest.mark.parametrize("bad", MANY.values(), ids=MANY.keys())
def test_bad_batches_change_nothing(bad: tuple[Any, Any, Any]) -> None:
    agent = played("AdaptiveTS", 8)
    before = agent.agent.to_bytes()
    with pytest.raises(ValueError, match=r"item|context|reward"):
        agent.update(*bad)
    assert agent.agent.to_bytes() == before


@some_agents
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_an_update_that_fails_anywhere_changes_nothing(variant: str, many: bool) -> None:
    agent, expected = played(variant, 17), played(variant, 17)
    batch = batch_of(4)

    def learn(learner: lim2.ItemAgent) -> None:
        if many:
            learner.update(*batch)
        else:
            learner.update(USER, ITEMS[0], 0.5)

    before, call = agent.agent.to_bytes(), 1
    while fails_at(call, lambda: learn(agent)):
        assert agent.agent.to_bytes() == before, f"call {call} failed, and something had changed"
        call += 1 if call < 25 else 29
    assert call > 3
    learn(expected)
    assert agent.agent.to_bytes() == expected.agent.to_bytes()
    assert play(agent, 5, seed=1) == play(expected, 5, seed=1)


def test_an_interrupt_at_any_line_is_before_or_after() -> None:
    start = played("LinearTS", 12)
    before, done, line, seen = start.agent.to_bytes(), start.copy(), 1, set()
    done.update(USER, ITEMS[0], 0.5)
    failed = True
    while failed:
        agent = start.copy()
        failed = fails_at_line(line, lambda: agent.update(USER, ITEMS[0], 0.5))  # noqa: B023
        seen.add(agent.agent.to_bytes())
        line += 1
    assert seen == {before, done.agent.to_bytes()}


# Against a literal computation


def joined(user: Any, item: Any) -> Any:
    """Return [context, item, products]."""
    return np.concatenate((user, item, np.outer(user, item).ravel()))


def test_linear_items_are_one_arm_over_joined_rows() -> None:
    """LinearTS against the oracle's regression on [context, item, products], with three columns and four."""
    rng, shape = np.random.default_rng(0), (3, 4)
    agent = lim2.LinearTS(n_features=3, n_item_features=4, seed=0)
    oracle = OracleLinearTS(1, 3 + 4 + 12, initial_pulls=0)
    for _ in range(150):
        user, items = rng.normal(size=shape[0]), rng.normal(size=(6, shape[1]))
        rows = [joined(user, item) for item in items]
        phi = np.array([oracle.features(row) for row in rows])
        scales = oracle.b[0] / oracle.a[0] * np.diag(phi @ oracle.cov[0] @ phi.T)
        np.testing.assert_allclose(agent.means(user, items), phi @ oracle.mu[0], rtol=1e-8, atol=1e-8)
        freedom = 2.0 * oracle.a[0]
        np.testing.assert_allclose(agent.variances(user, items), scales * freedom / (freedom - 2.0), rtol=1e-8)
        place = agent.act(user, items)
        reward = float(user[0] * items[place, 1] - items[place, 2] + 0.1 * rng.normal())
        agent.update(user, items[place], reward)
        oracle.update(rows[place], 0, reward)


def test_linear_items_as_linear_agents_have_it() -> None:
    rng = np.random.default_rng(1)
    agent = lim2.LinearTS(n_features=1, n_item_features=2, seed=0)
    same = lim2.LinearTS(n_arms=1, n_features=5, seed=0)
    signs = np.array([(a, b, c) for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    for t in range(160):
        row = signs[t % 8]
        reward = float(row[0] * row[1] + 0.3 * row[2] + 0.1 * rng.normal())
        agent.update(row[:1], row[1:], reward)
        same.update(joined(row[:1], row[1:]), 0, reward)
    rows = np.array([joined(row[:1], row[1:]) for row in signs])
    means = np.array([agent.means(row[:1], row[None, 1:])[0] for row in signs])
    variances = np.array([agent.variances(row[:1], row[None, 1:])[0] for row in signs])
    np.testing.assert_allclose(means, same.means(rows)[:, 0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variances, same.variances(rows)[:, 0], rtol=1e-8)


# What products are for


class Without:
    """The hack before there were items: one arm, contexts of user and item side by side, no products."""

    def __init__(self) -> None:
        self.agent = lim2.LinearTS(n_arms=1, n_features=6, initial_pulls=0, seed=0)
        self.rng = np.random.default_rng(0)

    def act(self, user: Any, items: Any) -> int:
        rows = np.hstack((np.tile(user, (len(items), 1)), items))
        deviations = np.sqrt(self.agent.variances(rows)[:, 0])
        return int((self.agent.means(rows)[:, 0] + deviations * self.rng.normal(size=len(items))).argmax())

    def update(self, user: Any, item: Any, reward: float) -> None:
        self.agent.update(np.concatenate((user, item)), 0, reward)


def share_of_the_way(agent: Any, rounds: int = 500, unit: float = 1.0, origin: float = 0.0) -> float:
    """Return how much of the way from random to best an agent goes, on tastes: user x item effects alone."""
    rng = np.random.default_rng(3)
    taste, earned, random, best = rng.normal(size=(3, 3)), 0.0, 0.0, 0.0
    for t in range(rounds):
        user, items = rng.normal(size=3), rng.normal(size=(10, 3))
        expected = user @ taste @ items.T
        seen, shown = unit * (user + origin), (items - origin) / unit
        place = agent.act(seen, shown)
        agent.update(seen, shown[place], float(expected[place] + rng.normal()))
        if t >= 200:
            earned, random, best = earned + expected[place], random + expected.mean(), best + expected.max()
    return (earned - random) / (best - random)


def test_products_make_it_personal() -> None:
    assert share_of_the_way(Without()) < 0.2
    assert share_of_the_way(lim2.LinearTS(n_features=3, n_item_features=3, seed=0)) > 0.9
    linear = lim2.AdaptiveTS(n_features=3, n_item_features=3, hidden=(), seed=0)
    assert share_of_the_way(linear, unit=1e4, origin=70.0) > 0.9
    assert share_of_the_way(lim2.AdaptiveTS(n_features=3, n_item_features=3, seed=0), 350) > 0.85
