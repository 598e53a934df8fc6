"""What was chosen where, and what it earned, learned by the public door: from a table."""

from collections.abc import Hashable, Sequence
from typing import Any

import lim2
from lim2.log import Table


def replay(
    bandit: lim2.Bandit, contexts: Sequence[Any], arms: Sequence[Hashable], rewards: Any, items: Any = None, **how: Any
) -> int:
    """Let a bandit learn many rewards; return their number."""
    features = None if items is None else [{arm: item} for arm, item in zip(arms, items, strict=True)]
    return Table.of(contexts, arms, rewards, [1.0] * len(contexts), items=features).replay(bandit, **how)


def learn(bandit: lim2.Bandit, context: Any, arm: Hashable, reward: float, *, item: Any = None) -> None:
    """Let a bandit learn one reward."""
    assert replay(bandit, [context], [arm], [reward], None if item is None else [item]) == 1
