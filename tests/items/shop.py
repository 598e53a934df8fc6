"""A small world of users and items, and small agents of every kind that choose among them."""

from typing import Any

import numpy as np
import pytest
from helpers.variants import EXAMPLE, N_FEATURES, SMALL, VARIANTS
from numpy.typing import NDArray

import lim2
from lim2 import ItemAgent

Float = NDArray[np.float64]

N_CONTEXT, N_ITEM = 2, 2  # together as many as the suite's torch modules take
assert N_CONTEXT + N_ITEM == N_FEATURES

NAMES = ("red", ("a", 1), 7, "new today", -1)
SAMPLED = ("AdaptiveTS", "LinearTS", "AdaptiveTS, linear", "LiM2", "NeuralLinearNTK")  # those that the issue names

FOR_ITEMS = tuple(name for name in SMALL if name != "ThompsonSampling")  # which refuses items
KINDS = (
    *FOR_ITEMS,
    *("LiM2 past the paper", "LiM2 by UCB", "AdaptiveTS, linear"),
    *("NTK, standardized", "LiM2 with torch", EXAMPLE),
)
every_agent = pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in VARIANTS])  # PyTorch may be absent
some_agents = pytest.mark.parametrize("variant", SAMPLED)


def make(variant: str, seed: int | None = 0, **settings: Any) -> ItemAgent:
    """Return an agent that chooses among items."""
    name, defaults = VARIANTS[variant]
    agent: Any = lim2.AGENTS[name](n_features=N_CONTEXT, n_item_features=N_ITEM, seed=seed, **{**defaults, **settings})
    assert isinstance(agent, ItemAgent)
    return agent


def user_of(seed: int = 0) -> Float:
    """Return a context."""
    return np.random.default_rng([seed, 1]).normal(size=N_CONTEXT)


def items_of(k: int, seed: int = 0) -> Float:
    """Return k items."""
    return np.random.default_rng([seed, 2]).normal(size=(k, N_ITEM))


def reward_of(user: Float, item: Float) -> float:
    """Return what an item earns."""
    return float(np.tanh(user @ item) + 0.2 * item[0])


def play(agent: ItemAgent, rounds: int, seed: int = 0, **how: Any) -> list[Any]:
    """Decide and learn for some rounds, among three to five items; return what was chosen."""
    chosen: list[Any] = []
    for t in range(rounds):
        user, items = user_of(1000 * seed + t), items_of(3 + t % 3, 1000 * seed + t)
        place = agent.act(user, items, **how)
        agent.update(user, items[place], reward_of(user, items[place]))
        chosen.append(place)
    return chosen


def played(variant: str, rounds: int = 30, **settings: Any) -> ItemAgent:
    """Return an agent that has played some rounds."""
    agent = make(variant, **settings)
    play(agent, rounds)
    return agent
