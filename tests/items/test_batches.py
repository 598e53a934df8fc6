"""Batches of items."""

from typing import Any

import numpy as np
import pytest
from items.shop import N_CONTEXT, N_ITEM, every_agent, items_of, make, played, reward_of, user_of

BEARING = ("AdaptiveTS", "LinearTS", "Uniform")
USERS, ITEMS = np.array([user_of(i) for i in range(12)]), items_of(12, 3)
REWARDS = np.array([reward_of(user, item) for user, item in zip(USERS, ITEMS, strict=True)])


@every_agent
def test_items_are_learned_in_batches_or_refused(variant: str) -> None:
    agent, notes = played(variant, 10), {"position": 0}
    assert agent.batches == (agent.name in BEARING)
    if not agent.batches:
        with pytest.raises(ValueError, match="does not learn in batches"):
            agent.update_many(USERS, ITEMS, REWARDS, batch=4)
        with pytest.raises(ValueError, match="does not learn in batches"):
            agent.learn_logged_many(USERS, ITEMS, REWARDS, [(notes, "position", 1)])
        assert (agent.rounds, notes["position"]) == (10, 0)
        return
    other = agent.copy()
    agent.update_many(USERS, ITEMS, REWARDS, batch=12)
    other.learn_logged_many(USERS, ITEMS, REWARDS, [(notes, "position", 1)])
    assert agent.agent.to_bytes() == other.agent.to_bytes()
    assert (agent.rounds, notes["position"]) == (22, 1)


@pytest.mark.parametrize(
    "bad",
    [
        (USERS[:3], ITEMS[:2], REWARDS[:3]),
        (USERS[:3], ITEMS[:3, :1], REWARDS[:3]),
        (USERS[:3], ITEMS[:3], REWARDS[:2]),
        (USERS[:3], ITEMS[:3] * np.nan, REWARDS[:3]),
    ],
    ids=["rows", "size", "rewards", "NaN"],
)
def test_bad_items_change_nothing(bad: Any) -> None:
    agent = make("LinearTS")
    users, items, rewards = bad
    with pytest.raises(ValueError, match=r"must be|must have|has nan"):
        agent.update_many(users, items, rewards, batch=3)
    with pytest.raises(ValueError, match=r"must be|must have|has nan"):
        agent.learn_logged_many(users, items, rewards, ())
    assert agent.rounds == 0
    assert agent.n_features + agent.n_item_features == N_CONTEXT + N_ITEM
