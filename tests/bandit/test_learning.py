"""What a bandit learns, and that encoder and agent learn together or not at all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bandit.shop import ARMS, CATALOGUE, FORMS, USERS, content, items_of, learned, make, play, played, question
from helpers.faults import fails_at, fails_at_line
from helpers.learning import learn

import lim2
from lim2.encoding import Encoder

POSITION = "position in the slate"

every_form = pytest.mark.parametrize("form", FORMS)
SMALL = Encoder(numbers=8, buckets=6)


@every_form
def test_nothing_is_learned_from_a_decision(form: str) -> None:
    bandit = played(form)
    before = learned(bandit)
    for t in range(5):
        bandit.decide(**question(form, t))
        bandit.rank(**question(form, t), k=2)
        bandit.propensities(**question(form, t))
    assert learned(bandit) == before


@every_form
def test_update_learns_what_was_decided(form: str) -> None:
    """From a table as by `update`, at once or late, and whatever happened to the caller's objects meanwhile."""
    bandit, same = make(form), make(form)
    decisions = []
    for t in range(6):
        asked = list(question(form, t).values())
        context = {**asked[0], "basket": dict(asked[0]["basket"])}
        decision = bandit.decide(context, *asked[1:])
        context["basket"]["total"] = -1.0  # the caller's own
        context["age"] = "old"
        decisions.append(decision)
    for decision in reversed(decisions):
        bandit.update(decision, 2.0)
        learn(same, decision.context, decision.arm, 2.0, item=decision.item)
    assert learned(bandit) == learned(same)
    assert bandit.rounds == 6
    assert bandit.core.state.encoders[0].updates == 6
    assert bandit.info is not None


def test_what_a_bandit_knows_of_its_keys() -> None:
    bandit = played("items", 9)
    names = {part: {info.name: info for info in infos} for part, infos in bandit.columns.items()}
    assert list(names["context"]) == ["age", "at", "basket.items", "basket.total", "country", "device"]
    assert list(names["item"]) == ["price", "category", POSITION, "tags"]
    assert (names["context"]["age"].count, names["context"]["device"].missing) == (12, 4)  # a slate has two rewards
    assert names["context"]["country"].columns == range(0) and len(names["item"]["price"].columns) == 1
    assert set(played("arms", 3).columns) == {"context"}


@every_form
def test_a_slate_learns_each_position(form: str) -> None:
    bandit, same = played(form), played(form)
    slate, also = bandit.rank(**question(form), k=3), same.rank(**question(form), k=3)
    bandit.update(slate, {"slot 3": 1.0, 1: 0.25})
    for position, reward in ((1, 0.25), (3, 1.0)):
        same.update(also[position - 1], reward)
    assert content(bandit) == content(same)
    bandit.update(slate[1], 0.5)
    same.update(also, {2: 0.5})
    assert content(bandit) == content(same)


@every_form
def test_a_position_is_a_feature(form: str) -> None:
    """What is shown third is clicked less; what is first is chosen by what it would earn there."""
    bandit = make(form)
    for t in range(60):
        slate = bandit.rank(**question(form, t), k=3)
        bandit.update(slate, {1: 1.0, 2: 1.0, 3: 0.0})
    slate = bandit.rank(**question(form), k=3)
    shown = {reason.key: reason.contribution for reason in bandit.explain(slate[2])}
    assert shown[POSITION] < -0.2
    assert shown[POSITION] < {reason.key: reason.contribution for reason in bandit.explain(slate[1])}[POSITION]


BAD_REWARDS: list[Any] = [float("nan"), float("inf"), 1e30, "1", None, [1.0], {1: 1.0}]


@every_form
@pytest.mark.parametrize("bad", BAD_REWARDS, ids=str)
def test_a_bad_reward_changes_nothing(form: str, bad: Any) -> None:
    bandit = played(form)
    decision = bandit.decide(**question(form))
    before = content(bandit)
    with pytest.raises(ValueError, match="reward"):
        bandit.update(decision, bad)
    assert content(bandit) == before


@every_form
@pytest.mark.parametrize(
    "bad",
    [
        {1: 1.0, 2: float("nan")}, {1: 1.0, 2: "x"}, {0: 1.0}, {4: 1.0}, {"slot 2": 1.0, 2: 0.0}, {"two": 1.0}, 1.0,
        {1: 1.0, 9: 0.0}, {True: 1.0}, {1.0: 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_a_slate_is_learned_whole_or_not_at_all(form: str, bad: Any) -> None:
    bandit = played(form)
    slate = bandit.rank(**question(form), k=3)
    before = content(bandit)
    with pytest.raises(ValueError, match=r"reward|position"):
        bandit.update(slate, bad)
    assert content(bandit) == before
    bandit.update(slate, {1: 1.0})


@pytest.mark.parametrize(
    "bad",
    [
        {"context": 5}, {"context": {"a": float("inf")}}, {"item": 5}, {"item": {"a": [[]]}}, {"reward": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_learned_changes_nothing(bad: dict[str, Any]) -> None:
    bandit = played("items")
    before = content(bandit)
    given = {"context": USERS[0], "arm": "x", "reward": 1.0, "item": CATALOGUE["sku1"], **bad}
    with pytest.raises(ValueError, match=r"context|item|reward|position|\ba\b"):
        learn(bandit, **given)
    assert content(bandit) == before


def test_unknown_arms_are_not_learned() -> None:
    for form in ("arms", "features"):
        bandit = played(form)
        before = content(bandit)
        with pytest.raises(ValueError, match="nobody"):
            learn(bandit, USERS[0], "nobody", 1.0)
        assert content(bandit) == before
    with pytest.raises(ValueError, match="no raw items"):
        learn(make("items"), USERS[0], "sku1", 1.0)
    for other in (lim2.LinearTS(n_arms=2, n_features=1, seed=0).decide([1.0]), "x", None):
        with pytest.raises(ValueError, match="decision must be what decide or rank returned"):
            make("arms").update(other, 1.0)


# Faults


def lessons(form: str) -> dict[str, Callable[[lim2.Bandit], None]]:
    """Return what a bandit can learn: one reward, and those of a slate."""
    judge = played(form, 4, encoder=SMALL)
    decision = judge.decide({**USERS[0], "new": 1.5}, question(form).get("items"))
    slate = judge.rank(**question(form), k=3)
    return {
        "one": lambda bandit: bandit.update(decision, 1.0),
        "slate": lambda bandit: bandit.update(slate, {1: 1.0, 2: 0.0, 3: 0.5}),
    }


@every_form
@pytest.mark.parametrize("lesson", ["one", "slate"])
@pytest.mark.parametrize("algorithm", ["LinearTS", "AdaptiveTS"])
def test_a_lesson_that_fails_anywhere_changes_nothing(form: str, lesson: str, algorithm: str) -> None:
    learn = lessons(form)[lesson]
    bandit = played(form, 7, encoder=SMALL, algorithm=algorithm)
    expected, before, call = bandit.copy(), content(bandit), 1
    step = 37 if algorithm == "AdaptiveTS" else 7
    while fails_at(call, lambda: learn(bandit)):
        assert content(bandit) == before, f"call {call} failed, and something had changed"
        call += 1 if call < 20 else step
    assert call > 10
    learn(expected)
    assert content(bandit) == content(expected)


@every_form
@pytest.mark.parametrize("lesson", ["one", "slate"])
def test_an_interrupt_at_any_line_is_before_or_after(form: str, lesson: str) -> None:
    """Encoder and agent have learned both, or neither, wherever it comes; a slate's positions all, or none."""
    start, learn = played(form, 4, encoder=SMALL), lessons(form)[lesson]
    before, done = content(start), start.copy()
    learn(done)
    after, seen, line, failed = content(done), set(), 1, True
    while failed:
        bandit = start.copy()
        failed = fails_at_line(line, lambda: learn(bandit))  # noqa: B023
        assert content(bandit) in (before, after), f"line {line} was interrupted, and something was learned in part"
        seen.add(content(bandit))
        line += 1 if lesson == "one" else 3
    assert seen == {before, after}
    assert line > 15


def test_a_slate_that_fails_is_not_in_the_encoder() -> None:
    """Its second position is refused after the first was learned."""
    bandit = played("items", 5)
    slate = bandit.rank({"age": 5, "brand new": 3.5}, items_of(0), 2)
    entries = [entry.__dict__ for entry in slate]
    broken = lim2.bandit.RawDecision(**{**entries[1], "item": {"price": float("inf")}})
    before = content(bandit)
    with pytest.raises(ValueError, match="price"):
        bandit.update(lim2.Slate(slate.id, (slate[0], broken)), {1: 1.0, 2: 1.0})
    assert content(bandit) == before
    assert "brand new" not in {info.name for info in bandit.columns["context"]}


# Scales


def earned(factor: float, shift: float = 0.0) -> float:
    """Return what a bandit earns where one number says which arm is right, on a scale of its own."""
    rng, bandit, total = np.random.default_rng(0), lim2.Bandit(ARMS[:2], seed=0), 0.0
    for _ in range(300):
        x, noise = rng.normal(), rng.normal()
        decision = bandit.decide({"x": shift + factor * x, "noise": noise, "country": "AT"})
        reward = float((x > 0) == (decision.arm == ARMS[0]))
        bandit.update(decision, reward)
        total += reward
    return total / 300


def test_the_scale_of_a_column_changes_little() -> None:
    usual = earned(1.0)
    assert usual > 0.85
    for factor, shift in ((1e-6, 0.0), (1e9, 0.0), (1.0, 1e6), (3e5, 1.7e9)):
        assert earned(factor, shift) > usual - 0.03, (factor, shift)


def test_a_catalogue_with_tastes() -> None:
    """Users and items of two numbers each, as raw dictionaries: what a user likes is in their products."""
    rng, bandit = np.random.default_rng(1), lim2.Bandit(seed=0, algorithm="AdaptiveTS", hidden=())
    total, best, random = 0.0, 0.0, 0.0
    for t in range(500):
        user, items = rng.normal(size=2), rng.normal(size=(6, 2))
        expected = items @ user
        decision = bandit.decide(
            {"a": float(user[0]), "b": float(user[1]) * 1e6},
            {f"item {t}-{i}": {"p": float(x[0]), "q": 5.0 + 1e-3 * float(x[1])} for i, x in enumerate(items)},
        )
        place = decision.arms.index(decision.arm)
        bandit.update(decision, float(expected[place]))
        if t >= 150:
            total, best, random = total + expected[place], best + expected.max(), random + expected.mean()
    assert (total - random) / (best - random) > 0.7


def test_features_of_arms_are_shared() -> None:
    """What is learned of one arm's features is believed of another that has them; each has a part of its own."""
    bandit = lim2.Bandit({"a": {"kind": "x"}, "b": {"kind": "y"}}, algorithm="LinearTS", seed=0)
    for _ in range(20):
        learn(bandit, {"country": "AT"}, "a", 5.0)
    bandit.add_arm("c", features={"kind": "x"})
    means = dict(zip("abc", bandit.decide({"country": "AT"}).means, strict=True))
    assert means["a"] > means["c"] + 0.5 > means["b"] + 1.0


def test_play_is_reproducible() -> None:
    for form in FORMS:
        assert play(make(form), form, 8) == play(make(form), form, 8)
