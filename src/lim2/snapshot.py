"""An agent as it was at one moment, for other threads to decide by while it goes on learning."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.decision import Decision

if TYPE_CHECKING:
    from lim2.agent import Agent

Array = NDArray[np.float64]


class Snapshot:
    """What :meth:`lim2.Agent.snapshot` returns: it decides as the agent would have then, and never changes.

    Any number of threads may call it at once. Its decisions draw from a random stream that all snapshots of an agent
    share, apart from that of ``agent.act``: with a seed, and one thread at a time, they are the same in every run; of
    several threads each decision is drawn correctly, in the order of the calls. At the start of an agent, arms take
    turns across all its snapshots.

    Attributes
    ----------
    rounds
        How many updates the agent had had.

    Examples
    --------
    >>> from lim2 import LinearTS
    >>> agent = LinearTS(n_arms=3, n_features=1, seed=0)
    >>> snapshot = agent.snapshot()
    >>> [snapshot.act([1.0]) for _ in range(4)], snapshot.rounds
    ([0, 1, 2, 0], 0)
    """

    __slots__ = ("_agent",)

    def __init__(self, frozen: Agent) -> None:
        self._agent: Any = frozen

    @property
    def rounds(self) -> int:
        """How many updates the agent had had."""
        return int(self._agent.rounds)

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self._agent.n_arms)

    @property
    def arms(self) -> tuple[Any, ...]:
        """The names of the arms."""
        return tuple(self._agent.arms)

    def act(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Any:
        """Choose an arm, as :meth:`lim2.Agent.act` does."""
        return self._agent.act(context, arms, exploit=exploit)

    def act_many(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> NDArray[Any]:
        """Choose an arm for each row of contexts, as :meth:`lim2.Agent.act_many` does."""
        chosen: NDArray[Any] = self._agent.act_many(contexts, arms, exploit=exploit)
        return chosen

    def decide(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Decision:
        """Choose an arm and return how likely that was, as :meth:`lim2.Agent.decide` does."""
        decision: Decision = self._agent.decide(context, arms, exploit=exploit)
        return decision

    def propensities(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> Array:
        """Return how likely each arm is to be chosen, as :meth:`lim2.Agent.propensities` does."""
        propensities: Array = self._agent.propensities(contexts, arms, exploit=exploit)
        return propensities

    def means(self, contexts: ArrayLike) -> Array:
        """Return the expected score of every arm: (n_arms,) for one context, (n, n_arms) for rows of contexts."""
        means: Array = self._agent.means(contexts)
        return means

    def variances(self, contexts: ArrayLike) -> Array:
        """Return the variance of every arm's score, in the shape of :meth:`means`."""
        variances: Array = self._agent.variances(contexts)
        return variances

    def __repr__(self) -> str:
        return f"Snapshot of {self._agent!r} after {self.rounds} rounds"
