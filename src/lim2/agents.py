"""Every agent by its name: what makes one, from its settings."""

from collections.abc import Callable

from lim2 import algorithms
from lim2.agent import Agent, agent_of

LinearTS = agent_of(algorithms.LinearTS)
NeuralLinear = agent_of(algorithms.NeuralLinear)
LiM2 = agent_of(algorithms.LiM2)
NeuralLinearMM = agent_of(algorithms.NeuralLinearMM)
NeuralLinearNaive = agent_of(algorithms.NeuralLinearNaive)
NeuralUCB = agent_of(algorithms.NeuralUCB)
NeuralTS = agent_of(algorithms.NeuralTS)
NeuralLinearNTK = agent_of(algorithms.NeuralLinearNTK)
TransportTS = agent_of(algorithms.TransportTS)
Uniform = agent_of(algorithms.Uniform)

# In the order of the paper's tables; what is not the paper's comes last.
AGENTS: dict[str, Callable[..., Agent]] = {
    make.__name__: make
    for make in (
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
