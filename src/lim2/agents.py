"""Every agent by its name: what makes one, from its settings."""

import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, overload

from lim2 import algorithms
from lim2.agent import Agent
from lim2.algorithms import Algorithm
from lim2.items import ItemAgent

P = ParamSpec("P")


class Maker(Protocol[P]):
    """Makes an agent that plays by an algorithm, from the algorithm's settings."""

    __name__: str

    @overload
    def __call__(self, *, n_item_features: int, **settings: Any) -> ItemAgent: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> Agent: ...


def agent_of(algorithm: Callable[P, Algorithm]) -> Maker[P]:
    """Return what makes an agent that plays by an algorithm; with ``n_item_features`` it is an :class:`ItemAgent`."""

    def make(*args: P.args, **settings: P.kwargs) -> Agent | ItemAgent:
        made = algorithm(*args, **settings)
        return Agent(made) if made.n_item_features is None else ItemAgent(made)

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


# A deprecated name, for one version. These settings only TransportTS had.
_GONE = ("a0", "b0", "batch", "exploration", "prior_precision", "ridge", "skip", "steps", "tolerance")
_INSTEAD = {"exploration": "temperature and optimism (with temperature=0.0 nothing is drawn)", "steps": "train_every"}


def TransportTS(*args: Any, **settings: Any) -> Agent:  # noqa: N802
    """Return an agent that plays by AdaptiveTS, which replaces TransportTS; deprecated."""
    for name in settings:
        if name in _GONE:
            instead = f"use {_INSTEAD[name]}" if name in _INSTEAD else "AdaptiveTS has no counterpart"
            raise TypeError(f"the setting {name!r} went with TransportTS: {instead}")
    message = "TransportTS is replaced by AdaptiveTS; the name goes in the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    made: Agent = AdaptiveTS(*args, **settings)
    return made
