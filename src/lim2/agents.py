"""All agents by name: functions that make an agent from the settings of its algorithm."""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, overload

from lim2 import algorithms
from lim2.agent import Agent
from lim2.algorithms import Algorithm, linear_ts_files
from lim2.items import ItemAgent

P = ParamSpec("P")


class Maker(Protocol[P]):
    """Function that makes an agent from the settings of its algorithm."""

    __name__: str

    @overload
    def __call__(self, *, n_item_features: int, **settings: Any) -> ItemAgent: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> Agent: ...


def replacement(agent: str, setting: str) -> str | None:
    """Return what replaces a setting that lim2 0.2 had; None for any other setting."""
    if setting == "min_propensity":
        return (
            "min_propensity was replaced by epsilon, the share of decisions that are drawn uniformly: use "
            "epsilon = min_propensity x number of arms or, with items, epsilon = min_propensity"
        )
    if agent == "LinearTS" and setting in linear_ts_files.REMOVED:
        return f"LinearTS({setting}=...) was replaced by AdaptiveTS(hidden=()), the linear agent that finds its scales"
    return None


def agent_of(algorithm: Callable[P, Algorithm]) -> Maker[P]:
    """Return a function that makes agents with this algorithm; with ``n_item_features``, an :class:`ItemAgent`."""

    def make(*args: P.args, **settings: P.kwargs) -> Agent | ItemAgent:
        for setting in settings:
            if instead := replacement(make.__name__, setting):
                raise TypeError(instead)
        instance = algorithm(*args, **settings)
        return Agent(instance) if instance.n_item_features is None else ItemAgent(instance)

    for name in ("__name__", "__qualname__", "__doc__"):
        setattr(make, name, getattr(algorithm, name))
    make.__wrapped__ = algorithm  # type: ignore[attr-defined]  # its signature
    return make  # type: ignore[return-value]


LinearTS = agent_of(algorithms.LinearTS)
NeuralLinear = agent_of(algorithms.NeuralLinear)
LiM2 = agent_of(algorithms.LiM2)
NeuralLinearMM = agent_of(algorithms.NeuralLinearMM)
NeuralLinearNaive = agent_of(algorithms.NeuralLinearNaive)
NeuralUCB = agent_of(algorithms.NeuralUCB)
NeuralTS = agent_of(algorithms.NeuralTS)
NeuralLinearNTK = agent_of(algorithms.NeuralLinearNTK)
AdaptiveTS = agent_of(algorithms.AdaptiveTS)
ThompsonSampling = agent_of(algorithms.ThompsonSampling)
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
        ThompsonSampling,
        Uniform,
    )
}


def register(algorithm: type[Algorithm]) -> Callable[..., Agent]:
    """Register your own algorithm in ``lim2.AGENTS`` and for :func:`lim2.load`; return the function that makes agents.

    Registering the same name again replaces it. The names of lim2's own algorithms are reserved.

    Parameters
    ----------
    algorithm
        The class of the algorithm. Its name becomes the name of the agent.
    """
    name = algorithm.__name__
    if name in _BUILT_IN:
        raise ValueError(f"{name!r} is an algorithm of lim2: rename your class")
    make: Callable[..., Agent] = agent_of(algorithm)
    algorithms.ALGORITHMS[name], AGENTS[name] = algorithm, make
    return make


_BUILT_IN = frozenset(AGENTS)
