"""Agents for problems whose contexts are dictionaries: how they are made."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from lim2.agents import AGENTS
from lim2.bandit import Bandit
from lim2.experiments.names import Spec, maker_of
from lim2.problems import ItemProblem, Problem


class PlaysDictionaries(Protocol):
    """Interface of an agent for problems whose contexts are dictionaries."""

    def decide(self, context: Any, items: Any = None) -> Any:
        """Choose an arm or item; return a decision, whose attribute ``arm`` is its name."""
        ...

    def update(self, decision: Any, reward: float) -> object:
        """Learn from the reward of a decision."""
        ...


def make_for_dictionaries(spec: Spec, problem: Problem | ItemProblem, seed: int) -> PlaysDictionaries:
    """Make an agent for a problem with raw contexts: a `lim2.Bandit` with the algorithm, which encodes them.

    A class with a method ``decide`` plays itself. It is made with the keyword ``arms``, the names, which are None
    where there are items; with ``seed`` and ``usual_rewards`` if it names them; and with its settings.
    """
    arms = None if isinstance(problem, ItemProblem) else problem.arm_names
    maker = maker_of(spec)
    if spec.source.startswith("vw:"):
        from lim2.experiments import peers

        maker = peers.raw_maker(spec.source)
    elif not hasattr(maker, "decide"):
        if not _encodes(spec):
            raise TypeError(
                f"{spec.label} takes vectors, and {problem.name!r} has dictionaries; name an agent of lim2 or a class "
                f"with the method 'decide', or set {problem.name}.by_hand=true"
            )
        return Bandit(arms, algorithm=maker, seed=seed, **spec.settings)
    parameters = inspect.signature(maker).parameters
    offered = {"seed": seed, "usual_rewards": problem.usual_rewards}
    agent: PlaysDictionaries = maker(
        arms=arms, **{name: value for name, value in offered.items() if name in parameters}, **spec.settings
    )
    return agent


def _encodes(spec: Spec) -> bool:
    """Return whether `lim2.Bandit` can use an agent: it needs names of arms, and comes from an algorithm of lim2."""
    return spec.source in AGENTS or "arms" in inspect.signature(maker_of(spec)).parameters
