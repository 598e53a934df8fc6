"""Recompute only some of the buffer's features in a round, for networks that are slow over the whole buffer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2._state import State, Stateful, a_count, an_array, check_names, state_of
from lim2.agents.base import Array
from lim2.agents.checks import positive_int
from lim2.memory import Buffer, History


class Recompute(Stateful):
    """The features of everything in memory, each as it was when it was last computed.

    Anew in a round are: the tuple just stored, those whose new features are needed anyway, and those that are due. Due
    is, every ``every`` rounds, a share of the memory, slot after slot in turn.

    Parameters
    ----------
    every
        Rounds between the parts that are due.
    share
        Share of the memory that is due then, above 0 and at most 1.

    Examples
    --------
    >>> memory = Buffer(capacity=4, n_arms=1, shape=1)
    >>> recompute = Recompute(every=2, share=0.5)
    >>> for t in range(5):
    ...     _ = memory.add(np.array([0.0]), 0, 0.0)
    ...     features = recompute(memory, lambda contexts: np.full((len(contexts), 1), float(t)))
    ...     print(features[:, 0].tolist())
    [0.0]
    [1.0, 1.0]
    [1.0, 1.0, 2.0]
    [1.0, 3.0, 3.0, 3.0]
    [4.0, 3.0, 3.0, 3.0]
    """

    def __init__(self, every: int, share: float) -> None:
        self.every = positive_int("recompute_every", every)
        self.share = float(share)
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"recompute_share must be above 0 and at most 1, got {share!r}")
        self._rounds = 0
        self._turn = 0  # the slot that is due next
        self._stamps = np.empty(0, dtype=np.int64)
        self._features: Array = np.empty((0, 0))

    @property
    def nbytes(self) -> int:
        """Bytes of the features kept."""
        return self._stamps.nbytes + self._features.nbytes

    def __call__(
        self,
        memory: Buffer | History,
        compute: Callable[[NDArray[np.generic]], Array],
        needed: NDArray[np.intp] | None = None,
    ) -> Array:
        """Return the features of everything in memory, in slot order; read-only for the caller.

        ``compute`` gives the features of rows of contexts, ``needed`` lists slots that must be up to date.
        """
        anew = self._unknown(memory.stamps)
        if needed is not None:
            anew[needed] = True
        self._rounds += 1
        if self._rounds % self.every == 0:
            due = int(np.ceil(self.share * len(memory)))
            anew[(self._turn + np.arange(due)) % len(memory)] = True
            self._turn = (self._turn + due) % len(memory)
        if anew.all():
            self._features = compute(memory.contexts)
        else:
            self._features[anew] = compute(memory.contexts[anew])
        return self._features

    def state(self) -> State:
        """Return a copy of the features kept, and whose turn it is."""
        return state_of(self, ("_rounds", "_turn", "_stamps", "_features"))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        check_names(state, ("rounds", "turn", "stamps", "features"))
        stamps, features = an_array(state["stamps"], np.int64), an_array(state["features"], np.float64)
        if features.ndim != 2 or stamps.shape != (len(features),):
            raise ValueError(f"there are {stamps.shape} stamps of features of shape {features.shape}")
        self._rounds, self._turn = a_count(state["rounds"]), a_count(state["turn"])
        self._stamps, self._features = stamps, features

    def _unknown(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Bring what is kept into the order of the memory; tell which slots hold a tuple that is new."""
        if len(stamps) != len(self._stamps) or np.count_nonzero(stamps != self._stamps) > 1:
            order = self._stamps.argsort()
            found = np.minimum(self._stamps.searchsorted(stamps, sorter=order), max(len(order) - 1, 0))
            if len(order):
                self._stamps, self._features = self._stamps[order[found]], self._features[order[found]]
            else:
                self._stamps = np.full(len(stamps), -1)
        unknown: NDArray[np.bool_] = stamps != self._stamps
        self._stamps = stamps.copy()
        return unknown
