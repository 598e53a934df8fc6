"""Component 3, memory: past tuples, bounded or not.

A :class:`Memory` is a version of the buffer E, or of the whole history: a value. Versions share storage. A new tuple
is written to a row that the previous version does not use, so the previous version stays valid for one more step, and
a failed update changes nothing. To keep an older version, copy it (``state.copied``).
"""

import itertools
import logging
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import _kernels
from lim2.checks import LARGEST
from lim2.state import Array, Count, Ints

_logger = logging.getLogger("lim2")

FIRST_ROWS = 64  # of storage, which doubles when it is full


class Memory(NamedTuple):
    """Tuples (context, arm, reward), each with a stamp: the number of tuples stored before it.

    Tuples are known by slots, 0 to held - 1, which is the order in which a batch is drawn. While there is room a tuple
    takes the next slot. A full buffer has its slots sorted by arm; a new tuple takes the slot of the one that leaves.
    Where many leave at once, which only a memory of no fixed capacity allows, contexts stay where they are: ``order``
    names the rows of the slots, and behind them those that are free.
    """

    contexts: Annotated[NDArray[Any], "row *context"]
    arms: Annotated[Ints, "row"]
    rewards: Annotated[Array, "row"]
    stamps: Annotated[Ints, "row"]
    order: Annotated[Ints, "place"] | None  # the row of every slot, then free rows; None: those before `free`, in turn
    heads: Annotated[Ints, "arm"] | None  # slots sorted by arm: how far each arm's oldest is from its first slot
    counts: Annotated[Ints, "arm"]  # tuples of each arm
    free: Count  # the row in which the next tuple is written
    held: Count
    stored: Count
    capacity: Count | None  # None: everything is kept

    def rows(self) -> Ints:
        """Return the row of every slot."""
        if self.order is not None:
            return self.order[: self.held]
        if self.free >= self.held:
            return np.arange(self.free - self.held, self.free)
        return np.arange(self.free - self.held, self.free) % len(self.rewards)

    def by_arm(self) -> tuple[Ints, list[int]]:
        """Return rows sorted by arm, and bounds: those of arm i are ``rows[bounds[i]:bounds[i + 1]]``.

        Where the memory has ``heads``, slots are sorted by arm, and these are the rows of all slots in turn.
        """
        rows = self.rows()
        if self.heads is None:
            rows = rows[self.arms[rows].argsort(kind="stable")]
        return rows, [0, *itertools.accumulate(self.counts.tolist())]

    @property
    def evicted(self) -> int:
        """Number of evicted tuples; a copy for another arm has the same stamp as its original."""
        return self.stored - len(np.unique(self.stamps[self.rows()]))

    def canonical(self) -> "Memory":
        """Return a copy of the memory without spare rows, as it is saved."""
        rows, held = self.rows(), self.held
        arrays = self.contexts[rows], self.arms[rows], self.rewards[rows], self.stamps[rows]
        return Memory(*arrays, None, self.heads, self.counts, held, held, self.stored, self.capacity)


class Evicted(NamedTuple):
    """An evicted tuple."""

    context: NDArray[Any]
    arm: int
    reward: float
    stamp: int


class Batch(NamedTuple):
    """A sample of the memory, sorted by arm."""

    slots: Ints
    rows: Ints
    contexts: NDArray[Any]
    arms: Ints
    rewards: Array

    @property
    def groups(self) -> list[tuple[int, slice]]:
        """The arms of the batch, each with its rows."""
        starts = [0, *(np.flatnonzero(self.arms[1:] != self.arms[:-1]) + 1).tolist()]
        bounds = itertools.pairwise([*starts, len(self.arms)])
        return [(int(self.arms[start]), slice(start, stop)) for start, stop in bounds]


def empty(capacity: int | None, n_arms: int, shape: tuple[int, ...]) -> Memory:
    """Return an empty memory; its storage grows with the stored tuples, up to the capacity plus one row.

    Examples
    --------
    >>> memory = empty(capacity=3, n_arms=2, shape=(1,))
    >>> for reward, arm in enumerate([0, 1, 0]):
    ...     memory, evicted = store(memory, np.array([0.5]), arm, float(reward))
    >>> memory, evicted = store(memory, np.array([0.5]), 0, 3.0)
    >>> evicted.reward, memory.counts.tolist(), memory.rewards[memory.rows()].tolist()
    (0.0, [2, 1], [3.0, 2.0, 1.0])
    """
    if capacity is not None and capacity < 1:
        raise ValueError(f"a buffer must hold at least 1 tuple, got capacity={capacity}")
    none = np.zeros(0, dtype=np.intp)
    counts = np.zeros(n_arms, dtype=np.intp)
    return Memory(np.zeros((0, *shape)), none, np.zeros(0), none, None, None, counts, 0, 0, 0, capacity)


def store_latest(memory: Memory, context: NDArray[Any], arm: int, reward: float) -> Memory:
    """Store a tuple; if the memory is full, evict the oldest of all. Slots are in order of age."""
    memory = _written(memory, context, arm, reward)
    if memory.capacity is None or memory.held < memory.capacity:
        return _appended(memory, arm)
    counts = memory.counts.copy()
    counts[memory.arms[memory.free - memory.held]] -= 1
    counts[arm] += 1
    free = (memory.free + 1) % (memory.capacity + 1)
    return memory._replace(counts=counts, free=free, stored=memory.stored + 1)


def store(
    memory: Memory, context: NDArray[Any], arm: int, reward: float, stamp: int | None = None
) -> tuple[Memory, Evicted | None]:
    """Store a tuple; if the memory is full, evict the oldest of its arm.

    The first tuple of an arm replaces the oldest one of the arm with the most tuples. Return the new version and the
    evicted tuple. A memory without a fixed capacity may have stamps of the caller.
    """
    memory = _written(memory, context, arm, reward)
    if stamp is not None:
        memory.stamps[memory.free] = stamp
    contexts, arms, rewards, stamps, order, heads, counts, free, held, stored, capacity = memory
    if capacity is None or held < capacity:
        return _appended(memory, arm), None
    evicted = arm if counts[arm] else int(counts.argmax())
    if order is None or heads is None:  # sort the slots by arm, and by age within an arm
        rows = memory.rows()
        if heads is None:
            rows, heads = rows[np.lexsort((stamps[rows], arms[rows]))], np.zeros(len(counts), dtype=np.intp)
        order = rows
    slot = sum(counts[:evicted].tolist()) + int(heads[evicted])
    row = int(order[slot])
    order, counts = order.copy(), counts.copy()
    order[slot] = free
    counts[evicted] -= 1
    counts[arm] += 1
    if evicted == arm:
        heads = heads.copy()
        heads[arm] = (heads[arm] + 1) % counts[arm]
    else:
        heads = None  # one slot is out of place: they are sorted again when the next tuple comes
        _logger.info("arm %d had nothing stored: the oldest tuple of arm %d left for it", arm, evicted)
    oldest = Evicted(contexts[row], evicted, float(rewards[row]), int(stamps[row]))
    return Memory(contexts, arms, rewards, stamps, order, heads, counts, row, held, stored + 1, capacity), oldest


def store_many(
    memory: Memory, contexts: NDArray[Any], arms: Ints, rewards: Array, stamps: Ints | None = None
) -> Memory:
    """Store tuples in turn, in a memory without a fixed capacity.

    Examples
    --------
    >>> memory = store_many(empty(None, 2, (1,)), np.zeros((3, 1)), np.array([1, 0, 1]), np.arange(3.0))
    >>> memory.counts.tolist(), memory.rewards[memory.rows()].tolist(), memory.stored
    ([1, 2], [0.0, 1.0, 2.0], 3)
    """
    count, rows, held = len(rewards), len(memory.rewards), memory.held
    missing = count - (rows - memory.free if memory.order is None else rows - held)
    if missing > 0:
        memory = _with_storage(memory, max(2 * rows, rows + missing, FIRST_ROWS), contexts.dtype)
    order, free, end = memory.order, memory.free, held + count
    new = slice(free, free + count) if order is None else order[held:end]
    memory.contexts[new], memory.arms[new], memory.rewards[new] = contexts, arms, rewards
    memory.stamps[new] = np.arange(memory.stored, memory.stored + count) if stamps is None else stamps
    counts = memory.counts + np.bincount(arms, minlength=len(memory.counts))
    free = free + count if order is None else _next_free(order, end)
    return memory._replace(counts=counts, free=free, held=end, stored=memory.stored + count)


def _written(memory: Memory, context: NDArray[Any], arm: int, reward: float) -> Memory:
    """Write a tuple to the free row, after enlarging the storage if there is none; stored tuples do not change."""
    free = memory.free
    if free == len(memory.rewards):
        size = max(2 * free, FIRST_ROWS)
        size = size if memory.capacity is None else min(size, memory.capacity + 1)
        memory = _with_storage(memory, size, context.dtype)
    memory.contexts[free] = context
    memory.arms[free] = arm
    memory.rewards[free] = reward
    memory.stamps[free] = memory.stored
    return memory


def _with_storage(memory: Memory, size: int, kind: np.dtype[Any]) -> Memory:
    """Return the memory with storage of ``size`` rows."""
    rows = len(memory.rewards)
    contexts = memory.contexts if rows else memory.contexts.astype(kind)  # the first brings its type
    return memory._replace(
        contexts=_grown(contexts, size), arms=_grown(memory.arms, size),
        rewards=_grown(memory.rewards, size), stamps=_grown(memory.stamps, size),
        order=None if memory.order is None else np.append(memory.order, np.arange(rows, size)),
    )  # fmt: skip


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    out = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


def _appended(memory: Memory, arm: int) -> Memory:
    """Add the tuple in the free row as the next slot."""
    contexts, arms, rewards, stamps, order, _, counts, free, held, stored, capacity = memory
    counts = counts.copy()
    counts[arm] += 1
    if held + 1 == capacity:
        _logger.info("the buffer is full with %d tuples: from now on one leaves for each that comes", held + 1)
    free = free + 1 if order is None else _next_free(order, held + 1)
    return Memory(contexts, arms, rewards, stamps, order, None, counts, free, held + 1, stored + 1, capacity)


def _next_free(order: Ints, held: int) -> int:
    """Return the first free row, given the rows of all slots followed by the free ones; beyond the last if none."""
    return int(order[held]) if held < len(order) else held


def sample(memory: Memory, size: int, rng: np.random.Generator, *, batches: int = 1) -> Batch:
    """Draw tuples uniformly with replacement, sorted by arm, in the order of drawing within an arm.

    Of several batches, which follow one another, each is sorted by itself: they are those that as many calls would
    draw.

    Examples
    --------
    >>> memory = store_many(empty(None, 2, (1,)), np.zeros((3, 1)), np.array([1, 0, 1]), np.arange(3.0))
    >>> sample(memory, 3, np.random.default_rng(0), batches=2).rewards.tolist()
    [1.0, 0.0, 0.0, 0.0, 2.0, 2.0]
    >>> rng = np.random.default_rng(0)
    >>> [sample(memory, 3, rng).rewards.tolist() for _ in range(2)]
    [[1.0, 0.0, 0.0], [0.0, 2.0, 2.0]]
    """
    size *= batches
    if not memory.held:
        raise ValueError("cannot sample from an empty memory: store a tuple first")
    order = None if memory.order is None and memory.free == memory.held else memory.rows()
    # Quicker than rng.integers, and as uniform.
    uniforms, n_arms = rng.random(size), len(memory.counts)
    slots, rows, arms = _kernels.sample(uniforms, batches, memory.held, order, memory.arms, n_arms)
    return Batch(slots, rows, memory.contexts.take(rows, axis=0), arms, memory.rewards.take(rows))


# Arms


def add_arm(memory: Memory, capacity: int | None) -> Memory:
    """Return a memory with one more arm and a new capacity; None keeps the capacity."""
    counts = np.append(memory.counts, 0)
    return _resized(memory.canonical()._replace(counts=counts, heads=None), capacity)


def remove_arm(memory: Memory, arm: int, capacity: int | None) -> Memory:
    """Return a memory without an arm's tuples; later arms move up. Other tuples do not change."""
    memory = memory.canonical()
    rows = np.flatnonzero(memory.arms != arm)
    arms, counts, held = memory.arms[rows], np.delete(memory.counts, arm), len(rows)
    arrays = memory.contexts[rows], arms - (arms > arm), memory.rewards[rows], memory.stamps[rows]
    return _resized(Memory(*arrays, None, None, counts, held, held, memory.stored, memory.capacity), capacity)


def _resized(memory: Memory, capacity: int | None) -> Memory:
    if memory.capacity is None:
        return memory
    limit = memory.capacity if capacity is None else capacity
    return memory._replace(capacity=max(limit, memory.held, 1))


def newest_in_shares(memory: Memory, size: int) -> NDArray[np.bool_]:
    """Return which slots to keep, if ``size`` tuples are kept in total.

    Each arm keeps its tuples with the largest stamps, in equal shares; an arm with fewer tuples leaves its rest to
    others. So an arm's tuples from some stamp on are all there, whenever their rewards came. The memory must have no
    fixed capacity.

    Examples
    --------
    >>> memory = empty(capacity=None, n_arms=2, shape=(1,))
    >>> for arm in (0, 0, 0, 1, 0):
    ...     memory, _ = store(memory, np.zeros(1), arm, 0.0)
    >>> newest_in_shares(memory, 3).tolist()
    [False, False, True, True, True]
    """
    stays = np.ones(memory.held, dtype=bool)
    if memory.held > size:
        rows = memory.rows()
        by_arm = np.lexsort((memory.stamps.take(rows), memory.arms.take(rows)))
        starts = np.cumsum(memory.counts) - memory.counts
        for first, leaving in zip(starts, memory.counts - _shares(memory.counts, size), strict=True):
            stays[by_arm[first : first + leaving]] = False
    return stays


def _shares(counts: Ints, size: int) -> Ints:
    """Return how many tuples each arm keeps if ``size`` are kept in total: equal shares, the remainder in turn.

    Examples
    --------
    >>> _shares(np.array([1, 9, 9, 2]), 10).tolist()
    [1, 4, 3, 2]
    """
    ascending = np.sort(counts)
    holders = np.arange(len(counts), 0, -1)  # arms that hold at least as many
    before = np.cumsum(ascending) - ascending
    place = int(np.argmax(before + ascending * holders > size))  # the first that holds more than its share
    share, rest = divmod(size - int(before[place]), int(holders[place]))
    out = np.minimum(counts, share)
    out[np.flatnonzero(counts > share)[:rest]] += 1
    return out


def with_slots(memory: Memory, stays: NDArray[np.bool_]) -> Memory:
    """Return a memory with only some slots; the memory must have no fixed capacity.

    No context is copied: later tuples are written into the freed rows.
    """
    rows, held = memory.rows(), int(stays.sum())
    spare = np.arange(memory.free, len(memory.rewards)) if memory.order is None else memory.order[memory.held :]
    order = np.concatenate((rows[stays], rows[~stays], spare))
    counts = np.bincount(memory.arms.take(order[:held]), minlength=len(memory.counts)).astype(np.intp)
    return memory._replace(order=order, heads=None, counts=counts, free=_next_free(order, held), held=held)


def copy_tuples(memory: Memory, like: int, arm: int) -> tuple[Memory, Ints]:
    """Copy the tuples of one arm to another, with the same stamps, newest first.

    Return the memory, and the rows that did not fit.
    """
    rows = memory.rows()
    rows = rows[memory.arms[rows] == like]
    rows = rows[memory.stamps[rows].argsort()]
    room = len(rows) if memory.capacity is None else min(memory.capacity - memory.held, len(rows))
    omitted, copied = rows[: len(rows) - room], rows[len(rows) - room :]
    stored = memory.stored
    for row in copied:
        stamp, free = memory.stamps[row], memory.free
        context, reward = memory.contexts[row].copy(), float(memory.rewards[row])
        memory = _appended(_written(memory, context, arm, reward), arm)
        memory.stamps[free] = stamp
    return memory._replace(stored=stored), omitted


def copied_first(memory: Memory, like: int, arm: int) -> Memory:
    """Copy the tuples of one arm to another into the first slots; the memory must have no fixed capacity.

    Examples
    --------
    >>> memory = store_many(empty(None, 2, (1,)), np.zeros((2, 1)), np.array([0, 0]), np.array([1.0, 2.0]))
    >>> copied_first(memory, 0, 1).rewards.tolist(), copied_first(memory, 0, 1).arms.tolist()
    ([1.0, 2.0, 1.0, 2.0], [1, 1, 0, 0])
    """
    held = memory.held
    whole = copy_tuples(memory, like, arm)[0].canonical()
    order = np.roll(np.arange(whole.held), whole.held - held)
    return whole._replace(
        contexts=whole.contexts[order], arms=whole.arms[order], rewards=whole.rewards[order], stamps=whole.stamps[order]
    )


def check(memory: Memory, *, counted: bool = True) -> None:
    """Raise a ValueError unless a loaded memory is possible; ``counted``: its stamps count the stored tuples."""
    held, arms, stamps, capacity = memory.held, memory.arms, memory.stamps, memory.capacity
    if memory.order is not None or memory.free != held or len(arms) != held:
        raise ValueError("the memory has unused rows")
    if capacity is not None and not max(held, 1) <= capacity:
        raise ValueError(f"the memory holds {held} tuples, but its capacity is {capacity}")
    n_arms = len(memory.counts)
    if held and not (0 <= arms.min() <= arms.max() < n_arms and stamps.min() >= 0):
        raise ValueError(f"the memory has arms beyond 0 to {n_arms - 1}, or negative stamps")
    if counted and held and not stamps.max() < memory.stored:
        raise ValueError(f"the memory has stamps beyond 0 to {memory.stored - 1}")
    if not np.array_equal(np.bincount(arms, minlength=n_arms), memory.counts):
        raise ValueError("the memory's counts do not match its tuples")
    if counted and len(np.unique(np.stack((arms, stamps)), axis=1).T) != held:
        raise ValueError("two tuples of an arm have the same stamp")
    for name, values in (("contexts", memory.contexts), ("rewards", memory.rewards)):
        if values.dtype.kind == "f" and not np.abs(values).max(initial=0.0) < LARGEST:
            raise ValueError(f"the memory has {name} that are not below {LARGEST:g}")
    heads, sizes = memory.heads, np.maximum(memory.counts, 1)
    if heads is not None and (held != capacity or (np.diff(arms) < 0).any() or ((heads < 0) | (heads >= sizes)).any()):
        raise ValueError("the memory's slots are not sorted by arm")
