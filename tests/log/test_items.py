"""Raw contexts, items with features, and candidates that differ per decision, through the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log.stand_ins import ItemLearner, RawLearner
from log.world import N_FEATURES, contexts, learned, make_agent, make_log

import lim2
from lim2.log import DecisionLog, LogError

USERS: list[dict[str, Any]] = [{"country": c, "age": a} for c in ("AT", "DE", None) for a in (20, 50)]
CATALOGUE: dict[str, dict[str, Any]] = {
    f"sku{i}": {"category": ("shoes", "hats")[i % 2], "price": 5.0 * i, "tags": ["new"] * (i % 3)} for i in range(12)
}


def some_items(rng: np.random.Generator, k: int = 4) -> dict[str, Any]:
    return {name: CATALOGUE[name] for name in rng.choice(list(CATALOGUE), size=k, replace=False).tolist()}


def vectors(rng: np.random.Generator) -> Any:
    """Return candidates as an array or by name, of a number that differs."""
    array = rng.normal(size=(rng.integers(2, 6), 3))
    return array if rng.random() < 0.5 else {f"item{i}": row for i, row in enumerate(array)}


def live_raw(log: DecisionLog, bandit: RawLearner, rounds: int = 40, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        user = USERS[rng.integers(len(USERS))]
        if rng.random() < 0.3:
            slate = log.rank(bandit, user, some_items(rng, 5), 3)
            log.reward(slate.id, {1: float(rng.random()), "slot 3": float(rng.random())})
        else:
            log.reward(log.decide(bandit, user, items=some_items(rng)).id, float(rng.random()))
        if rng.random() < 0.4:
            log.apply(bandit)
    log.apply(bandit)


def test_a_raw_decision_is_kept_as_json(tmp_path: Path) -> None:
    bandit = RawLearner(["country", "category"])
    items = {"b": {"tags": ("x", "y"), "price": np.float32(1.5)}, "a": {"price": float("nan")}}
    with make_log(tmp_path) as log:
        decision = log.decide(bandit, {"country": "AT", "at": np.datetime64("2026-11-16")}, items=items)
        again = log.get(decision.id)
    for entry in (decision, again):
        assert entry.context == entry.raw == {"at": "2026-11-16", "country": "AT"}
        assert entry.items == entry.raw_items == {"b": {"price": 1.5, "tags": ["x", "y"]}, "a": {"price": None}}
        assert (entry.arms, entry.vector, entry.vectors, entry.position) == (("b", "a"), None, None, 0)


def test_a_bandit_sees_live_what_replay_shows_it(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Watching(RawLearner):
        def decide(self, context: Any, items: Any = None, *, arms: Any = None, exploit: bool = False) -> Any:
            seen.append((context, items))
            return super().decide(context, items, arms=arms, exploit=exploit)

    with make_log(tmp_path) as log:
        log.decide(Watching(["age"]), {"b": (1, 2), "a": np.int64(3)}, items={"x": {"p": np.float64(0.5)}})
        log.replay(Watching(["age"]), decisions=True)
    assert seen[0] == seen[1] == ({"a": 3, "b": [1, 2]}, {"x": {"p": 0.5}})


def test_vectors_of_items_are_kept_bit_for_bit(tmp_path: Path) -> None:
    rng, agent = np.random.default_rng(0), ItemLearner(3)
    with make_log(tmp_path) as log:
        for context in contexts(10):
            items = vectors(rng)
            entry = log.get(log.decide(agent, context, items=items).id)
            array = np.array(list(items.values())) if isinstance(items, dict) else items
            assert entry.vectors is not None
            assert entry.vectors.tobytes() == array.tobytes()
            assert entry.arms == (tuple(items) if isinstance(items, dict) else tuple(range(len(items))))
            assert entry.context.tobytes() == context.tobytes()
            assert (entry.raw, entry.raw_items) == (None, None)


def test_a_bandit_learns_from_the_log_and_again_by_replay(tmp_path: Path) -> None:
    bandit, fresh, whole = (RawLearner(["country", "category"]) for _ in range(3))
    with make_log(tmp_path) as log:
        live_raw(log, bandit)
        assert log.replay(fresh) == len(bandit.heard)
        assert log.replay(whole, decisions=True) == len(bandit.heard)
        assert fresh.heard == whole.heard == bandit.heard
        assert {position for *_, position in bandit.heard} == {1, 3}
        user, items = USERS[0], CATALOGUE
        assert whole.decide(user, items).arm == bandit.decide(user, items).arm
        with pytest.raises(LogError, match="comes out differently"):
            log.replay(RawLearner(["price"], seed=5), decisions=True)


def test_another_encoder_is_trained_from_the_same_log(tmp_path: Path) -> None:
    bandit, other = RawLearner(["country"]), RawLearner(["age", "price"])
    with make_log(tmp_path) as log:
        live_raw(log, bandit)
        log.replay(other)
    assert other.heard == bandit.heard
    assert all('"AT"' not in key for key in other.sums)


def test_an_item_agent_learns_from_the_log_and_again_by_replay(tmp_path: Path) -> None:
    agent, fresh, whole = (ItemLearner(3) for _ in range(3))
    rng = np.random.default_rng(0)
    with make_log(tmp_path) as log:
        for context in contexts(30):
            items = vectors(rng)
            if rng.random() < 0.3:
                log.reward(log.rank(agent, context, items, 2).id, {2: 1.0, 1: -1.0})
            else:
                log.reward(log.decide(agent, context, items=items).id, float(rng.normal()))
            log.apply(agent)
        assert log.replay(fresh) == log.replay(whole, decisions=True) == len(agent.heard)
    assert fresh.heard == whole.heard == agent.heard
    assert whole.rng.random() == agent.rng.random()


def test_raw_is_kept_beside_vectors(tmp_path: Path) -> None:
    agent, items, bandit = ItemLearner(3), ItemLearner(3), RawLearner(["country", "category"])
    arms, twin = make_agent(), make_agent()
    raw_items = [{"category": "shoes"}, {"category": "hats"}]
    with make_log(tmp_path) as log:
        one = log.decide(agent, np.ones(2), items=np.eye(3)[:2], raw={"country": "AT"}, raw_items=raw_items)
        entry = log.get(one.id)
        assert (entry.raw, entry.raw_items) == ({"country": "AT"}, {0: raw_items[0], 1: raw_items[1]})
        assert entry.vectors is not None
        assert entry.context.tolist() == [1.0, 1.0]
        log.reward(one.id, 1.0)
        assert (log.replay(items), log.replay(bandit)) == (1, 1)
        assert items.heard == [([1.0, 1.0], np.eye(3)[one.arms.index(one.arm)].tolist(), 1.0)]
        assert bandit.heard == [({"country": "AT"}, one.arm, 1.0, raw_items[one.arms.index(one.arm)], 1)]
    (tmp_path / "arms").mkdir()
    with make_log(tmp_path / "arms") as log:
        for context, user in zip(contexts(8), USERS * 2, strict=False):
            log.reward(log.decide(arms, context, raw=user).id, 0.5)
        raw = RawLearner(["country"], arms=("a", "b", "c"))
        assert (log.apply(arms), log.replay(raw), log.replay(twin)) == (8, 8, 8)
        assert [context for context, *_ in raw.heard] == (USERS * 2)[:8]
        assert learned(twin) == learned(arms)


def test_decisions_made_elsewhere_are_recorded_in_any_form(tmp_path: Path) -> None:
    bandit, agent = RawLearner(["country"]), ItemLearner(3)
    decision = bandit.decide(USERS[0], CATALOGUE)
    with make_log(tmp_path) as log:
        assert log.record(decision, raw=USERS[0], raw_items=CATALOGUE).raw_items == CATALOGUE
        by_name = {"x": [1, 0, 0], "y": [0, 1, 0], "z": [0, 0, 1]}
        chosen = agent.decide([0.0], {name: by_name[name] for name in ("z", "x")})
        entry = log.record(chosen, [0.0], items=by_name)  # more than could be chosen: only those are kept
        assert entry.vectors is not None
        assert entry.vectors.tolist() == [by_name["z"], by_name["x"]]


def test_recorded_decisions_are_made_again_if_it_is_known_by_whom(tmp_path: Path) -> None:
    bandit, rng = RawLearner(["category"]), np.random.default_rng(0)
    with make_log(tmp_path) as log:
        for user in USERS:
            items = some_items(rng)
            one = log.record(bandit.decide(user, items), raw=user, raw_items=items, agent=bandit)
            slate = log.record_slate(bandit.rank(user, items, 2), raw=user, raw_items=items, agent=bandit)
            log.reward_many([(one.id, 1.0), (slate[1].id, 1.0)])
            log.apply(bandit)
        assert log.replay(RawLearner(["category"]), decisions=True) == 2 * len(USERS)


def test_what_does_not_go_together_is_refused_before_anybody_decides(tmp_path: Path) -> None:
    bandit, agent, items = RawLearner(["country"]), make_agent(), item_agent()
    state = bandit.rng.bit_generator.state
    x = np.zeros(N_FEATURES)
    with make_log(tmp_path) as log:
        for call, message in (
            (lambda: log.decide(bandit, {"a": {1}, "b": object()}, items=CATALOGUE), "of type object at b"),
            (lambda: log.decide(bandit, {}, items={"x": {"p": b""}}), "the item 'x' has a value of type bytes at p"),
            (lambda: log.decide(bandit, {}, items={frozenset(): {}}), "cannot be logged"),
            (lambda: log.decide(bandit, {}, items=CATALOGUE, raw={}), "for agents that take vectors"),
            (lambda: log.decide(bandit, {}, items={"a", "b"}), "by name, or a list, got set"),
            (lambda: log.decide(bandit, None, items=CATALOGUE), "needs a context"),
            (lambda: log.decide(agent, {"country": "AT"}), "got a dictionary"),
            (lambda: log.decide(agent, ["AT"]), "real numbers only"),
            (lambda: log.decide(items, x), "chooses among items"),
            (lambda: log.decide(items, x, ["a"], items=np.eye(3)), "not as arms="),
            (lambda: log.decide(items, x, items=np.zeros(3)), "2-D array"),
            (lambda: log.decide(items, x, items={"a": [1.0], "b": [1.0, 2.0]}), "of the same length"),
            (lambda: log.rank(agent, x, np.eye(3), 2), "ranks arms, not items"),
            (lambda: log.record(agent.decide(x), x, items=np.eye(2)), "one entry per arm"),
            (lambda: log.record(agent.decide(x), x, items={"a": [1.0], "b": [1.0]}), "'c', which is missing in items"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        assert log.state.pending == 0
    assert bandit.rng.bit_generator.state == state


def test_an_agent_of_another_kind_is_refused_with_the_reason(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        log.reward(log.decide(RawLearner(["country"]), USERS[0], items=CATALOGUE).id, 1.0)
        with pytest.raises(LogError, match=r"no arm|only a raw context"):
            log.replay(make_agent())
        with pytest.raises(LogError, match="only a raw context"):
            log.replay(item_agent())
    (tmp_path / "vectors").mkdir()
    with make_log(tmp_path / "vectors") as log:
        log.reward(log.decide(ItemLearner(3), np.zeros(N_FEATURES), items=np.eye(3)).id, 1.0)
        with pytest.raises(LogError, match="no raw context"):
            log.replay(lim2.Bandit())
        with pytest.raises(LogError, match="items without names"):
            log.replay(lim2.LinearTS(n_arms=3, n_features=N_FEATURES))
    (tmp_path / "arms").mkdir()
    with make_log(tmp_path / "arms") as log:
        log.reward(log.decide(make_agent(), np.zeros(N_FEATURES), raw={}).id, 1.0)
        with pytest.raises(LogError, match="no items as vectors"):
            log.replay(item_agent())
        with pytest.raises(LogError, match="no raw items"):
            log.replay(lim2.Bandit())


def item_agent() -> lim2.ItemAgent:
    agent: Any = lim2.LinearTS(n_features=N_FEATURES, n_item_features=3)
    assert isinstance(agent, lim2.ItemAgent)
    return agent


def test_a_bandit_with_arms_knows_them(tmp_path: Path) -> None:
    bandit = RawLearner(["country"], arms=("a", "b"))
    with make_log(tmp_path) as log:
        first = log.decide(bandit, USERS[0], ["b"])
        log.reward(first.id, 1.0)
        log.reward(log.decide(bandit, USERS[1]).id, 0.5)
        assert log.apply(bandit) == 2
        assert (first.arms, first.items, first.arm) == (("b",), None, "b")
        assert log.replay(RawLearner(["country"], arms=("a", "b")), decisions=True) == 2
        with pytest.raises(LogError, match="no arm 'b'"):
            log.replay(RawLearner(["country"], arms=("a",)))
