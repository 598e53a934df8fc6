"""Batches of items."""

from typing import Any

import numpy as np
import pytest
from items.shop import N_CONTEXT, N_ITEM, every_agent, items_of, make, played, reward_of, user_of

from lim2.decision import History
from lim2.log import Table

BEARING = ("AdaptiveTS", "LinearTS", "Uniform")
USERS, ITEMS = np.array([user_of(i) for i in range(12)]), items_of(12, 3)
REWARDS = np.array([reward_of(user, item) for user, item in zip(USERS, ITEMS, strict=True)])

ITEM_TABLE = Table.of(USERS, [0] * 12, REWARDS, [1.0] * 12, items=[item[None] for item in ITEMS])


@every_agent
def test_items_are_learned_in_batches_or_refused(variant: str) -> None:
    agent, position = played(variant, 10), {"log_position": 1}
    assert agent.batches == (agent.name in BEARING)
    if not agent.batches:
        with pytest.raises(ValueError, match="does not learn in batches"):
            agent.update(USERS, ITEMS, REWARDS, batch=4)
        with pytest.raises(ValueError, match="does not learn in batches"):
            ITEM_TABLE.replay(agent, batch=4)
        assert agent.rounds == 10
        return
    other = agent.copy()
    agent.update(USERS, ITEMS, REWARDS, batch=12)
    other.learn_logged(History([0] * 12, REWARDS, USERS, ITEMS), position)
    assert other.metadata == position
    other.metadata = {}
    assert agent.agent.to_bytes() == other.agent.to_bytes()
    assert agent.rounds == 22


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
        agent.update(users, items, rewards, batch=3)
    with pytest.raises(ValueError, match=r"must be|must have|has nan"):
        agent.learn_logged(History([0] * len(users), rewards, users, items), {})
    assert agent.rounds == 0
    assert agent.n_features + agent.n_item_features == N_CONTEXT + N_ITEM
