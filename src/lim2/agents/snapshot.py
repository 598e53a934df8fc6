"""An agent as it was at one moment, for other threads to decide by while it goes on learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from lim2.agents.base import Agent

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
        How many updates the agent had seen.

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
        """How many updates the agent had seen."""
        return int(self._agent.rounds)

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self._agent.n_arms)

    @property
    def arms(self) -> tuple[Any, ...]:
        """The names of the arms."""
        return tuple(self._agent.arms)

    def act(self, context: ArrayLike, arms: Sequence[Any] | NDArray[np.generic] | None = None) -> Any:
        """Choose an arm, as :meth:`lim2.Agent.act` does."""
        return self._agent.act(context, arms)

    def act_many(self, contexts: ArrayLike) -> Any:
        """Choose an arm for each row of contexts, as :meth:`lim2.Agent.act_many` does."""
        return self._agent.act_many(contexts)

    def decide(self, context: ArrayLike, arms: Sequence[Any] | None = None, *, exploit: bool = False) -> Any:
        """Choose an arm and tell how likely that was, as the agent's ``decide`` does."""
        return self._agent.decide(context, arms, exploit=exploit)

    def propensities(self, contexts: ArrayLike, arms: Sequence[Any] | None = None, *, exploit: bool = False) -> Any:
        """Return how likely each arm is to be chosen, as the agent's ``propensities`` does."""
        return self._agent.propensities(contexts, arms, exploit=exploit)

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
