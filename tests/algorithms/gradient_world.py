"""What the tests of NeuralUCB and NeuralTS share: small sizes, a world to play in, and frozen states."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2 import algorithms
from lim2.algorithms.gradient import GradientBandit, State
from lim2.representation.blocks import Network
from lim2.state import frozen, written

Array = NDArray[np.float64]
N_ARMS, N_FEATURES, HIDDEN = 3, 6, 8
ALGORITHMS: dict[str, type[GradientBandit]] = {"ucb": algorithms.NeuralUCB, "thompson": algorithms.NeuralTS}
AGENTS: dict[str, Callable[..., lim2.Agent]] = {"ucb": lim2.NeuralUCB, "thompson": lim2.NeuralTS}
both = pytest.mark.parametrize("exploration", ALGORITHMS)


def algorithm(exploration: str, **options: Any) -> GradientBandit:
    """Return an algorithm of the tests' sizes."""
    return ALGORITHMS[exploration](N_ARMS, N_FEATURES, **{"hidden": HIDDEN, **options})


def make(exploration: str, **options: Any) -> lim2.Agent:
    """Return an agent of the tests' sizes."""
    return AGENTS[exploration](N_ARMS, N_FEATURES, **{"hidden": HIDDEN, "seed": 1, **options})


def learned(
    how: GradientBandit, state: State, context: Array, arm: int, reward: float, rng: np.random.Generator
) -> tuple[State, dict[str, Any]]:
    """Return the next state, with all arrays frozen but those of the memory, which has a free row, and diagnostics."""
    writes, diagnostics = how.learn(state, context, arm, reward, rng)
    new = written(writes)
    for part in (new.network, new.precision, new.moments):
        frozen(part)
    return new, dict(diagnostics())


def context_of(rng: np.random.Generator) -> Array:
    """Return a context with a few zeros in it."""
    context: Array = rng.normal(size=N_FEATURES) * (rng.random(N_FEATURES) < 0.8)
    return context


def reward_of(context: Array, arm: int, rng: np.random.Generator) -> float:
    clean = (0.5, context[0] * context[1], np.sin(2.0 * context[2]))[arm]
    return float(clean + 0.1 * rng.normal())


def play(agent: lim2.Agent, rounds: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        context = context_of(rng)
        arms.append(agent.act(context))
        agent.update(context, arms[-1], reward_of(context, arms[-1], rng))
    return arms


def flat(f: Network) -> Array:
    """Return all parameters as one vector."""
    return np.concatenate([layer.ravel() for layer in f])


def with_parameters(f: Network, vector: Array) -> Network:
    """Return a network of the same sizes with other parameters."""
    ends = np.cumsum([layer.size for layer in f])
    return Network(*(part.reshape(layer.shape) for layer, part in zip(f, np.split(vector, ends[:-1]), strict=True)))
