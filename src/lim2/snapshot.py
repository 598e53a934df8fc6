"""Read-only snapshots of an agent, which other threads can decide with while the agent learns."""

from collections.abc import Mapping
from typing import Any

from lim2 import streams
from lim2._blas import one_thread
from lim2.deciding import Decider


class Snapshot(Decider):
    """Read-only snapshot of an agent, made by :meth:`lim2.Agent.snapshot`. It decides but never learns.

    Any number of threads may use it at once. All snapshots of an agent share one random stream, separate from that of
    ``agent.act``. With a seed and one thread at a time, decisions are the same in every run. With several threads, each
    decision is drawn correctly, but the order of calls decides which draw it gets. All snapshots of an agent share the
    initial turns of its arms. Where a pickled snapshot is loaded, it has turns of its own, and a random stream of its
    own: with a seed it continues as the pickled one would have, without a seed it is new.

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

    def __getstate__(self) -> dict[str, Any]:
        with streams.lock:
            kept = {**self.__dict__, "_asked": self._asked.copy()}
        if not self._streams.seeded:
            del kept["_streams"]
        core = kept["_core"]
        with one_thread:
            state = self.algorithm.for_deciding(core.state)
        return {**kept, "_core": core._replace(latest=None, state=state)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_streams" not in state:
            self._streams = streams.Streams(None)

    def __repr__(self) -> str:
        return f"Snapshot({self.name}, n_arms={self.n_arms}, rounds={self.rounds})"
