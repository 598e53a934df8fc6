"""Whatever JSON arrives: a decision, or a ValueError with the path of the offending key, and nothing has changed."""

import random
from typing import Any

import numpy as np
import pytest
from bandit.shop import USERS, content, items_of, learned, make, played
from helpers.learning import learn
from helpers.raw import any_json, any_root, bad_paths, contexts
from hypothesis import given, settings

import lim2
from lim2.decision import History
from lim2.encoding import Encoder
from lim2.log.serialization import as_json

SMALL: dict[str, Any] = {"encoder": Encoder(numbers=12, buckets=8), "item_encoder": Encoder(numbers=8, buckets=8)}
PLAIN: dict[str, Any] = {"encoder": Encoder(numbers=12, buckets=8)}
ARMS_CASES, ITEM_CASES = 6_000, 4_000


def asked(ask: Any, bad: list[str], what: str) -> Any:
    """Ask, and return the decision; None if it was refused by a ValueError that names one of the bad paths."""
    try:
        decision = ask()
    except ValueError as error:
        assert bad, f"{what} was refused without a reason: {error}"
        assert any(path in str(error) for path in bad), f"{what}: {error} names none of {bad}"
        return None
    assert not bad, f"{what} was taken, but {bad} cannot be encoded"
    assert np.isfinite(decision.means).all()
    return decision


def test_contexts_of_any_kind() -> None:
    """Decided, learned now and then; what is refused leaves everything as it was."""
    rng, bandit = random.Random(0), make("arms", **PLAIN)
    taken = 0
    for case in range(ARMS_CASES):
        raw = any_root(rng)
        bad = bad_paths(raw) if isinstance(raw, dict) else [""]
        before = learned(bandit) if case % 200 == 0 else None
        decision = asked(lambda: bandit.decide(raw), bad, repr(raw))  # noqa: B023
        assert before is None or learned(bandit) == before
        if decision is None:
            if case % 10 == 0:
                with pytest.raises(ValueError):
                    bandit.learn_history(History(["shoes"], [1.0], raw=[raw]), 1)
            continue
        taken += 1
        if case % 4 == 0:
            bandit.update(decision, rng.gauss(0, 1))
    assert ARMS_CASES / 4 < taken < ARMS_CASES
    assert bandit.rounds > 500
    assert bandit.core.state.encoders[0].used <= 12


def test_items_of_any_kind() -> None:
    rng, bandit = random.Random(1), make("items", **SMALL)
    taken = 0
    for case in range(ITEM_CASES):
        items = {name: any_root(rng) for name in ("one", 2, ("a", 3))[: 1 + case % 3]}
        bad = [
            (name, bad_paths(item) if isinstance(item, dict) else [""])
            for name, item in items.items()
            if not isinstance(item, dict) or bad_paths(item)
        ]
        paths = [path for _, parts in bad for path in parts]
        decision = asked(lambda: bandit.decide(USERS[case % 4], items), paths, repr(items))  # noqa: B023
        if decision is None:
            with pytest.raises(ValueError) as refused:
                bandit.decide(USERS[case % 4], items)
            assert any(f"the item {name!r}" in str(refused.value) for name, _ in bad)
            continue
        taken += 1
        if case % 3 == 0:
            bandit.update(decision, rng.gauss(0, 1))
    assert ITEM_CASES / 8 < taken < ITEM_CASES
    assert bandit.rounds > 150


@settings(max_examples=40)
@given(contexts, contexts)
def test_what_can_be_decided_can_be_learned_and_saved(context: Any, item: Any) -> None:
    bandit = played("items", 2, **SMALL)
    decision = bandit.decide(context, {"x": item, "y": {}})
    bandit.update(decision, 1.0)
    bandit.explain(decision)
    twin = bandit.copy()
    assert twin.decide(context, {"x": item, "y": {}}).arm == bandit.decide(context, {"x": item, "y": {}}).arm
    assert twin.to_bytes() == bandit.to_bytes()


@settings(max_examples=80)
@given(contexts)
def test_a_context_decides_as_its_json_does(context: Any) -> None:
    """So that a decision comes out the same when it is made again from a log."""
    bandit = played("arms", 3, **PLAIN)
    assert bandit.question(context).rows.tobytes() == bandit.question(as_json(context)).rows.tobytes()


def test_names_that_are_none() -> None:
    bandit = played("items", 3)
    before = content(bandit)
    for items in ({None: {"a": 1}}, {float("nan"): {"a": 1}}, {}):
        with pytest.raises(ValueError):
            bandit.decide(USERS[0], items)
    for bad in (5, "text", [1, 2], None, {1: 2}, {"a": {2: 3}}, object()):
        with pytest.raises(ValueError):
            bandit.decide(bad, items_of(0))
        with pytest.raises(ValueError, match="the item 'x'"):
            bandit.decide(USERS[0], {"x": bad})
    assert content(bandit) == before


@pytest.mark.parametrize("k", [0, -1, 5, 2.0, True, "3"])
def test_slates_of_sizes_that_there_are_not(k: Any) -> None:
    bandit = played("items", 3)
    before = content(bandit)
    with pytest.raises(ValueError, match="k must be from 1"):
        bandit.rank(USERS[0], items_of(0), k)
    assert content(bandit) == before


def test_memory_is_bounded_whatever_arrives() -> None:
    rng, bandit = random.Random(2), make("items", **SMALL)
    size = bandit.nbytes
    for case in range(200):
        raw = {f"key {case} {i}": any_json(rng, 4) for i in range(3)}
        if not bad_paths(raw):
            learn(bandit, raw, "x", 1.0, item=raw)
    assert bandit.nbytes == size
    assert len(bandit.core.state.encoders[0].columns) <= 12
    assert lim2.Bandit(seed=0).nbytes > size
