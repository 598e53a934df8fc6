"""Contextual bandits that learn a neural representation online, in bounded memory.

>>> import lim2
>>> agent = lim2.LiM2(n_arms=7, n_features=9, seed=0)
>>> arm = agent.act([0.0] * 9)
>>> agent.update([0.0] * 9, arm, reward=1.0)
"""

import logging

from lim2 import problems
from lim2.agent import Agent
from lim2.agents import (
    AGENTS,
    AdaptiveTS,
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
from lim2.bandit import Bandit
from lim2.client import AsyncClient, Client
from lim2.decision import Decision, Slate
from lim2.evaluation import evaluate
from lim2.info import Info
from lim2.items import ItemAgent
from lim2.log import DecisionLog
from lim2.matching import match
from lim2.opening import from_bytes, load
from lim2.persistence import LoadError
from lim2.snapshot import Snapshot

logging.getLogger("lim2").addHandler(logging.NullHandler())  # silent until the application says otherwise

__version__ = "0.1.0"

__all__ = [
    "AGENTS", "AdaptiveTS", "Agent", "AsyncClient", "Bandit", "Client", "Decision", "DecisionLog", "Info", "ItemAgent",
    "LiM2", "LinearTS", "LoadError", "NeuralLinear", "NeuralLinearMM", "NeuralLinearNTK", "NeuralLinearNaive",
    "NeuralTS", "NeuralUCB", "Slate", "Snapshot", "TransportTS", "Uniform", "evaluate", "from_bytes", "load", "match",
    "problems",
]  # fmt: skip
