"""Every agent by its name: what makes one, from its settings."""

from collections.abc import Callable

from lim2 import algorithms
from lim2.agent import Agent, agent_of
from lim2.algorithms import Algorithm

LinearTS = agent_of(algorithms.LinearTS)
NeuralLinear = agent_of(algorithms.NeuralLinear)
LiM2 = agent_of(algorithms.LiM2)
NeuralLinearMM = agent_of(algorithms.NeuralLinearMM)
NeuralLinearNaive = agent_of(algorithms.NeuralLinearNaive)
NeuralUCB = agent_of(algorithms.NeuralUCB)
NeuralTS = agent_of(algorithms.NeuralTS)
NeuralLinearNTK = agent_of(algorithms.NeuralLinearNTK)
AdaptiveTS = agent_of(algorithms.AdaptiveTS)
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
        AdaptiveTS,
        TransportTS,
        Uniform,
    )
}


def register(algorithm: type[Algorithm]) -> Callable[..., Agent]:
    """Make an algorithm of your own known by its name, to :func:`lim2.load` and in ``lim2.AGENTS``; return its maker.

    Registering it again, as an edited module does, replaces it. The names of lim2's own algorithms are taken.
    """
    name = algorithm.__name__
    if name in _OWN:
        raise ValueError(f"{name!r} is an algorithm of lim2: give yours another name")
    make: Callable[..., Agent] = agent_of(algorithm)
    algorithms.ALGORITHMS[name], AGENTS[name] = algorithm, make
    return make


_OWN = frozenset(AGENTS)
