"""Agents that choose among items with features: how they are made for a problem."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lim2.agents import AGENTS
from lim2.experiments.names import Spec, maker_of
from lim2.problems import ItemProblem
from lim2.problems.problem import Array

SIZE = "n_item_features"


class PlaysItems(Protocol):
    """Interface of an agent for problems with items."""

    def act(self, context: Any, items: Any) -> int:
        """Choose one of the items; return its row."""
        ...

    def update(self, context: Any, item: Any, reward: float) -> object:
        """Learn from the reward of an item."""
        ...


class Scale(NamedTuple):
    """Mean and standard deviation of columns of numbers, for agents that do not scale by themselves.

    Columns of 0 and 1 alone stay as they are: with them standardised Vowpal Wabbit earns less.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [3.0, 1.0]])
    >>> Scale.of(rows)(rows)
    array([[-1.,  0.],
           [ 1.,  1.]])
    """

    mean: Array
    deviation: Array

    @classmethod
    def of(cls, rows: NDArray[Any]) -> Scale:
        """Return the scale of some rows."""
        deviation, flags = rows.std(axis=0), ((rows == 0.0) | (rows == 1.0)).all(axis=0)
        return cls(np.where(flags, 0.0, rows.mean(axis=0)), np.where(flags | (deviation == 0.0), 1.0, deviation))

    def __call__(self, rows: NDArray[Any]) -> Array:
        """Return rows with mean 0 and deviation 1 in every column of numbers."""
        scaled: Array = (rows - self.mean) / self.deviation
        return scaled


def make_for_items(spec: Spec, problem: ItemProblem, seed: int) -> PlaysItems:
    """Make an agent for a problem with items.

    It is called with the keywords ``n_features`` and ``n_item_features``, with ``seed``, ``usual_rewards`` and
    ``scales`` (of contexts and of items, over all rounds) if it names them, and its settings.
    """
    maker = _maker(spec)
    parameters = inspect.signature(maker).parameters
    if SIZE not in parameters:
        able = [name for name, agent in AGENTS.items() if SIZE in inspect.signature(agent).parameters]
        raise TypeError(
            f"{spec.label} chooses among arms, and {problem.name!r} has items with features; name an agent that takes "
            f"{SIZE}: {', '.join([*able, 'vw:adf-squarecb'])}"
        )
    arguments: dict[str, Any] = {"n_features": problem.n_features, SIZE: problem.n_item_features}
    if "seed" in parameters:
        arguments["seed"] = seed
    if "usual_rewards" in parameters:
        arguments["usual_rewards"] = problem.usual_rewards
    if "scales" in parameters:
        arguments["scales"] = (Scale.of(problem.contexts), Scale.of(problem.candidates))
    agent: PlaysItems = maker(**arguments, **spec.settings)
    return agent


def check_arms(spec: Spec, maker: Callable[..., Any], problem: str) -> None:
    """Raise a `TypeError` for an agent that can only choose among items, on a problem with arms."""
    size = inspect.signature(maker).parameters.get(SIZE)
    if size is not None and size.default is size.empty:
        raise TypeError(
            f"{spec.label} chooses among items with features, and {problem!r} has arms; play it on a problem with "
            "items, such as catalogue"
        )


def _maker(spec: Spec) -> Callable[..., Any]:
    if spec.source.startswith("vw:"):
        from lim2.experiments import peers

        return peers.item_maker(spec.source)
    return maker_of(spec)
