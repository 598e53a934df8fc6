"""Hashes of categories, their caches, and the counts of categories that were observed."""

import copy
import dataclasses
import pickle
from collections.abc import Iterable
from typing import Any

from lim2.encoding import Encoder, EncoderState
from lim2.encoding.categories import CELLS, MAX_NEW, CategoryCounts, add, repeated
from lim2.encoding.parts import to_parts
from lim2.encoding.states import MAX_KEYS
from lim2.encoding.tokens import CACHED, CACHED_PARTS, Tokens

EVENT = {"age": 31, "country": "AT", "tags": ["new", "red"], "at": "2026-11-16T10:00:00", "vector": [0.5, 1.0]}


def observed(raws: Iterable[Any]) -> EncoderState:
    encoder = Encoder(numbers=8, buckets=4096)
    state = encoder.init()
    for raw in raws:
        state = encoder.observe(state, raw)
    return state


def test_hashes_are_these_on_every_machine() -> None:
    tokens = Tokens(seed=0, buckets=64, banks=2, first=16)
    half = 0.7071065902709961
    assert tokens.of("country", "AT") == (((43083, 53437, 9143), ((16, -half), (76, half))),)
    assert tokens.of("country", None)[0][1] == ((34, -half), (53, half))
    assert tokens.of("returning", True)[0][1] == ((42, -half), (58, half))
    assert tokens.of("ключ", "\ud800")[0][1] == ((30, -half), (51, -half))
    assert tokens.vector("embedding", "embedding", 3) == ((35, -1.0), (37, 1.0), (49, 1.0))
    assert Tokens(seed=1, buckets=64, banks=2, first=16).of("country", "AT")[0][1] == ((40, -half), (69, half))


def test_caches_are_bounded_whatever_keys_and_values_come() -> None:
    encoder = Encoder(numbers=5, buckets=16)
    state = encoder.init(trusted=True)
    for t in range(2000):
        raw = {f"number {t}": t, f"string {t}": "x" * (t % 150), f"vector {t}": [1.0] * 30, "id": f"user {t}"}
        encoder.encode(state, raw)
        state = encoder.observe(state, raw)
        assert len(state.columns) <= 5
    assert state.overflow == 2000 - 5 + 2000
    tokens = encoder._tokens
    for t in range(2 * CACHED):
        encoder.encode(state, {f"key {t % 7}": f"value {t}", "tags": ["a", f"tag {t}"]})
        if t % 1000 == 0:
            assert sum(map(len, tokens.cache.values())) <= CACHED
            assert sum(map(len, tokens._vectors.values())) <= CACHED_PARTS
    assert not any("x" * 120 in values for values in tokens.cache.values())


def test_a_full_cache_changes_nothing() -> None:
    fresh, used = Encoder(), Encoder()
    for t in range(CACHED + 10):
        used.encode(used.init(trusted=True), {"id": t if t % 2 else str(t)})
    assert (
        used.encode(used.init(trusted=True), EVENT).tobytes() == fresh.encode(fresh.init(trusted=True), EVENT).tobytes()
    )


def test_copies_leave_the_cache_behind() -> None:
    encoder = Encoder(buckets=32)
    x = encoder.encode(encoder.init(trusted=True), EVENT)
    for other in (pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder), dataclasses.replace(encoder)):
        assert other == encoder and not other._tokens.cache
        assert other.encode(other.init(trusted=True), EVENT).tobytes() == x.tobytes()


def test_counts_are_bounded() -> None:
    seen = CategoryCounts()
    for _ in range(600):
        seen = add(seen, [(1, 2, 3)])
    assert seen.counts[1] == 255 and seen.new == 1 and len(seen.counts) == CELLS
    seen = add(seen, [(1, 2, 9)])  # shares two of three places
    assert repeated(seen.counts, (1, 2, 3)) and not repeated(seen.counts, (1, 2, 9))
    full = add(CategoryCounts(seen.counts, MAX_NEW - 1), [(100, 101, 102)])
    assert full.new == 0 and full.counts[1] == 127 and full.counts[100] == 0


def test_memory_is_bounded_whatever_keys_and_ids_come() -> None:
    state = observed({f"key {t}": f"value {t}", "id": f"id {t}"} for t in range(2 * MAX_KEYS))
    assert len(state.keys) == MAX_KEYS and state.categories is not None and len(state.categories.counts) == CELLS
    _, arrays = to_parts(state)
    assert sum(array.nbytes for array in arrays.values()) <= 3 * CELLS
