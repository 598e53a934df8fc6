"""Raw contexts for tests: what JSON can hold, good and bad, and which of it is bad."""

import math
import random
from typing import Any

from hypothesis import strategies as st

from lim2.encoding.reading import DEPTH
from lim2.encoding.values import LARGEST_LISTED, MAX_LIST_VALUES

KEYS = ("age", "country", "at", "basket", "total", "tags", "x", "", "ключ", "\ud800", "a b")

good_numbers = st.one_of(
    st.integers(-(10**12), 10**12), st.floats(-1e29, 1e29), st.sampled_from((0.0, -0.0, 1e-300, 1e9, 5e-324))
)
good_times = st.one_of(
    st.datetimes().map(lambda at: at.isoformat()),
    st.datetimes(),
    st.dates(),
    st.sampled_from(("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-02-30", "2026-11-16T10:00Z")),
)
good_lists = st.one_of(
    st.lists(st.one_of(st.text(max_size=5), st.booleans(), st.none(), st.just("2026-11-16")), max_size=5),
    st.lists(st.one_of(st.floats(-100, 100), st.integers(-9, 9)), min_size=1, max_size=6),
)
good_leaves = st.one_of(st.text(max_size=8), st.booleans(), st.none(), good_numbers, good_times, good_lists)
good_keys = st.text(st.characters(exclude_characters="."), max_size=6)  # with dots, a path might be there twice
contexts = st.dictionaries(
    good_keys,
    st.recursive(good_leaves, lambda inner: st.dictionaries(good_keys, inner, max_size=3), max_leaves=8),
    max_size=6,
)


def any_root(rng: random.Random) -> Any:
    """Return a random JSON value that is an object more often than not."""
    return (
        any_json(rng) if rng.random() < 0.1 else {rng.choice(KEYS): any_json(rng, 1) for _ in range(rng.randrange(6))}
    )


def any_json(rng: random.Random, depth: int = 0) -> Any:
    """Return a random JSON value, of Python's kind of JSON: with NaN, infinity, and numbers of any length."""
    kind = rng.randrange(16 if depth < 4 else 11)
    if kind < 3:
        return rng.choice(("AT", "", "x" * 300, "\ud800", "2026-11-16T10:00:00Z", "2026-13-01", "NaN", "ключ", "é"))
    if kind < 6:
        return rng.choice((0, 31, -7, 80.5, 1e-6, 1e9, -0.0, 1e-320, 2**63, rng.gauss(0, 10**6)))
    if kind < 8:
        return rng.choice((True, False, None))
    if kind == 8:
        return (
            rng.choice((1, 2, 3)) if rng.random() < 0.7 else rng.choice((math.nan, math.inf, 1e30, -(10**400), 1e308))
        )
    if kind < 11:
        return _any_list(rng)
    return {rng.choice(KEYS): any_json(rng, depth + 1) for _ in range(rng.randrange(5))}


def _any_list(rng: random.Random) -> list[Any]:
    good: list[tuple[Any, ...]] = [("new", "red", "2026-11-16T10:00:00Z"), (0.5, 1, -2.25), ("new", None, True), (3, 4)]
    bad: list[tuple[Any, ...]] = [(1, "new"), (0.5, math.nan), (1e6, 1), ([], "x"), ({},)]
    elements = rng.choice(good + bad)
    size = MAX_LIST_VALUES + 1 if rng.random() < 0.001 else rng.randrange(6)
    return [rng.choice(elements) for _ in range(size)]


def chain_of(depth: int) -> dict[str, Any]:
    """Return dictionaries within one another."""
    out: dict[str, Any] = {"x": 1}
    for _ in range(depth - 1):
        out = {"x": out}
    return out


def bad_paths(value: Any, path: str = "", depth: int = 0) -> list[str]:
    """Return the paths of a JSON object whose values cannot be encoded, found apart from the library's own code."""
    if isinstance(value, dict):
        if depth >= DEPTH:
            return [path]
        inner = [(f"{path}.{key}" if depth else key, part) for key, part in value.items()]
        return [bad for place, part in inner for bad in bad_paths(part, place, depth + 1)]
    if isinstance(value, list):
        return [path] if _bad_list(value) else []
    return [path] if _bad_number(value) else []


def _bad_list(values: list[Any]) -> bool:
    numbers = [part for part in values if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(values) > MAX_LIST_VALUES or any(isinstance(part, list | dict) for part in values):
        return True
    if numbers and len(numbers) < len(values):
        return True
    return any(map(_bad_number, numbers)) or sum(map(abs, numbers)) > LARGEST_LISTED


def _bad_number(value: Any) -> bool:
    return isinstance(value, int | float) and not -1e30 < value < 1e30
