"""A small world to play in: contexts, rewards, and rounds."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lim2
from helpers.variants import N_FEATURES, named

Float = NDArray[np.float64]


def contexts_of(rows: int, seed: int = 0) -> Float:
    """Return standard normal contexts."""
    return np.random.default_rng(seed).normal(size=(rows, N_FEATURES))


def reward_of(context: Float, index: int) -> float:
    """Return what an arm, by its index, earns in a context."""
    return float(np.sin(context[index % 3] * context[3]) + 0.1 * index)


def play(agent: lim2.Agent, rounds: int, seed: int = 0, **how: Any) -> list[Any]:
    """Decide and learn for some rounds; return the arms."""
    chosen: list[Any] = []
    for context in contexts_of(rounds, seed):
        arm: Hashable = agent.act(context, **how)
        agent.update(context, arm, reward_of(context, agent.arms.index(arm)))
        chosen.append(arm)
    return chosen


def played(variant: str, rounds: int = 30, **settings: Any) -> lim2.Agent:
    """Return an agent with named arms that has played some rounds."""
    agent = named(variant, **settings)
    play(agent, rounds)
    return agent


def beliefs(agent: Any, contexts: Float) -> list[Any]:
    """Return what an agent, or a snapshot, believes, to the last bit."""
    return [agent.means(contexts).tobytes(), agent.variances(contexts).tobytes(), agent.means(contexts[0]).tobytes()]
