"""Contextual bandits that learn a neural representation online, in bounded memory.

>>> import lim2
>>> agent = lim2.LiM2(n_arms=7, n_features=9, seed=0)
>>> arm = agent.act([0.0] * 9)
>>> agent.update([0.0] * 9, arm, reward=1.0)
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from lim2 import algorithms as algorithms
    from lim2 import encoding as encoding
    from lim2 import evaluation as evaluation
    from lim2 import experiments as experiments
    from lim2 import exploration as exploration
    from lim2 import log as log
    from lim2 import problems as problems
    from lim2 import representation as representation
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
        ThompsonSampling,
        Uniform,
    )
    from lim2.bandit import Bandit
    from lim2.client import AsyncClient, Client
    from lim2.control import Control
    from lim2.decision import Decision, Slate
    from lim2.evaluation.evaluate import evaluate
    from lim2.info import Info
    from lim2.items import ItemAgent
    from lim2.loading import from_bytes, load
    from lim2.log import DecisionLog
    from lim2.matching import match
    from lim2.persistence import LoadError
    from lim2.snapshot import Snapshot

logging.getLogger("lim2").addHandler(logging.NullHandler())  # silent until the application says otherwise

__version__ = "0.2.0"

__all__ = [
    "AGENTS", "AdaptiveTS", "Agent", "AsyncClient", "Bandit", "Client", "Control", "Decision", "DecisionLog", "Info",
    "ItemAgent", "LiM2", "LinearTS", "LoadError", "NeuralLinear", "NeuralLinearMM", "NeuralLinearNTK",
    "NeuralLinearNaive", "NeuralTS", "NeuralUCB", "Slate", "Snapshot", "ThompsonSampling", "Uniform", "evaluate",
    "from_bytes", "load", "match", "problems",
]  # fmt: skip

# Where the names are. A module is imported when one of its names is first used, so that importing lim2 costs nothing.
_MODULES = {
    "agent": ("Agent",),
    "agents": (
        "AGENTS", "AdaptiveTS", "LiM2", "LinearTS", "NeuralLinear", "NeuralLinearMM", "NeuralLinearNaive",
        "NeuralLinearNTK", "NeuralTS", "NeuralUCB", "ThompsonSampling", "Uniform",
    ),
    "bandit": ("Bandit",),
    "client": ("AsyncClient", "Client"),
    "control": ("Control",),
    "decision": ("Decision", "Slate"),
    "evaluation": ("evaluate",),
    "info": ("Info",),
    "items": ("ItemAgent",),
    "log": ("DecisionLog",),
    "matching": ("match",),
    "loading": ("from_bytes", "load"),
    "persistence": ("LoadError",),
    "snapshot": ("Snapshot",),
}  # fmt: skip
_PACKAGES = (
    "algorithms", "encoding", "evaluation", "experiments", "exploration", "log", "problems", "representation",
)  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker knows the names from above, and reports those that do not exist

    def __getattr__(name: str) -> "Any":
        if name in _HOMES:
            value = getattr(import_module(f"lim2.{_HOMES[name]}"), name)
        elif name in _PACKAGES or name in _MODULES:
            value = import_module(f"lim2.{name}")
        else:
            raise AttributeError(f"module 'lim2' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_PACKAGES})
