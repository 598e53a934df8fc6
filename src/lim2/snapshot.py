"""An agent as it was at one moment, for other threads to decide by while it goes on learning."""

from collections.abc import Mapping
from typing import Any

from lim2.deciding import Decider


class Snapshot(Decider):
    """What :meth:`lim2.Agent.snapshot` returns: it decides as the agent would have then, and never changes.

    Any number of threads may call it at once. Its decisions draw from a random stream that all snapshots of an agent
    share, apart from that of ``agent.act``: with a seed, and one thread at a time, they are the same in every run; of
    several threads each decision is drawn correctly, in the order of the calls. At the start of an agent, arms take
    turns across all its snapshots.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=3, n_features=1, seed=0)
    >>> snapshot = agent.snapshot()
    >>> [snapshot.act([1.0]) for _ in range(4)], snapshot.rounds
    ([0, 1, 2, 0], 0)
    """

    def __init__(self, agent: Mapping[str, Any]) -> None:
        self.__dict__.update(agent)
        self._serves = True

    def __repr__(self) -> str:
        return f"Snapshot({self.name}, n_arms={self.n_arms}, rounds={self.rounds})"
