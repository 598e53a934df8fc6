"""What NeuralUCB and NeuralTS train on: every tuple ever seen, or the latest ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2._state import State, Stateful, a_count, an_array, check_names

Array = NDArray[np.float64]

FIRST_SLOTS = 64


class Window(Stateful):
    """The history of (context, arm, reward), whole or bounded; when full, the oldest tuple leaves.

    A tuple is first staged, so that it can be trained on, and is held only once it is committed: when training fails
    in between, nothing has happened. For that a bounded window has one slot more than its bound.

    Parameters
    ----------
    n_features
        Size of a context.
    bound
        How many tuples are held at most; None for all.

    Examples
    --------
    >>> window = Window(n_features=1, bound=2)
    >>> for reward in (1.0, 2.0, 3.0):
    ...     slots = window.stage(np.array([0.5]), 0, reward)
    ...     window.commit()
    >>> len(window), window.rewards[window.slots()].tolist()
    (2, [2.0, 3.0])
    """

    def __init__(self, n_features: int, bound: int | None = None) -> None:
        self.bound = bound
        slots = FIRST_SLOTS if bound is None else min(FIRST_SLOTS, bound + 1)
        self.contexts = np.zeros((slots, n_features))
        self.arms = np.zeros(slots, dtype=np.intp)
        self.rewards = np.zeros(slots)
        self._stored = 0

    def __len__(self) -> int:
        return self._stored if self.bound is None else min(self._stored, self.bound)

    @property
    def evicted(self) -> int:
        """How many tuples have left."""
        return self._stored - len(self)

    def stored(self) -> int:
        """How many tuples were ever held."""
        return self._stored

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.contexts.nbytes + self.arms.nbytes + self.rewards.nbytes

    def stage(self, context: Array, arm: int, reward: float) -> NDArray[np.intp]:
        """Write a tuple where it will be held, and return the slots to train on: as :meth:`slots` once committed."""
        slot = self._stored if self.bound is None else self._stored % (self.bound + 1)
        if slot == len(self.rewards):
            self._grow()
        self.contexts[slot] = context
        self.arms[slot] = arm
        self.rewards[slot] = reward
        return self._latest(self._stored + 1)

    def commit(self) -> None:
        """Hold the tuple staged last."""
        self._stored += 1

    def abandon(self) -> None:
        """Forget the tuple committed last: the one that left for it is still in its slot."""
        self._stored -= 1

    def slots(self) -> NDArray[np.intp]:
        """Return the slots of the tuples held, the oldest first."""
        return self._latest(self._stored)

    def remove_arm(self, arm: int) -> None:
        """Forget an arm's tuples; the arms after it move up."""
        slots = self.slots()
        kept = slots[self.arms[slots] != arm]
        for array in (self.contexts, self.arms, self.rewards):
            array[: len(kept)] = array[kept]
        self._stored = len(kept)
        self.arms[: self._stored] -= self.arms[: self._stored] > arm

    def _latest(self, end: int) -> NDArray[np.intp]:
        if self.bound is None:
            return np.arange(end)
        return np.arange(max(end - self.bound, 0), end) % (self.bound + 1)

    def _grow(self) -> None:
        slots = 2 * len(self.rewards)
        if self.bound is not None:
            slots = min(slots, self.bound + 1)
        more = slots - len(self.rewards)
        self.contexts = np.concatenate((self.contexts, np.zeros((more, self.contexts.shape[1]))))
        self.arms = np.concatenate((self.arms, np.zeros(more, dtype=np.intp)))
        self.rewards = np.concatenate((self.rewards, np.zeros(more)))

    def state(self) -> State:
        """Return a copy of the tuples held, the oldest first."""
        slots = self.slots()
        held = {"contexts": self.contexts[slots], "arms": self.arms[slots].astype(np.int64)}
        return {**held, "rewards": self.rewards[slots], "stored": self._stored}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        check_names(state, ("contexts", "arms", "rewards", "stored"))
        stored, n_features = a_count(state["stored"]), self.contexts.shape[1]
        size = stored if self.bound is None else min(stored, self.bound)
        contexts, rewards = (an_array(state[name], np.float64) for name in ("contexts", "rewards"))
        arms = an_array(state["arms"], np.intp)
        if contexts.shape != (size, n_features) or not arms.shape == rewards.shape == (size,):
            raise ValueError(
                f"of {size} tuples there are contexts {contexts.shape}, arms {arms.shape}, {rewards.shape}"
            )
        slots = self._latest(stored)
        while len(self.rewards) <= slots.max(initial=0):
            self._grow()
        for name, values in (("contexts", contexts), ("arms", arms), ("rewards", rewards)):
            getattr(self, name)[slots] = values
        self._stored = stored

    def __repr__(self) -> str:
        return f"Window(held={len(self)}, bound={self.bound})"
