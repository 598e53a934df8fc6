"""One short file an algorithm, each a composition of the four components."""

from collections.abc import Callable

from lim2.agents.base import Agent
from lim2.agents.decision import Decision
from lim2.agents.info import Info
from lim2.agents.lim2 import LiM2
from lim2.agents.linear_ts import LinearTS
from lim2.agents.neural_linear import NeuralLinear
from lim2.agents.neural_linear_mm import NeuralLinearMM
from lim2.agents.neural_linear_naive import NeuralLinearNaive
from lim2.agents.neural_linear_ntk import NeuralLinearNTK
from lim2.agents.neural_ts import NeuralTS
from lim2.agents.neural_ucb import NeuralUCB
from lim2.agents.transport_ts import TransportTS
from lim2.agents.uniform import Uniform

# Display names, in the order of the paper's tables; what is not the paper's comes last.
AGENTS: dict[str, Callable[..., Agent]] = {
    agent.name: agent
    for agent in (
        LinearTS,
        NeuralLinear,
        LiM2,
        NeuralLinearMM,
        NeuralLinearNaive,
        NeuralUCB,
        NeuralTS,
        NeuralLinearNTK,
        TransportTS,
        Uniform,
    )
}

__all__ = [
    "AGENTS",
    "Agent",
    "Decision",
    "Info",
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
]
