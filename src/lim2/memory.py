"""Component 3, memory: what an agent remembers of its past, bounded or not.

:class:`Buffer` is the paper's replay buffer E: a capacity shared by all arms, first in first out within the played
arm. :class:`History` keeps everything, for the full-memory baseline. Both keep (context, arm, reward) and a stamp,
the number of tuples stored before.
"""

import itertools
import logging
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lim2._arrays import OwnsArrays

_logger = logging.getLogger("lim2")

Array = NDArray[np.float64]
Rows = slice | NDArray[np.intp]


class Evicted(NamedTuple):
    """A tuple that had to leave."""

    context: NDArray[Any]
    arm: int
    reward: float
    stamp: int


class _Staged(NamedTuple):
    """Where the tuple staged last was written, and the tuple that was there and leaves."""

    slot: int
    evicted: Evicted | None


class Batch(NamedTuple):
    """A sample of the memory, sorted by arm; ``groups`` lists the arms in it, each with its rows."""

    slots: NDArray[np.intp]
    contexts: NDArray[Any]
    arms: NDArray[np.intp]
    rewards: Array
    groups: list[tuple[int, slice]]


class _Store(OwnsArrays):
    """Parallel arrays of tuples, and how to sample them.

    A tuple may be staged before it is committed: it is then seen, and can be trained on, but :meth:`abandon` puts
    everything back as it was.
    """

    def __init__(self, capacity: int, n_arms: int, shape: int | tuple[int, ...], dtype: DTypeLike | None) -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.n_arms = n_arms
        # Without a dtype the first context brings it; until then there are no slots for contexts.
        self._contexts: NDArray[Any] = np.zeros((0 if dtype is None else capacity, *shape), dtype=dtype)
        self._arms = np.zeros(capacity, dtype=np.intp)
        self._rewards = np.zeros(capacity)
        self._stamps = np.zeros(capacity, dtype=np.int64)
        self._edges = np.arange(n_arms + 1)
        self._size = 0
        self._stored = 0

    def __len__(self) -> int:
        return self._size

    @property
    def contexts(self) -> NDArray[Any]:
        """The stored contexts, a view in slot order."""
        return self._contexts[: self._size]

    @property
    def arms(self) -> NDArray[np.intp]:
        """The stored arms, a view in slot order."""
        return self._arms[: self._size]

    @property
    def rewards(self) -> Array:
        """The stored rewards, a view in slot order."""
        return self._rewards[: self._size]

    @property
    def stamps(self) -> NDArray[np.int64]:
        """How many tuples were stored before each one, a view in slot order."""
        return self._stamps[: self._size]

    @property
    def evicted(self) -> int:
        """How many tuples have left."""
        return self._stored - self._size

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many tuples of each arm are held."""
        return np.bincount(self.arms, minlength=self.n_arms)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(a.nbytes for a in (self._contexts, self._arms, self._rewards, self._stamps))

    def fading(self, keep: float) -> Array:
        """Return what each tuple still counts, ``keep`` to the power of how many were stored since, in slot order."""
        weights: Array = np.float64(keep) ** (self._stored - 1 - self.stamps)
        return weights

    def age(self, stamp: int) -> int:
        """Return how many tuples were stored after the one with this stamp."""
        return self._stored - 1 - stamp

    def sample(self, size: int, rng: np.random.Generator, weights: Array | None = None) -> Batch:
        """Draw ``size`` tuples with replacement, sorted by arm, in the order of drawing within an arm.

        Uniformly, or in proportion to weights in slot order.
        """
        if not self._size:
            raise ValueError("there is nothing to sample: the memory is empty")
        if weights is None:
            # Quicker than rng.integers, and as uniform: a double in [0, 1) times n never rounds up to n.
            slots = (rng.random(size) * self._size).astype(np.intp)
        else:
            ends = weights.cumsum()
            slots = np.minimum(ends.searchsorted(rng.random(size) * ends[-1], side="right"), self._size - 1)
        arms = self._arms.take(slots)
        order = arms.argsort(kind="stable")
        slots, arms = slots.take(order), arms.take(order)
        bounds = itertools.pairwise(arms.searchsorted(self._edges).tolist())
        groups = [(arm, slice(start, stop)) for arm, (start, stop) in enumerate(bounds) if stop > start]
        return Batch(slots, self._contexts.take(slots, axis=0), arms, self._rewards.take(slots), groups)

    def _check(self, context: NDArray[Any], arm: int) -> None:
        if not 0 <= arm < self.n_arms:
            raise ValueError(f"unknown arm {arm}: this memory has the arms 0 to {self.n_arms - 1}")
        if np.shape(context) != self._contexts.shape[1:]:
            raise ValueError(f"a context must have shape {self._contexts.shape[1:]}, got {np.shape(context)}")

    def _write(self, slot: int, context: NDArray[Any], arm: int, reward: float) -> None:
        if not len(self._contexts):
            self._contexts = np.zeros((len(self._arms), *self._contexts.shape[1:]), dtype=context.dtype)
        self._contexts[slot] = context
        self._arms[slot] = arm
        self._rewards[slot] = reward
        self._stamps[slot] = self._stored
        self._stored += 1


class Buffer(_Store):
    """The bounded replay buffer.

    While there is room a tuple takes the next slot. When it is full, a new tuple of arm i replaces the oldest tuple
    of arm i; an arm that has nothing stored replaces the oldest tuple of the arm that holds most. An insertion costs
    O(1), whatever the capacity.

    A full buffer keeps each arm's tuples side by side, so that :meth:`rows` is a slice and per-arm work needs no copy.
    Replacing a tuple by one of the same arm keeps that order; it is established when the first tuple has to leave, and
    again after the rare replacement across arms.

    Parameters
    ----------
    capacity
        How many tuples are held at most, all arms together.
    n_arms
        Number of arms.
    shape
        Shape of a context.
    dtype
        Type of a context's values; None for that of the first context.

    Examples
    --------
    >>> buffer = Buffer(capacity=3, n_arms=2, shape=1)
    >>> for reward, arm in enumerate([0, 1, 0]):
    ...     buffer.add(np.array([0.5]), arm, float(reward))
    >>> evicted = buffer.add(np.array([0.5]), 0, 3.0)
    >>> evicted.reward, buffer.counts.tolist(), sorted(buffer.rewards.tolist())
    (0.0, [2, 1], [1.0, 2.0, 3.0])
    """

    def __init__(
        self, capacity: int, n_arms: int, shape: int | tuple[int, ...], dtype: DTypeLike | None = np.float64
    ) -> None:
        if capacity < 1:
            raise ValueError(f"a buffer must hold at least 1 tuple, got capacity={capacity}")
        super().__init__(capacity, n_arms, shape, dtype)
        self.capacity = capacity
        self._queues: list[deque[int]] = [deque() for _ in range(n_arms)]  # each arm's slots, the oldest first
        self._slices: list[slice] | None = None  # each arm's rows once they are side by side
        self._staged = _Staged(0, None)

    def add(self, context: NDArray[Any], arm: int, reward: float) -> Evicted | None:
        """Store a tuple; return the one that had to leave for it, if any."""
        evicted = self.stage(context, arm, reward)
        self.commit()
        return evicted

    def stage(self, context: NDArray[Any], arm: int, reward: float) -> Evicted | None:
        """Write a tuple where it will be stored; return the one that has to leave for it, if any."""
        self._check(context, arm)
        evicted = None
        if self._size < self.capacity:
            slot = self._size
            self._size += 1
        else:
            if self._slices is None:
                self._group()
            victim = arm if self._queues[arm] else max(range(self.n_arms), key=lambda i: len(self._queues[i]))
            slot = self._queues[victim][0]
            stamp = int(self._stamps[slot])
            evicted = Evicted(self._contexts[slot].copy(), victim, float(self._rewards[slot]), stamp)
        self._staged = _Staged(slot, evicted)
        self._write(slot, context, arm, reward)
        return evicted

    def commit(self) -> None:
        """Keep the tuple staged last."""
        slot, evicted = self._staged
        arm = int(self._arms[slot])
        if evicted is not None:
            self._queues[evicted.arm].popleft()
            if evicted.arm != arm:
                self._slices = None
                _logger.info("arm %d had nothing stored: the oldest tuple of arm %d left for it", arm, evicted.arm)
        elif self._size == self.capacity:
            _logger.info("the buffer is full with %d tuples: from now on one leaves for each that comes", self._size)
        self._queues[arm].append(slot)

    def abandon(self) -> None:
        """Forget the tuple staged last, and put the one that it replaced back."""
        slot, evicted = self._staged
        self._stored -= 1
        if evicted is None:
            self._size -= 1
        else:
            self._write(slot, evicted.context, evicted.arm, evicted.reward)
            self._stamps[slot] = evicted.stamp
            self._stored -= 1

    def rows(self, arm: int) -> Rows:
        """Return what selects an arm's tuples: a slice when they lie side by side, else their slots."""
        if self._slices is not None:
            return self._slices[arm]
        return np.fromiter(self._queues[arm], dtype=np.intp, count=len(self._queues[arm]))

    def _group(self) -> None:
        """Lay each arm's tuples side by side, in order of age."""
        order = np.lexsort((self._stamps, self._arms))
        for array in (self._contexts, self._arms, self._rewards, self._stamps):
            array[:] = array[order]
        ends: list[int] = np.cumsum(self.counts).tolist()
        self._slices = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self._queues = [deque(range(rows.start, rows.stop)) for rows in self._slices]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and of the queues."""
        return super().nbytes + 8 * self.capacity

    def __repr__(self) -> str:
        return f"Buffer(capacity={self.capacity}, held={self.counts.tolist()})"


class History(_Store):
    """Everything that ever happened; grows by doubling.

    Examples
    --------
    >>> history = History(n_arms=2, shape=1)
    >>> for t in range(100):
    ...     history.add(np.array([0.5]), t % 2, 1.0)
    >>> len(history), history.counts.tolist(), history.capacity
    (100, [50, 50], None)
    """

    capacity = None

    def __init__(self, n_arms: int, shape: int | tuple[int, ...], dtype: DTypeLike | None = np.float64) -> None:
        super().__init__(64, n_arms, shape, dtype)

    def add(self, context: NDArray[Any], arm: int, reward: float) -> None:
        """Store a tuple; nothing ever leaves."""
        self.stage(context, arm, reward)

    def stage(self, context: NDArray[Any], arm: int, reward: float) -> None:
        """Store a tuple, of which :meth:`abandon` can be told; nothing ever leaves."""
        self._check(context, arm)
        if self._size == len(self._arms):
            self._contexts = np.concatenate([self._contexts, np.zeros_like(self._contexts)])
            self._arms = np.concatenate([self._arms, np.zeros_like(self._arms)])
            self._rewards = np.concatenate([self._rewards, np.zeros_like(self._rewards)])
            self._stamps = np.concatenate([self._stamps, np.zeros_like(self._stamps)])
        self._write(self._size, context, arm, reward)
        self._size += 1

    def commit(self) -> None:
        """Keep the tuple staged last."""

    def abandon(self) -> None:
        """Forget the tuple staged last."""
        self._size -= 1
        self._stored -= 1

    def rows(self, arm: int) -> Rows:
        """Return the slots of an arm's tuples."""
        return np.flatnonzero(self.arms == arm)

    def __repr__(self) -> str:
        return f"History(held={self.counts.tolist()})"
