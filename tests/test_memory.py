"""The buffer against a plain list, and what it promises about order, sampling and space."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Buffer as OracleBuffer
from oracle import Tuple
from scipy import stats

from lim2.memory import Buffer, History


@given(capacity=st.integers(1, 12), fair=st.booleans(), arms=st.lists(st.integers(0, 3), max_size=80))
def test_buffer_equals_a_plain_list(capacity: int, fair: bool, arms: list[int]) -> None:
    buffer = Buffer(capacity, n_arms=4, shape=1, fair=fair)
    plain = OracleBuffer(capacity, share=max(capacity // 4, 1) if fair else 1)
    for t, arm in enumerate(arms):
        context = np.array([float(t)])
        evicted = buffer.add(context, arm, 10.0 * t)
        removed = plain.store(Tuple(t, context, arm, 10.0 * t))
        assert (evicted is None) == (removed is None)
        if evicted is not None and removed is not None:
            assert (evicted.context[0], evicted.arm, evicted.reward) == (removed.stamp, removed.arm, removed.reward)
        held = {e.stamp: e for e in plain.tuples}
        assert sorted(buffer.stamps.tolist()) == sorted(held)
        for stamp, ctx, a, r in zip(buffer.stamps, buffer.contexts, buffer.arms, buffer.rewards, strict=True):
            assert (ctx[0], a, r) == (stamp, held[int(stamp)].arm, held[int(stamp)].reward)
        counts = [sum(e.arm == a for e in plain.tuples) for a in range(4)]
        assert buffer.counts.tolist() == counts
        for a in range(4):
            assert sorted(buffer.stamps[buffer.rows(a)].tolist()) == sorted(s for s, e in held.items() if e.arm == a)


def test_in_a_fair_buffer_arms_come_to_hold_equal_shares() -> None:
    held = []
    for fair in (False, True):
        buffer = Buffer(12, n_arms=3, shape=1, fair=fair)
        for arm in [0] * 10 + [1, 2] + [1, 2, 0] * 20:
            buffer.add(np.zeros(1), arm, 0.0)
        held.append(buffer.counts.tolist())
    assert held == [[10, 1, 1], [4, 4, 4]]


def test_a_full_buffer_keeps_arms_side_by_side() -> None:
    buffer = Buffer(10, n_arms=3, shape=2)
    rng = np.random.default_rng(0)
    for t in range(200):
        buffer.add(rng.normal(size=2), int(rng.integers(3)), float(t))
        if t > 10:
            assert all(isinstance(buffer.rows(arm), slice) for arm in range(3))
            assert np.shares_memory(buffer.contexts[buffer.rows(0)], buffer.contexts)
            assert (np.diff(buffer.arms) >= 0).all()


@pytest.mark.parametrize("memory", [Buffer(30, 3, 1), History(3, 1)], ids=["buffer", "history"])
def test_samples_are_uniform_with_replacement_and_sorted(memory: Buffer | History) -> None:
    rng = np.random.default_rng(1)
    for t in range(30):
        memory.add(np.array([float(t)]), t % 3, float(t))
    seen = np.zeros(30)
    for _ in range(300):
        batch = memory.sample(40, rng)
        assert len(set(batch.slots.tolist())) < 40
        np.testing.assert_array_equal(batch.contexts[:, 0], batch.rewards)
        np.testing.assert_array_equal(batch.contexts, memory.contexts[batch.slots])
        np.testing.assert_array_equal(batch.arms, memory.arms[batch.slots])
        assert [arm for arm, rows in batch.groups for _ in range(rows.stop - rows.start)] == batch.arms.tolist()
        seen += np.bincount(batch.rewards.astype(int), minlength=30)
    assert stats.chisquare(seen).pvalue > 1e-3


def test_the_order_of_drawing_is_kept_within_an_arm() -> None:
    memory = Buffer(20, 2, 1)
    for t in range(20):
        memory.add(np.zeros(1), t % 2, float(t))
    batch = memory.sample(50, np.random.default_rng(2))
    drawn = (np.random.default_rng(2).random(50) * 20).astype(int)
    for arm, rows in batch.groups:
        np.testing.assert_array_equal(batch.slots[rows], drawn[memory.arms[drawn] == arm])


def test_capacity_and_space() -> None:
    buffer = Buffer(7, n_arms=2, shape=(3, 4), dtype=np.int32)
    size = buffer.nbytes
    for t in range(100):
        buffer.add(np.full((3, 4), t), t % 2, 0.0)
    assert (buffer.capacity, len(buffer), buffer.nbytes) == (7, 7, size)
    assert buffer.contexts.shape == (7, 3, 4)
    assert buffer.contexts.dtype == np.int32
    assert repr(buffer) == "Buffer(capacity=7, held=[4, 3])"
    with pytest.raises(ValueError, match="at least 1"):
        Buffer(0, 2, 1)


def test_history_forgets_nothing() -> None:
    history = History(n_arms=2, shape=1)
    for t in range(500):
        history.add(np.array([float(t)]), t % 2, float(-t))
    np.testing.assert_array_equal(history.contexts[:, 0], np.arange(500))
    np.testing.assert_array_equal(history.rewards, -np.arange(500.0))
    np.testing.assert_array_equal(history.rows(1), np.arange(1, 500, 2))
    np.testing.assert_array_equal(history.stamps, np.arange(500))
    assert history.capacity is None
    assert repr(history) == "History(held=[250, 250])"


@given(
    capacity=st.integers(1, 9),
    fair=st.booleans(),
    arms=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40),
)
def test_abandoned_tuples_leave_no_trace(capacity: int, fair: bool, arms: list[tuple[int, bool]]) -> None:
    """Staging and abandoning at any time, next to a buffer that never heard of them."""
    buffer, clean = (Buffer(capacity, 3, 1, fair=fair) for _ in range(2))
    for t, (arm, abandoned) in enumerate(arms):
        if abandoned:
            buffer.stage(np.array([-1.0]), arm, -1.0)
            buffer.abandon()
        else:
            buffer.add(np.array([float(t)]), arm, float(t))
            clean.add(np.array([float(t)]), arm, float(t))
        assert len(buffer) == len(clean)
        for a in range(3):
            mine, theirs = buffer.rows(a), clean.rows(a)
            assert sorted(buffer.stamps[mine].tolist()) == sorted(clean.stamps[theirs].tolist())
            assert sorted(buffer.rewards[mine].tolist()) == sorted(clean.rewards[theirs].tolist())


@pytest.mark.parametrize("memory", [Buffer(5, 2, 3), History(2, 3)], ids=["buffer", "history"])
def test_bad_tuples_are_refused_and_change_nothing(memory: Buffer | History) -> None:
    with pytest.raises(ValueError, match="empty"):
        memory.sample(3, np.random.default_rng(0))
    for context, arm in ((np.ones(4), 0), (np.ones(3), -1), (np.ones(3), 2)):
        with pytest.raises(ValueError, match=r"arm|shape"):
            memory.add(context, arm, 0.0)
    assert len(memory) == 0
    assert memory.counts.tolist() == [0, 0]
