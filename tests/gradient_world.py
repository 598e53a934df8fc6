"""What the tests of NeuralUCB and NeuralTS share: small agents, and a world to play in."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.agents.gradient_bandit import GradientBandit
from lim2.representation.blocks import BlockNetwork

Array = NDArray[np.float64]
N_ARMS, N_FEATURES, HIDDEN = 3, 6, 8
AGENTS: dict[str, type[lim2.NeuralUCB] | type[lim2.NeuralTS]] = {"ucb": lim2.NeuralUCB, "thompson": lim2.NeuralTS}
both = pytest.mark.parametrize("exploration", AGENTS)


def make(exploration: str, **options: Any) -> GradientBandit:
    """An agent of the tests' sizes."""
    return AGENTS[exploration](N_ARMS, N_FEATURES, **{"hidden": HIDDEN, "seed": 1, **options})


def context_of(rng: np.random.Generator) -> Array:
    """A context with a few zeros in it."""
    context: Array = rng.normal(size=N_FEATURES) * (rng.random(N_FEATURES) < 0.8)
    return context


def reward_of(context: Array, arm: int, rng: np.random.Generator) -> float:
    clean = (0.5, context[0] * context[1], np.sin(2.0 * context[2]))[arm]
    return float(clean + 0.1 * rng.normal())


def parameters_of(net: BlockNetwork) -> Array:
    return np.array(net.state()["parameters"])


def play(agent: GradientBandit, rounds: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        context = context_of(rng)
        arms.append(agent.act(context))
        agent.update(context, arms[-1], reward_of(context, arms[-1], rng))
    return arms
