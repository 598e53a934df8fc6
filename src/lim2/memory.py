"""Component 3, memory: what an agent remembers of its past, bounded or not.

:class:`Buffer` is the paper's replay buffer E: a capacity shared by all arms, first in first out within the played
arm, or with equal shares. :class:`History` keeps everything, for the full-memory baseline. Both keep (context, arm,
reward) and a stamp, the number of tuples stored before.
"""

import itertools
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lim2._state import State, Stateful, a_count, an_array, check_names

_logger = logging.getLogger("lim2")

Array = NDArray[np.float64]
Rows = slice | NDArray[np.intp]

# Where a history starts; it doubles when it is full.
FIRST_SLOTS = 64


class Evicted(NamedTuple):
    """A tuple that had to leave."""

    context: NDArray[Any]
    arm: int
    reward: float
    stamp: int


# The slots that grouped tuples come from, and the queues before.
_Grouping = tuple[NDArray[np.intp], list[deque[int]]]


class _Staged(NamedTuple):
    """Where the tuple staged last was written, and the tuple that was there and leaves.

    ``grouping`` is what grouping the slots for it changed: their order, and the queues before; None if nothing.
    """

    slot: int
    evicted: Evicted | None
    slices: list[slice] | None = None
    grouping: _Grouping | None = None


class Batch(NamedTuple):
    """A sample of the memory, sorted by arm; ``groups`` lists the arms in it, each with its rows."""

    slots: NDArray[np.intp]
    contexts: NDArray[Any]
    arms: NDArray[np.intp]
    rewards: Array
    groups: list[tuple[int, slice]]


class _Store(Stateful):
    """Parallel arrays of tuples, and how to sample them.

    A tuple may be staged before it is committed: it is then seen, and can be trained on. :meth:`abandon` puts
    everything back as it was, also after the commit as long as nothing else was staged.
    """

    def __init__(self, capacity: int, n_arms: int, shape: int | tuple[int, ...], dtype: DTypeLike | None) -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.n_arms = n_arms
        # Without a dtype the first context brings it; until then there are no slots for contexts.
        self._typed = dtype is not None
        self._contexts: NDArray[Any] = np.zeros((capacity if self._typed else 0, *shape), dtype=dtype)
        self._arms = np.zeros(capacity, dtype=np.intp)
        self._rewards = np.zeros(capacity)
        self._stamps = np.zeros(capacity, dtype=np.int64)
        self._edges = np.arange(n_arms + 1)
        self._size = 0
        self._stored = 0

    def __len__(self) -> int:
        return self._size

    @property
    def stored(self) -> int:
        """How many tuples were ever stored, the one that is staged included."""
        return self._stored

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
        return self._stored - len(np.unique(self.stamps))  # a copy for another arm has the same stamp

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
        return np.asarray(keep ** (self._stored - 1.0 - self.stamps), dtype=np.float64)

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

    def stage(self, context: NDArray[Any], arm: int, reward: float) -> Evicted | None:
        """Write a tuple where it will be stored."""
        raise NotImplementedError

    def commit(self) -> None:
        """Keep the tuple staged last."""
        raise NotImplementedError

    def copy(self, slot: int, arm: int) -> None:
        """Store a tuple that is here for another arm, too, as old as it is; there must be room."""
        self.stage(self._contexts[slot].copy(), arm, float(self._rewards[slot]))
        self._stamps[self._size - 1] = self._stamps[slot]
        self._stored -= 1
        self.commit()

    def add_arm(self) -> None:
        """Make room in the books for one more arm."""
        self.n_arms += 1
        self._edges = np.arange(self.n_arms + 1)

    def remove_arm(self, arm: int) -> None:
        """Forget an arm's tuples; the arms after it move up."""
        kept = np.flatnonzero(self.arms != arm)
        for array in (self._contexts, self._arms, self._rewards, self._stamps):
            if len(array):
                array[: len(kept)] = array[kept]
        self._size = len(kept)
        self._arms[: self._size] -= self.arms > arm
        self.n_arms -= 1
        self._edges = np.arange(self.n_arms + 1)

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

    def _unwrite(self) -> None:
        """Count one tuple less; before the first one there is no type of contexts, unless it was given."""
        self._stored -= 1
        if not self._stored and not self._typed:
            self._contexts = np.zeros((0, *self._contexts.shape[1:]))

    def state(self) -> State:
        """Return a copy of the tuples held."""
        return {
            "contexts": self.contexts.copy(),
            "arms": self.arms.astype(np.int64),
            "rewards": self.rewards.copy(),
            "stamps": self.stamps.copy(),
            "stored": self._stored,
        }

    def _hold(self, state: Mapping[str, Any], capacity: int) -> None:
        """Take over the tuples of a state, in as many slots as there shall be; a ValueError tells what is wrong."""
        stored = a_count(state["stored"])
        contexts, stamps = state["contexts"], an_array(state["stamps"], np.int64)
        arms, rewards = an_array(state["arms"], np.intp), an_array(state["rewards"], np.float64)
        if not isinstance(contexts, np.ndarray) or contexts.shape != (len(contexts), *self._contexts.shape[1:]):
            raise ValueError(f"contexts must have shape (n, {', '.join(map(str, self._contexts.shape[1:]))})")
        if self._typed and contexts.dtype != self._contexts.dtype:
            raise ValueError(f"contexts are {contexts.dtype}, expected {self._contexts.dtype}")
        size = len(contexts)
        if not arms.shape == rewards.shape == stamps.shape == (size,) or not size <= capacity:
            raise ValueError(f"there are {size} contexts, {arms.shape} arms, {rewards.shape} rewards, {stored} stored")
        if size and not (0 <= arms.min() <= arms.max() < self.n_arms and 0 <= stamps.min() <= stamps.max() < stored):
            raise ValueError(f"there are arms beyond 0 to {self.n_arms - 1}, or stamps beyond 0 to {stored - 1}")
        if len(np.unique(np.stack((arms, stamps)), axis=1).T) != size:
            raise ValueError("two tuples of an arm have the same stamp")
        typed = self._typed or stored > 0
        held = zip(("_contexts", "_arms", "_rewards", "_stamps"), (contexts, arms, rewards, stamps), strict=True)
        for name, array in held:
            # Zeros take no memory until they are written, so a large capacity that is not used costs nothing.
            slots = np.zeros((capacity if typed or name != "_contexts" else 0, *array.shape[1:]), array.dtype)
            slots[:size] = array
            setattr(self, name, slots)
        self._size, self._stored = size, stored


class Buffer(_Store):
    """The bounded replay buffer.

    While there is room a tuple takes the next slot. When it is full, a new tuple of arm i replaces the oldest tuple
    of arm i; an arm that has nothing stored, or with ``fair`` less than its share, replaces the oldest tuple of the arm
    that holds most. An insertion costs O(1), whatever the capacity, but for one across arms.

    A full buffer keeps each arm's tuples side by side, so that :meth:`rows` is a slice and per-arm work needs no copy.
    Replacing a tuple by one of the same arm keeps that order; it is established when the first tuple has to leave, and
    again after a replacement across arms.

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
    fair
        Whether an arm may come to hold capacity // n_arms tuples at the cost of others. Without, an arm that was seldom
        played while the buffer filled stays with few tuples for ever.

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
        self,
        capacity: int,
        n_arms: int,
        shape: int | tuple[int, ...],
        dtype: DTypeLike | None = np.float64,
        fair: bool = False,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"a buffer must hold at least 1 tuple, got capacity={capacity}")
        super().__init__(capacity, n_arms, shape, dtype)
        self.capacity, self.fair = capacity, fair
        self._queues: list[deque[int]] = [deque() for _ in range(n_arms)]  # each arm's slots, the oldest first
        self._slices: list[slice] | None = None  # each arm's rows once they are side by side
        self._staged = _Staged(0, None)
        self._committed = False

    def add(self, context: NDArray[Any], arm: int, reward: float) -> Evicted | None:
        """Store a tuple; return the one that had to leave for it, if any."""
        evicted = self.stage(context, arm, reward)
        self.commit()
        return evicted

    def loser(self, arm: int) -> int | None:
        """Return the arm of which a tuple would have to leave for one of this arm; None while there is room."""
        return None if self._size < self.capacity else self._victim(arm)

    def _victim(self, arm: int) -> int:
        enough = self.capacity // self.n_arms if self.fair else 1
        if len(self._queues[arm]) >= max(enough, 1):
            return arm
        return max(range(self.n_arms), key=lambda i: len(self._queues[i]))

    def stage(self, context: NDArray[Any], arm: int, reward: float) -> Evicted | None:
        """Write a tuple where it will be stored; return the one that has to leave for it, if any."""
        self._check(context, arm)
        evicted = grouping = None
        slot = self._size
        if slot == self.capacity:
            victim = self._victim(arm)
            if self._slices is None:
                grouping = self._group()
            slot = self._queues[victim][0]
            stamp = int(self._stamps[slot])
            evicted = Evicted(self._contexts[slot].copy(), victim, float(self._rewards[slot]), stamp)
        self._staged = _Staged(slot, evicted, self._slices, grouping)
        self._committed = False
        try:
            self._write(slot, context, arm, reward)
        except BaseException:
            self._ungroup(grouping)
            raise
        if evicted is None:
            self._size += 1
        return evicted

    def commit(self) -> None:
        """Keep the tuple staged last."""
        slot, evicted, *_ = self._staged
        self._committed = True
        arm = int(self._arms[slot])
        if evicted is not None:
            self._queues[evicted.arm].popleft()
            if evicted.arm != arm:
                self._slices = None
                if not self._queues[arm]:
                    _logger.info("arm %d had nothing stored: the oldest tuple of arm %d left for it", arm, evicted.arm)
        elif self._size == self.capacity:
            _logger.info("the buffer is full with %d tuples: from now on one leaves for each that comes", self._size)
        self._queues[arm].append(slot)

    def abandon(self) -> None:
        """Forget the tuple staged last, and put the one that it replaced back."""
        slot, evicted, slices, grouping = self._staged
        if self._committed:
            self._queues[int(self._arms[slot])].pop()
            if evicted is not None:
                self._queues[evicted.arm].appendleft(slot)
            self._slices = slices
        if evicted is None:
            self._size -= 1
        else:
            self._write(slot, evicted.context, evicted.arm, evicted.reward)
            self._stored -= 1
            self._stamps[slot] = evicted.stamp
        self._unwrite()
        self._ungroup(grouping)

    def add_arm(self, capacity: int | None = None) -> None:
        """Make room in the books for one more arm, and, with a larger capacity, for its tuples."""
        super().add_arm()
        self._queues.append(deque())
        self._resize(self.capacity if capacity is None else capacity)

    def remove_arm(self, arm: int, capacity: int | None = None) -> None:
        """Forget an arm's tuples; the arms after it move up. A smaller capacity still holds what the others have."""
        super().remove_arm(arm)
        by_age = self.stamps.argsort()
        self._queues = [deque(by_age[self.arms[by_age] == i].tolist()) for i in range(self.n_arms)]
        self._resize(self.capacity if capacity is None else capacity)

    def _resize(self, capacity: int) -> None:
        self.capacity = max(capacity, self._size, 1)
        self._slices = None
        self._staged = _Staged(0, None)
        held = slice(0, self._size)
        for name in ("_contexts", "_arms", "_rewards", "_stamps"):
            array = getattr(self, name)
            if len(array) not in (0, self.capacity):
                new = np.zeros((self.capacity, *array.shape[1:]), dtype=array.dtype)
                new[held] = array[held]
                setattr(self, name, new)

    def rows(self, arm: int) -> Rows:
        """Return what selects an arm's tuples: a slice when they lie side by side, else their slots."""
        if self._slices is not None:
            return self._slices[arm]
        return np.fromiter(self._queues[arm], dtype=np.intp, count=len(self._queues[arm]))

    def _group(self) -> _Grouping:
        """Lay each arm's tuples side by side, in order of age; return what :meth:`_ungroup` needs."""
        order, before, slices = np.lexsort((self._stamps, self._arms)), self._queues, self._side_by_side()
        queues = [deque(range(rows.start, rows.stop)) for rows in slices]
        for array in (self._contexts, self._arms, self._rewards, self._stamps):
            array[:] = array[order]
        self._slices, self._queues = slices, queues
        return order, before

    def _ungroup(self, grouping: _Grouping | None) -> None:
        """Put the slots back into the order that they had before they were grouped."""
        if grouping is not None:
            order, self._queues = grouping
            self._slices = None
            for array in (self._contexts, self._arms, self._rewards, self._stamps):
                array[order] = array.copy()

    def _side_by_side(self) -> list[slice]:
        ends: list[int] = np.cumsum(self.counts).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def state(self) -> State:
        """Return a copy of the tuples held, in slot order, and whether each arm's lie side by side."""
        return {**super().state(), "capacity": self.capacity, "grouped": self._slices is not None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        check_names(state, ("contexts", "arms", "rewards", "stamps", "stored", "capacity", "grouped"))
        capacity, grouped = a_count(state["capacity"]), state["grouped"]
        arms = an_array(state["arms"], np.intp)
        if not isinstance(grouped, bool) or (grouped and ((np.diff(arms) < 0).any() or arms.size != capacity)):
            raise ValueError("grouped must tell whether the buffer is full and each arm's tuples lie side by side")
        if capacity < 1:
            raise ValueError("its capacity is 0")
        self._hold(state, capacity)
        self.capacity = capacity
        by_age = np.argsort(self.stamps)
        self._queues = [deque(by_age[self._arms[by_age] == arm].tolist()) for arm in range(self.n_arms)]
        self._slices = self._side_by_side() if grouped else None

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
        super().__init__(FIRST_SLOTS, n_arms, shape, dtype)

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
        self._unwrite()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        check_names(state, ("contexts", "arms", "rewards", "stamps", "stored"))
        slots = FIRST_SLOTS
        while slots < len(state["arms"]):
            slots *= 2
        self._hold(state, slots)

    def rows(self, arm: int) -> Rows:
        """Return the slots of an arm's tuples."""
        return np.flatnonzero(self.arms == arm)

    def __repr__(self) -> str:
        return f"History(held={self.counts.tolist()})"
