"""The front door: what a user types, in all three forms."""

import copy
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bandit.shop import ARMS, CATALOGUE, FEATURES, FORMS, USERS, content, items_of, make, play, played, question
from helpers.learning import learn

import lim2
from lim2.bandit import RawDecision
from lim2.encoding import Category, Columns, Encoder, Number, Tags, Time

every_form = pytest.mark.parametrize("form", FORMS)


def test_what_a_user_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    user, catalogue = USERS[0], CATALOGUE
    bandit = lim2.Bandit(arms=["spring", "shoes", "gift card"], seed=0)
    d = bandit.decide(
        {
            "country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "device": None,
            "at": "2026-11-16T10:00:00Z",
        }
    )  # fmt: skip
    bandit.update(d, reward=1.0)
    assert (bandit.rounds, d.arm in ARMS) == (1, True)

    shop = lim2.Bandit(seed=0)
    sku1 = {"price": 9.9, "tags": ["new", "red"], "category": "shoes"}
    d = shop.decide(user, items={"sku1": sku1, "sku2": {"price": 120, "tags": [], "category": None}})
    assert d.arm in ("sku1", "sku2")
    slate = shop.rank(user, items=catalogue, k=5)
    assert len(slate) == len(set(slate.arms)) == 5
    assert sum(slate[0].propensities) == pytest.approx(1.0)
    assert [entry.propensity for entry in slate] == [entry.propensities[entry.arms.index(entry.arm)] for entry in slate]
    shop.save("shop.lim2")
    shop = lim2.load("shop.lim2")
    assert isinstance(shop, lim2.Bandit)
    assert shop.decide(user, items=catalogue).arm in catalogue


@every_form
@pytest.mark.parametrize("algorithm", lim2.AGENTS)
def test_every_algorithm_in_every_form(form: str, algorithm: str) -> None:
    small: dict[str, Any] = {"encoder": Encoder(numbers=8, buckets=8)}
    if form != "arms" and algorithm == "ThompsonSampling":
        with pytest.raises(ValueError, match="pass the names of the arms, or use AdaptiveTS"):
            played(form, 6, algorithm=algorithm, **small)
        return
    if form != "arms":
        small["item_encoder"] = Encoder(buckets=4)
    quick: dict[str, Any] = {"hidden": 4, "iterations": 5} if algorithm in ("NeuralUCB", "NeuralTS") else {}
    bandit = played(form, 6, algorithm=algorithm, **small, **quick)
    same = lim2.Bandit(
        list(ARMS) if form == "arms" else FEATURES if form == "features" else None,
        algorithm=lim2.AGENTS[algorithm], seed=0, **small, **quick,
    )  # fmt: skip
    play(same, form, 6)
    assert content(same) == content(bandit)
    assert bandit.rounds == 8
    decision = bandit.decide(**question(form))
    assert decision.propensities.sum() == pytest.approx(1.0)


@every_form
def test_a_decision_says_what_it_was_about(form: str) -> None:
    bandit = played(form)
    decision = bandit.decide(**question(form, 1))
    assert isinstance(decision, RawDecision)
    assert decision.context == USERS[1]
    assert (decision.position, decision.exploit) == (0, False)
    if form == "arms":
        assert decision.item is None
    else:
        expected = items_of(1)[str(decision.arm)] if form == "items" else FEATURES[decision.arm]
        assert expected.items() <= decision.item.items()
    assert decision.arms == {"arms": ARMS, "items": tuple(items_of(1)), "features": tuple(FEATURES)}[form]
    assert bandit.arms == {"arms": ARMS, "items": None, "features": tuple(FEATURES)}[form]
    slate = bandit.rank(**question(form, 1), k=2)
    assert [entry.position for entry in slate] == [1, 2]
    assert [entry.id for entry in slate] == [f"{slate.id}/1", f"{slate.id}/2"]


@every_form
def test_rank_begins_with_what_decide_chooses(form: str) -> None:
    bandit = played(form, epsilon=0.3)
    for t in range(10):
        one, two = bandit.copy(), bandit.copy()
        decision, slate = one.decide(**question(form, t)), two.rank(**question(form, t))
        assert decision.arm == slate.arms[0]
        assert decision.propensities.tobytes() == slate[0].propensities.tobytes()
        assert bandit.propensities(**question(form, t)).tobytes() == decision.propensities.tobytes()
        assert sorted(map(str, slate.arms)) == sorted(map(str, decision.arms))
        bandit = one


@every_form
def test_eligible_ones(form: str) -> None:
    bandit = played(form)
    some = list(bandit.decide(**question(form)).arms)[1:]
    for ask in (bandit.decide, bandit.rank):
        made: Any = ask(**question(form), arms=iter(some))
        made = made if isinstance(made, RawDecision) else made[0]
        assert made.arms == tuple(some)
    assert bandit.propensities(**question(form), arms=some).shape == (len(some),)
    for bad in ([], ["nobody"], [some[0], some[0]], some[0]):
        before = content(bandit)
        for refuse in (bandit.decide, bandit.rank, bandit.propensities):
            with pytest.raises(ValueError, match=r"arm|eligible"):
                refuse(**question(form), arms=bad)
        assert content(bandit) == before


# Forms of contexts


@dataclass
class Basket:
    total: float
    items: int


@dataclass
class User:
    basket: Basket
    device: str | None
    age: int
    country: str


FLAT: dict[str, Any] = {"country": "AT", "age": 31, "device": None, "basket.items": 3, "basket.total": 80.5}


@every_form
def test_the_form_of_a_context_does_not_matter(form: str) -> None:
    """Reordered, nested or flat, as a Series, a row of polars or a dataclass: decision and lesson are the same."""
    bandit = played(form)
    nested = {"country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "device": None}
    forms: dict[str, Any] = {
        "nested": nested,
        "reordered": {
            "device": None, "basket": {"total": 80.5, "items": 3}, "age": 31, "country": "AT",
        },
        "flat": FLAT,
        "series": pd.Series(FLAT),
        "reordered series": pd.Series(FLAT)[::-1],
        "frame": pd.DataFrame([FLAT]).iloc[0],
        "polars": pl.DataFrame([FLAT]).row(0, named=True),
        "dataclass": User(Basket(80.5, 3), None, 31, "AT"),
        "numpy": {**FLAT, "age": np.int64(31), "basket.total": np.float64(80.5)},
    }  # fmt: skip
    results = {}
    for name, context in forms.items():
        twin = bandit.copy()
        decision = twin.decide(context, question(form).get("items"))
        twin.update(decision, 1.0)
        results[name] = (decision.arm, decision.propensities.tobytes(), content(twin))
    for name, result in results.items():
        assert result == results["nested"], name


def test_reordered_items_have_the_same_beliefs() -> None:
    bandit = played()
    items = items_of(0)
    turned = {name: dict(reversed(features.items())) for name, features in items.items()}
    assert bandit.copy().decide(USERS[0], turned).arm == bandit.copy().decide(USERS[0], items).arm
    backwards = dict(reversed(items.items()))
    np.testing.assert_allclose(
        bandit.propensities(USERS[0], backwards), bandit.propensities(USERS[0], items)[::-1], atol=1e-7
    )
    assert bandit.decide(USERS[0], backwards, exploit=True).arm == bandit.decide(USERS[0], items, exploit=True).arm


@every_form
def test_unknown_keys_and_no_known_keys(form: str) -> None:
    bandit = played(form)
    columns = bandit.columns
    rest = list(question(form).values())[1:]
    for context in ({}, {"never": "seen"}, {"never": 5.0, "at all": [1.0, 2.0]}, {**USERS[0], "new": {"deep": "x"}}):
        decision = bandit.decide(context, *rest)
        assert np.isfinite(decision.means).all()
        assert bandit.columns == columns, "nothing is learned from a decision"
        bandit.copy().update(decision, 1.0)
    fresh = make(form)
    assert fresh.decide({}, *rest).arm in fresh.decide({}, *rest).arms


# Encoders


COLUMNS = Columns(age=Number(), country=Category(["AT", "DE"]), at=Time())


def test_declared_columns() -> None:
    bandit = lim2.Bandit(
        encoder=COLUMNS, item_encoder=Columns(price=Number(), tags=Tags(["new", "red"])), algorithm="LinearTS", seed=0
    )
    assert isinstance(bandit.agent, lim2.ItemAgent)
    assert (bandit.agent.n_features, bandit.agent.n_item_features) == (COLUMNS.width, bandit.rows.encoders[1].width)
    user = {"age": 30, "country": "AT", "at": "2026-11-16"}
    items = {"a": {"price": 1.0, "tags": ["new"]}, "b": {"price": 2.0, "tags": []}}
    bandit.update(bandit.decide(user, items), 1.0)
    before = content(bandit)
    with pytest.raises(ValueError, match="color"):
        bandit.decide({**user, "color": "red"}, items)
    with pytest.raises(ValueError, match=r"the item 'c'.*weight"):
        bandit.decide(user, {**items, "c": {"price": 1.0, "weight": 3}})
    assert content(bandit) == before


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="item_encoder is for items"):
        lim2.Bandit(["a", "b"], item_encoder=Encoder())
    with pytest.raises(ValueError, match="algorithm must be one of LinearTS"):
        lim2.Bandit(["a", "b"], algorithm="Nobody")
    with pytest.raises(ValueError, match=r"algorithm must be a name in lim2\.AGENTS"):
        lim2.Bandit(["a", "b"], algorithm=dict)
    with pytest.raises(ValueError, match="given twice"):
        lim2.Bandit(["a", "a"])
    with pytest.raises(ValueError, match="empty"):
        lim2.Bandit({})
    with pytest.raises(ValueError, match="empty"):
        lim2.Bandit([])
    with pytest.raises(ValueError, match="price"):
        lim2.Bandit({"a": {"price": float("inf")}})
    with pytest.raises(ValueError, match="features must be given by key"):
        lim2.Bandit({"a": 3})
    with pytest.raises(TypeError, match="no_such_setting"):
        lim2.Bandit(["a", "b"], no_such_setting=1)
    with pytest.raises(ValueError, match="log"):
        make().decide(USERS[0], items_of(0), id="mine")
    with pytest.raises(ValueError, match="log"):
        make().rank(USERS[0], items_of(0), id="mine")


def test_items_where_they_do_not_belong() -> None:
    with pytest.raises(ValueError, match="takes no items"):
        make("arms").decide(USERS[0], items_of(0))
    with pytest.raises(ValueError, match="give candidates as items="):
        make("items").decide(USERS[0])
    with pytest.raises(ValueError, match="items must be a mapping"):
        make("items").decide(USERS[0], [{"price": 1.0}])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        make("items").decide(USERS[0], {})
    with pytest.raises(ValueError, match="separate posteriors"):
        make("arms").decide(USERS[0], joint=True)
    decision = make("items").decide(USERS[0], items_of(0), joint=True)
    assert np.isnan(decision.propensities).all()


# Explaining


@every_form
def test_the_key_that_matters_is_the_reason(form: str) -> None:
    """Whether a user likes an arm depends on the country alone, the other keys are noise."""
    rng, bandit = np.random.default_rng(1), make(form)
    rest = ({"good": {"kind": "x"}, "bad": {"kind": "y"}},) if form == "items" else ()
    liked = {"arms": "shoes", "items": "good", "features": "shoes"}[form]
    for _ in range(250):
        user = {
            "country": str(rng.choice(["AT", "DE"])), "age": float(rng.normal(40, 10)), "n": int(rng.integers(5)),
            "device": str(rng.choice(["phone", "desktop"])),
        }  # fmt: skip
        decision = bandit.decide(user, *rest)
        bandit.update(decision, float(decision.arm == liked) * (2.0 if user["country"] == "AT" else -2.0))
    decision = bandit.decide({"country": "AT", "age": 41.0, "n": 2, "device": "phone"}, *rest, exploit=True)
    assert decision.arm == liked
    reasons = bandit.explain(decision)
    of_context = [reason for reason in reasons if reason.source == "context"]
    assert of_context[0].key == "country"
    assert of_context[0].value == "AT"
    assert of_context[0].contribution > 2 * max(abs(reason.contribution) for reason in of_context[1:])
    sizes = [abs(reason.contribution) for reason in reasons]
    assert sizes == sorted(sizes, reverse=True)
    assert {reason.source for reason in reasons} == ({"context"} if form == "arms" else {"context", "item"})
    assert bandit.snapshot().explain(decision) == reasons
    assert {reason.key for reason in of_context} == {"country", "age", "n", "device"}


def test_reasons_of_a_linear_belief_add_up() -> None:
    """Without items there are no products: keys add up to the expected score minus that of an empty context."""
    bandit = played("arms", 20)
    decision = bandit.decide(USERS[1])
    total = sum(reason.contribution for reason in bandit.explain(decision))
    empty = bandit.agent.means(np.zeros(bandit.rows.width))  # type: ignore[call-arg]
    place = ARMS.index(decision.arm)
    assert total == pytest.approx(decision.means[place] - empty[place], rel=1e-9)


def test_explaining_an_entry_of_a_slate_knows_its_position() -> None:
    bandit = played()
    slate = bandit.rank(USERS[0], items_of(0), 3)
    assert "position in the slate" not in {reason.key for reason in bandit.explain(slate[0])}
    assert "position in the slate" in {reason.key for reason in bandit.explain(slate[1])}


# Copies


@every_form
def test_copies_go_on_by_themselves(form: str) -> None:
    bandit = played(form)
    bandit.metadata["note"] = ["mine"]
    before = content(bandit)
    ways: list[Any] = [
        lim2.Bandit.copy, copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one)),
    ]  # fmt: skip
    futures = []
    for way in ways:
        twin = way(bandit)
        assert content(twin) == before
        futures.append((play(twin, form, 6, start=50), content(twin)))
        twin.metadata["note"].append("its own")
        if form != "items":
            twin.remove_arm("shoes")
        assert content(bandit) == before
    assert all(future == futures[0] for future in futures)
    assert futures[0][0] == play(bandit, form, 6, start=50)


@every_form
def test_a_clone_begins_again(form: str) -> None:
    clone = played(form).clone()
    assert clone.rounds == 0
    assert content(clone) == content(make(form))


@every_form
def test_a_snapshot_stays_as_it_was(form: str) -> None:
    bandit = played(form)
    snapshot, chances = bandit.snapshot(), bandit.propensities(**question(form))
    assert snapshot.arms == bandit.arms
    play(bandit, form, 5)
    if form != "items":
        bandit.remove_arm("shoes")
    assert snapshot.propensities(**question(form)).tobytes() == chances.tobytes()
    assert snapshot.rounds == 16
    assert snapshot.decide(**question(form)).arm in snapshot.rank(**question(form)).arms
    assert not hasattr(snapshot, "update")


@every_form
def test_a_snapshot_can_be_pickled(form: str) -> None:
    bandit = played(form)
    loaded = pickle.loads(pickle.dumps(bandit.snapshot()))
    assert loaded.propensities(**question(form)).tobytes() == bandit.propensities(**question(form)).tobytes()
    assert (loaded.arms, loaded.rounds, loaded.metadata) == (bandit.arms, bandit.rounds, bandit.metadata)
    loaded.core.succeed(bandit.snapshot().core, draws=True)
    assert loaded.decide(**question(form)).arm in loaded.rank(**question(form)).arms


def test_snapshots_in_another_thread_are_of_one_moment() -> None:
    """Encoder and agent of a snapshot, of a copy and of a file have learned equally often."""
    bandit, torn, stop = make("items", encoder=Encoder(numbers=4, buckets=4)), list[set[int]](), threading.Event()

    def updates(taken: Any) -> set[int]:
        return {taken.rounds, *(known.updates for known in taken.core.state.encoders)}

    def watch() -> None:
        while not stop.is_set():
            seen = updates(bandit.snapshot()), updates(lim2.from_bytes(content(bandit)))
            torn.extend(numbers for numbers in seen if len(numbers) > 1)

    thread = threading.Thread(target=watch)
    thread.start()
    for t in range(200):
        learn(bandit, USERS[t % 4], "x", 1.0, item={"price": t})
    stop.set()
    thread.join()
    assert not torn


# Arms that come and go


def test_arms_without_features_come_and_go() -> None:
    bandit = played("arms")
    bandit.add_arm("new", like="shoes")
    assert list(bandit.arms or ()) == [*ARMS, "new"]
    bandit.remove_arm("spring")
    assert list(bandit.arms or ()) == ["shoes", "gift card", "new"]
    with pytest.raises(ValueError, match="have no features"):
        bandit.add_arm("newer", features={"price": 1})


def test_arms_with_features_come_and_go() -> None:
    bandit = played("features")
    bandit.add_arm("new", features={"price": 60})
    assert bandit.arms == (*FEATURES, "new")
    assert len(bandit.decide(USERS[0]).arms) == 4
    bandit.remove_arm("spring")
    assert bandit.arms == ("shoes", 3, "new")
    before = content(bandit)
    wrong: list[Callable[[], None]] = [
        lambda: bandit.add_arm("new", features={"price": 1}),
        lambda: bandit.add_arm("newer"),
        lambda: bandit.add_arm("newer", like="new"),
        lambda: bandit.add_arm("newer", features={"price": float("inf")}),
        lambda: bandit.add_arm("newer", features={"embedding": [1e9, 1.0]}),
        lambda: bandit.add_arm("newer", features=5),
        lambda: bandit.add_arm(None, features={"price": 1}),
        lambda: bandit.add_arm(["a"], features={"price": 1}),  # type: ignore[arg-type]
        lambda: bandit.remove_arm("nobody"),
        lambda: bandit.remove_arm(["a"]),  # type: ignore[arg-type]
    ]
    for bad in wrong:
        with pytest.raises(ValueError):  # each has words of its own
            bad()
        assert content(bandit) == before
    for form in ("items",):
        with pytest.raises(ValueError, match="this bandit has no arms"):
            make(form).add_arm("x", features={"a": 1})
        with pytest.raises(ValueError, match="this bandit has no arms"):
            make(form).remove_arm("x")
