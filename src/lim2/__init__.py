"""Contextual bandits that learn a neural representation online, in bounded memory.

>>> import lim2
>>> agent = lim2.LiM2(n_arms=7, n_features=9, seed=0)
>>> arm = agent.act([0.0] * 9)
>>> agent.update([0.0] * 9, arm, reward=1.0)
"""

from lim2 import problems
from lim2.agents import (
    AGENTS,
    Agent,
    LiM2,
    LinearTS,
    NeuralLinear,
    NeuralLinearMM,
    NeuralLinearNaive,
    NeuralLinearNTK,
    NeuralTS,
    NeuralUCB,
    TransportTS,
    Uniform,
)
from lim2.matching import match

__version__ = "0.1.0"

__all__ = [
    "AGENTS",
    "Agent",
    "LiM2",
    "LinearTS",
    "NeuralLinear",
    "NeuralLinearMM",
    "NeuralLinearNTK",
    "NeuralLinearNaive",
    "NeuralTS",
    "NeuralUCB",
    "TransportTS",
    "Uniform",
    "match",
    "problems",
]
