"""The memory against a plain list, and what it promises about versions, order, sampling, arms and space."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from helpers.purity import same, values_of
from hypothesis import given
from hypothesis import strategies as st
from oracle import Buffer as OracleBuffer
from oracle import Tuple
from scipy import stats

from lim2 import memory as memories
from lim2.memory import (
    Memory,
    add_arm,
    copy_tuples,
    empty,
    remove_arm,
    sample,
    store,
    store_latest,
    store_many,
    with_slots,
)  # fmt: skip
from lim2.state import copied

N_ARMS = 4


def filled(arms: Iterable[int], n_arms: int = N_ARMS, capacity: int | None = None, rule: Any = store) -> Memory:
    """Return a memory in which the tuple t has the context [t] and the reward t."""
    memory = empty(capacity, n_arms, (1,))
    for t, arm in enumerate(arms):
        memory = stored(memory, arm, float(t), rule)
    return memory


def stored(memory: Memory, arm: int, value: float, rule: Any = store) -> Memory:
    result = rule(memory, np.array([value]), arm, value)
    kept: Memory = result if rule is store_latest else result[0]
    return kept


def rewards_of(memory: Memory, arm: int) -> list[float]:
    rows, bounds = memory.by_arm()
    own = rows[bounds[arm] : bounds[arm + 1]]
    assert (memory.arms[own] == arm).all()
    return sorted(memory.rewards[own].tolist())


# Storing


@given(capacity=st.integers(1, 12), arms=st.lists(st.integers(0, N_ARMS - 1), max_size=80))
def test_a_buffer_equals_a_plain_list(capacity: int, arms: list[int]) -> None:
    memory, plain = empty(capacity, N_ARMS, (1,)), OracleBuffer(capacity)
    for t, arm in enumerate(arms):
        context = np.array([float(t)])
        memory, evicted = store(memory, context, arm, 10.0 * t)
        removed = plain.store(Tuple(t, context, arm, 10.0 * t))
        assert (evicted is None) == (removed is None)
        if evicted is not None and removed is not None:
            expected = (removed.stamp, removed.arm, removed.reward, removed.stamp)
            assert (evicted.context[0], evicted.arm, evicted.reward, evicted.stamp) == expected
        held, rows = {e.stamp: e for e in plain.tuples}, memory.rows()
        assert sorted(memory.stamps[rows].tolist()) == sorted(held)
        for row in rows:
            stamp = int(memory.stamps[row])
            assert (memory.contexts[row, 0], memory.arms[row], memory.rewards[row]) == (
                stamp, held[stamp].arm, held[stamp].reward,
            )  # fmt: skip
        assert memory.counts.tolist() == [sum(e.arm == a for e in plain.tuples) for a in range(N_ARMS)]
        assert (memory.held, memory.stored, memory.evicted) == (len(held), t + 1, t + 1 - len(held))
        for a in range(N_ARMS):
            assert rewards_of(memory, a) == sorted(e.reward for e in plain.tuples if e.arm == a)


@given(
    capacity=st.none() | st.integers(1, 9),
    rule=st.sampled_from([store, store_latest]),
    steps=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40),
)
def test_a_version_stays_valid_for_one_more_step(
    capacity: int | None, rule: Any, steps: list[tuple[int, bool]]
) -> None:
    """Tuples that are stored and not taken over, at any time, next to a memory that was never given them."""
    memory, clean = empty(capacity, 3, (1,)), empty(capacity, 3, (1,))
    for t, (arm, abandoned) in enumerate(steps):
        before = values_of(memory)
        if abandoned:
            stored(memory, arm, -1.0, rule)
            stored(memory, (arm + 1) % 3, -2.0, rule)
        else:
            older, memory = memory, stored(memory, arm, float(t), rule)
            assert same(values_of(older), before)
            clean = stored(clean, arm, float(t), rule)
        if abandoned:
            assert same(values_of(memory), before)
        assert same(values_of(memory), values_of(clean))


def test_a_copied_version_stays_valid_forever() -> None:
    memory = filled([0, 1, 2] * 5, capacity=10)
    kept, before = copied(memory), values_of(memory)
    for t in range(30):
        memory = stored(memory, t % 3, 100.0 + t)
    assert same(values_of(kept), before)


@given(capacity=st.none() | st.integers(1, 9), arms=st.lists(st.integers(0, 2), max_size=40))
def test_the_canonical_form_goes_on_alike(capacity: int | None, arms: list[int]) -> None:
    """What a file holds: the same slots in the same order, without spare rows."""
    memory = empty(capacity, 3, (1,))
    for t, arm in enumerate(arms):
        memory = stored(memory.canonical() if t % 3 else memory, arm, float(t))
        compact = memory.canonical()
        memories.check(compact)
        assert len(compact.rewards) == compact.held == compact.free
        assert compact.rewards.tolist() == memory.rewards[memory.rows()].tolist()
        one, other = (sample(m, 7, np.random.default_rng(t)) for m in (memory, compact))
        assert one.slots.tolist() == other.slots.tolist()
        assert one.rewards.tolist() == other.rewards.tolist()
    assert same(values_of(memory), values_of(filled(arms, 3, capacity)))


def test_a_full_buffer_has_its_slots_sorted_by_arm() -> None:
    memory, rng = empty(10, 3, (2,)), np.random.default_rng(0)
    for t in range(200):
        memory, _ = store(memory, rng.normal(size=2), int(rng.integers(3)), float(t))
        if t > 20 and memory.heads is not None:
            assert (np.diff(memory.arms[memory.rows()]) >= 0).all()
            rows, bounds = memory.by_arm()
            assert rows.tolist() == memory.rows().tolist()
            oldest = [rows[bounds[arm] + memory.heads[arm]] for arm in range(3) if memory.counts[arm]]
            for arm, row in zip(np.flatnonzero(memory.counts), oldest, strict=True):
                assert memory.stamps[row] == memory.stamps[rows[bounds[arm] : bounds[arm + 1]]].min()
    assert memory.heads is not None


def test_the_latest_tuples_in_order_of_age() -> None:
    for capacity in (None, 4, 20):
        memory = filled([t % 3 for t in range(10)], 3, capacity, store_latest)
        kept = list(range(10))[-(capacity or 10) :]
        assert memory.rewards[memory.rows()].tolist() == kept
        assert memory.counts.tolist() == [sum(t % 3 == arm for t in kept) for arm in range(3)]
        kept = [t for t in kept if t % 3 != 1]
        memory = remove_arm(memory, 1, None)
        assert memory.rewards[memory.rows()].tolist() == kept
        assert memory.arms[memory.rows()].tolist() == [(0, -1, 1)[t % 3] for t in kept]
        for t in range(100, 110):
            memory = stored(memory, 0, float(t), store_latest)
        expected = [*kept, *range(100, 110)][-(capacity or 100) :]
        assert memory.rewards[memory.rows()].tolist() == expected


def test_capacity_and_space() -> None:
    memory, sizes = empty(7, 2, (3, 4)), set()
    for t in range(100):
        memory, _ = store(memory, np.full((3, 4), t, dtype=np.int32), t % 2, 0.0)
        if t > 10:
            sizes.add(memory.contexts.shape)
    assert (memory.capacity, memory.held) == (7, 7)
    assert sizes == {(8, 3, 4)}  # one row is free
    assert memory.contexts.dtype == np.int32  # the first tuple decides
    with pytest.raises(ValueError, match="at least 1"):
        empty(0, 2, (1,))
    assert len(empty(10**9, 2, (1000,)).contexts) == 0  # storage grows with what is stored
    assert len(filled([0], 2, 10**9).contexts) < 1000


def test_without_a_capacity_nothing_is_forgotten() -> None:
    memory = filled([t % 2 for t in range(500)], 2)
    assert memory.capacity is None
    assert memory.rewards[memory.rows()].tolist() == list(range(500))
    assert rewards_of(memory, 1) == list(range(1, 500, 2))
    np.testing.assert_array_equal(memory.stamps[memory.rows()], np.arange(500))


# Sampling


@pytest.mark.parametrize("capacity", [30, None], ids=["buffer", "history"])
@pytest.mark.parametrize("rounds", [30, 90], ids=["just full", "full"])
def test_samples_are_uniform_with_replacement_and_sorted(capacity: int | None, rounds: int) -> None:
    memory, rng = filled([t % 3 for t in range(rounds)], 3, capacity), np.random.default_rng(1)
    seen = np.zeros(rounds)
    for _ in range(300):
        batch = sample(memory, 40, rng)
        assert len(set(batch.slots.tolist())) < 40
        np.testing.assert_array_equal(batch.contexts[:, 0], batch.rewards)
        np.testing.assert_array_equal(batch.rows, memory.rows()[batch.slots])
        np.testing.assert_array_equal(batch.contexts, memory.contexts[batch.rows])
        np.testing.assert_array_equal(batch.arms, memory.arms[batch.rows])
        assert [arm for arm, rows in batch.groups for _ in range(rows.stop - rows.start)] == batch.arms.tolist()
        seen += np.bincount(batch.rewards.astype(int), minlength=rounds)
    held = np.sort(memory.rewards[memory.rows()]).astype(int)
    assert seen.sum() == seen[held].sum()
    assert stats.chisquare(seen[held]).pvalue > 1e-3


def test_the_order_of_drawing_is_kept_within_an_arm() -> None:
    memory = filled([t % 2 for t in range(20)], 2, 20)
    batch = sample(memory, 50, np.random.default_rng(2))
    drawn = (np.random.default_rng(2).random(50) * 20).astype(int)
    for arm, rows in batch.groups:
        np.testing.assert_array_equal(batch.slots[rows], drawn[memory.arms[drawn] == arm])


def test_an_empty_memory_has_nothing_to_sample() -> None:
    with pytest.raises(ValueError, match="empty"):
        sample(empty(5, 2, (3,)), 3, np.random.default_rng(0))


# Arms that change


@pytest.mark.parametrize("capacity", [6, 20, None], ids=["full", "growing", "history"])
def test_arms_come_and_go(capacity: int | None) -> None:
    memory = filled([0, 1, 2, 2, 1, 0, 2, 2, 2], 3, capacity)
    before, kept = values_of(memory), {arm: rewards_of(memory, arm) for arm in range(3)}
    fewer = remove_arm(memory, 1, None)
    assert fewer.counts.tolist() == [len(kept[0]), len(kept[2])]
    assert [rewards_of(fewer, arm) for arm in range(2)] == [kept[0], kept[2]]
    more = add_arm(fewer, None)
    assert more.counts.tolist() == [len(kept[0]), len(kept[2]), 0]
    assert same(values_of(memory), before)
    for t in range(100, 130):
        more = stored(more, t % 3, float(t))
        assert sample(more, 10, np.random.default_rng(t)).arms.max() <= 2
        for arm in range(3):
            rewards_of(more, arm)
    rows = more.rows()
    assert more.counts.min() > 0
    np.testing.assert_array_equal(more.contexts[rows, 0], more.rewards[rows])
    assert len(set(more.stamps[rows].tolist())) == more.held
    assert more.held == (more.capacity or len(kept[0]) + len(kept[2]) + 30)


def test_the_oldest_tuple_leaves_first_after_a_change() -> None:
    memory = add_arm(filled([0, 1, 0, 1, 0, 1, 0], 2, 6), 7)  # 0.0 left for 6.0
    memory, evicted = store(memory, np.zeros(1), 2, 100.0)
    assert evicted is None
    left = []
    for _ in range(3):
        memory, evicted = store(memory, np.zeros(1), 0, 200.0)
        assert evicted is not None
        left.append(evicted.reward)
    assert left == [2.0, 4.0, 6.0]


def test_what_others_hold_stays_when_the_capacity_shrinks() -> None:
    memory = remove_arm(filled([0] * 2 + [1] * 8, 2, 10), 0, 5)
    assert (memory.capacity, memory.held) == (8, 8)
    assert add_arm(memory, 20).capacity == 20


@pytest.mark.parametrize("capacity", [None, 20, 9, 6], ids=["history", "room for all", "for some", "for none"])
def test_copied_tuples_are_as_old_as_the_originals(capacity: int | None) -> None:
    memory = add_arm(filled([0, 1, 0, 1, 0, 1], 2, capacity), None)
    before = values_of(memory)
    grown, left = copy_tuples(memory, 1, 2)
    assert same(values_of(memory), before)
    room = 3 if capacity is None else min(capacity - 6, 3)
    assert rewards_of(grown, 2) == [1.0, 3.0, 5.0][3 - room :]  # the newest
    assert grown.rewards[left].tolist() == [1.0, 3.0, 5.0][: 3 - room]
    rows = grown.rows()
    assert (grown.stamps[rows] == grown.rewards[rows]).all()
    assert (grown.stored, grown.evicted) == (6, 0)
    assert rewards_of(grown, 1) == [1.0, 3.0, 5.0]


# Loading


def broken(**changes: Any) -> Memory:
    return filled([0, 1, 0], 2, 5).canonical()._replace(**changes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"free": 1}, "unused rows"),
        ({"held": 2}, "unused rows"),
        ({"capacity": 2}, "capacity is 2"),
        ({"arms": np.array([0, 1, 2])}, "arms beyond"),
        ({"arms": np.array([0, -1, 0])}, "arms beyond"),
        ({"stamps": np.array([0, 1, 3])}, "stamps beyond"),
        ({"stamps": np.array([1, 1, 1])}, "the same stamp"),
        ({"counts": np.array([1, 2])}, "counts"),
        ({"rewards": np.array([0.0, 1e31, 2.0])}, "rewards"),
        ({"heads": np.zeros(2, dtype=np.intp)}, "sorted by arm"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_impossible_memory_is_refused(wrong: dict[str, Any], message: str) -> None:
    memories.check(broken())
    with pytest.raises(ValueError, match=message):
        memories.check(broken(**wrong))


# Many tuples that leave at once: of a memory of no fixed capacity


@given(arms=st.lists(st.integers(0, N_ARMS - 1), min_size=1, max_size=60), size=st.integers(1, 60))
def test_equal_shares_are_those_of_taking_the_oldest_of_the_largest_arm(arms: list[int], size: int) -> None:
    memory = filled(arms)
    rows, n_arms = memory.rows(), len(memory.counts)
    plain = sorted(zip(memory.stamps[rows].tolist(), memory.arms[rows].tolist(), strict=True))
    while len(plain) > size:
        held = [arm for _, arm in plain]
        largest = max(reversed(range(n_arms)), key=held.count)
        plain.pop(held.index(largest))
    stays = memories.newest_in_shares(memory, size)
    assert sorted(zip(memory.stamps[rows[stays]].tolist(), memory.arms[rows[stays]].tolist(), strict=True)) == plain


def test_shares_are_of_the_newest_decisions_whenever_their_rewards_came() -> None:
    memory = empty(None, 1, (1,))
    for stamp in (5, 1, 6, 2, 3, 4):
        memory, _ = memories.store(memory, np.zeros(1), 0, 0.0, stamp)
    stays = memories.newest_in_shares(memory, 3)
    assert sorted(memory.stamps[memory.rows()[stays]].tolist()) == [4, 5, 6]


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=150))
def test_what_is_left_is_what_a_plain_list_holds(steps: list[tuple[int, int]]) -> None:
    """Tuples come one by one; now and then those of an arm leave, unless they are among the latest five."""
    memory, plain = empty(None, 3, (1,)), []
    for t, (arm, leaving) in enumerate(steps):
        memory = stored(memory, arm, float(t))
        plain.append((float(t), arm))
        if leaving < 3:
            rows, version, before = memory.rows(), memory, values_of(memory)
            memory = memories.with_slots(memory, (memory.arms[rows] != leaving) | (memory.rewards[rows] > t - 5.0))
            plain = [(r, a) for r, a in plain if a != leaving or r > t - 5.0]
            assert memory.contexts is version.contexts  # no context was copied
            assert same(values_of(version), before)
        rows = memory.rows()
        assert list(zip(memory.rewards[rows].tolist(), memory.arms[rows].tolist(), strict=True)) == plain
        assert memory.contexts[rows, 0].tolist() == memory.rewards[rows].tolist() == memory.stamps[rows].tolist()
        assert memory.counts.tolist() == [sum(a == i for _, a in plain) for i in range(3)]
        compact = memory.canonical()
        memories.check(compact)
        if plain:
            one, other = (sample(m, 7, np.random.default_rng(t)) for m in (memory, compact))
            assert one.slots.tolist() == other.slots.tolist()
            assert one.rewards.tolist() == other.rewards.tolist()


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=60))
def test_a_version_of_which_tuples_left_stays_valid_for_one_more_step(steps: list[tuple[int, bool, bool]]) -> None:
    memory, clean = empty(None, 3, (1,)), empty(None, 3, (1,))
    for t, (arm, leave, abandoned) in enumerate(steps):
        before = values_of(memory)
        if abandoned:
            later = stored(memory, arm, -1.0)
            memories.with_slots(later, later.arms[later.rows()] != arm)
            assert same(values_of(memory), before)
            continue
        older, memory, clean = memory, stored(memory, arm, float(t)), stored(clean, arm, float(t))
        assert same(values_of(older), before)
        if leave:
            memory, clean = (memories.with_slots(m, m.stamps[m.rows()] > m.stored - 4) for m in (memory, clean))
        assert same(values_of(memory), values_of(clean))


def test_storage_does_not_grow_while_as_many_leave_as_come() -> None:
    memory, sizes = filled([0] * 100), set()
    for t in range(2000):
        memory = stored(memory, t % N_ARMS, float(t))
        if memory.held == 120:
            memory = memories.with_slots(memory, np.arange(120) >= 20)
        sizes.add(len(memory.rewards))
    assert sizes == {128}


@pytest.mark.parametrize("leave", [0, 5, 40])
@pytest.mark.parametrize("count", [1, 30, 200])
def test_many_stored_at_once_are_those_stored_in_turn(leave: int, count: int) -> None:
    rng = np.random.default_rng(0)
    contexts, arms, rewards = rng.normal(size=(count, 2)), rng.integers(3, size=count), rng.normal(size=count)
    memory = empty(None, 3, (2,))
    for number in range(50):
        memory, _ = store(memory, rng.normal(size=2), number % 3, float(number))
    memory = with_slots(memory, np.arange(50) >= leave) if leave else memory
    at_once = store_many(copied(memory), contexts, arms, rewards)
    for context, arm, reward in zip(contexts, arms.tolist(), rewards.tolist(), strict=True):
        memory, _ = store(memory, context, arm, reward)
    for one, other in zip(at_once.canonical(), memory.canonical(), strict=True):
        np.testing.assert_array_equal(one, other)
    more, _ = store(at_once, np.zeros(2), 0, 9.0)
    assert more.rewards[more.rows()].tolist() == [*memory.rewards[memory.rows()].tolist(), 9.0]
