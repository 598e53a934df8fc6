"""Evaluation with candidates that differ per decision: unbiased where the truth is known, and what policies may be."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from log.stand_ins import ItemLearner, RawLearner
from log.test_items import USERS, some_items
from log.world import make_log
from numpy.typing import NDArray

import lim2
from lim2.evaluation import Evaluation, OverlapWarning, Table, evaluate
from lim2.evaluation.models import by_folds, by_past, over_items
from lim2.evaluation.policies import probabilities

Float = NDArray[np.float64]
D, E, ROWS, REPLICATIONS = 2, 3, 600, 200
# Binomial, 200 replications at 95%: 178 or fewer cover with probability 0.0005, all 200 with 0.00004.
LEAST, MOST = 179, 199
TASTE = np.random.default_rng(3).normal(size=(D, E))
CATALOGUE = np.random.default_rng(4).normal(size=(300, E))


def quietly(*args: Any, **settings: Any) -> Evaluation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        return evaluate(*args, **settings)


def scores(contexts: Float, items: Float) -> Float:
    """Return what users like: (..., k) for contexts (..., D) and items (..., k, E)."""
    found: Float = np.einsum("...d,de,...ke->...k", contexts, TASTE, items)
    return found


def mean_reward(contexts: Float, items: Float) -> Float:
    """Return each item's mean reward: not linear, so that the reward model is wrong."""
    found: Float = np.tanh(scores(contexts, items)) + 0.3 * np.abs(items[..., 0])
    return found


def shares(values: Float, there: Any = True) -> Float:
    """Return the softmax over the items that are there."""
    powers = np.exp(values) * there
    found: Float = powers / powers.sum(axis=-1, keepdims=True)
    return found


def target(context: Float, items: Any) -> Float:
    """Rather like what the log does not."""
    vectors = np.array(list(items.values())) if isinstance(items, dict) else items
    return shares(0.7 * scores(context, vectors))


class World(NamedTuple):
    """Rounds: contexts, up to 8 items each, and which of the 8 places are taken."""

    contexts: Float
    names: NDArray[np.intp]
    there: NDArray[np.bool_]

    @property
    def items(self) -> Float:
        return CATALOGUE[self.names]


def draw(rng: np.random.Generator, rows: int) -> World:
    names = rng.random((rows, len(CATALOGUE))).argpartition(8, axis=1)[:, :8]
    return World(rng.normal(size=(rows, D)), names, np.arange(8) < rng.integers(3, 9, size=(rows, 1)))


@cache
def item_table(seed: int, rows: int = ROWS, named: bool = True) -> Table:
    rng = np.random.default_rng([5, seed])
    world = draw(rng, rows)
    uniform = world.there / world.there.sum(axis=1, keepdims=True)
    chances = 0.5 * uniform + 0.5 * shares(-0.3 * scores(world.contexts, world.items), world.there)
    places = (rng.random((rows, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    each = np.arange(rows)
    rewards = mean_reward(world.contexts, world.items)[each, places] + 0.3 * rng.normal(size=rows)
    propensities = [row[there] for row, there in zip(chances, world.there, strict=True)]
    rest: dict[str, Any] = {"rewards": rewards, "propensity": chances[each, places], "propensities": propensities}
    if not named:
        items = [row[there] for row, there in zip(world.items, world.there, strict=True)]
        return Table.of(world.contexts, places.tolist(), **rest, items=items)
    eligible = [row[there].tolist() for row, there in zip(world.names, world.there, strict=True)]
    catalogue = {name: CATALOGUE[name] for name in range(len(CATALOGUE))}
    arms = [*range(1, len(CATALOGUE)), 0]  # names, not places
    return Table.of(
        world.contexts, world.names[each, places].tolist(), **rest, arms=arms, eligible=eligible, items=catalogue
    )


def target_of(table: Table) -> Float:
    """Return the policy's probabilities of all candidates, as `target` gives them row by row."""
    items = table.candidates.items
    assert items is not None
    values = np.exp(0.7 * np.einsum("md,de,me->m", table.contexts[table.candidates.rows], TASTE, items))
    found: Float = values / np.bincount(table.candidates.rows, values)[table.candidates.rows]
    return found


@cache
def truth(rows: int = 100_000) -> tuple[float, float]:
    """Return the policy's value, and the standard error of that."""
    world = draw(np.random.default_rng(6), rows)
    chances = shares(0.7 * scores(world.contexts, world.items), world.there)
    values = (chances * mean_reward(world.contexts, world.items)).sum(axis=1)
    return float(values.mean()), float(values.std()) / np.sqrt(rows)


@cache
def results(crossfit: str) -> list[Evaluation]:
    tables = (item_table(seed) for seed in range(REPLICATIONS))
    return [evaluate(table, target_of(table), crossfit=crossfit) for table in tables]


@pytest.mark.parametrize("crossfit", ["past", "folds"])
def test_ips_and_dr_are_unbiased_and_cover_for_items(crossfit: str) -> None:
    found, (value, error) = results(crossfit), truth()
    for name in ("ips", "snips", "dr"):
        values = np.array([getattr(e, name).value for e in found])
        z = (values.mean() - value) / np.hypot(values.std(ddof=1) / np.sqrt(len(values)), error)
        assert abs(z) < 3.5 or name == "snips", (name, z)
        covered = sum(getattr(e, name).low <= value <= getattr(e, name).high for e in found)
        assert LEAST <= covered <= MOST, (name, covered)


def test_one_regression_over_items_takes_noise_away() -> None:
    errors = {name: np.mean([getattr(e, name).error for e in results("folds")]) for name in ("ips", "dr")}
    assert errors["dr"] < 0.6 * errors["ips"]


def test_estimates_are_those_of_the_formulas() -> None:
    table = item_table(0, 100)
    q = np.random.default_rng(0).normal(size=len(table.candidates.arms))
    found = quietly(table, target, model=q)
    ips, dr, place = [], [], 0
    for row, context in enumerate(table.contexts):
        items = table.items_of(row)
        assert items is not None
        chances, own = target(context, items), q[place : place + len(items)]
        chosen = list(items).index(table.arms[table.chosen[row]])
        weight = chances[chosen] / table.propensity[row]
        ips.append(weight * table.rewards[row])
        dr.append(chances @ own + weight * (table.rewards[row] - own[chosen]))
        place += len(items)
    assert found.ips.value == pytest.approx(np.mean(ips), rel=1e-12)
    assert found.dr.value == pytest.approx(np.mean(dr), rel=1e-12)


def test_names_of_items_and_their_order_say_nothing() -> None:
    named, numbered = item_table(1, 200), item_table(1, 200, named=False)
    agent = ItemLearner(E)
    agent.update(np.zeros(D), CATALOGUE[0], 3.0)
    one, other = quietly(named, agent), quietly(numbered, agent)
    assert (one.ips, one.dr) == (other.ips, other.dr)
    assert not any("never played" in text for text in one.warnings)
    own = [list((named.items_of(row) or {}).values()) for row in range(len(named))]
    rows = [agent.propensities(context, items) for context, items in zip(named.contexts, own, strict=True)]
    for table in (named, numbered):
        np.testing.assert_array_equal(probabilities(agent, table), np.concatenate(rows))


def test_policies_over_items_take_many_forms() -> None:
    table = item_table(2, 100)
    flat = np.concatenate([target(c, table.items_of(row)) for row, c in enumerate(table.contexts)])
    np.testing.assert_allclose(flat, target_of(table), rtol=1e-12)

    def best(context: Float, items: dict[Any, Float]) -> Any:
        return max(items, key=lambda name: float(scores(context, items[name][None])[0]))

    onehot = probabilities(best, table)
    assert set(onehot.tolist()) == {0.0, 1.0}
    dense = table.candidates.dense(flat, len(table.arms), 0.0)
    for policy in (flat, dense, lambda c, items: dict(zip(items, target(c, items), strict=True))):
        np.testing.assert_array_equal(probabilities(policy, table), flat)
    dense[0, np.flatnonzero(~table.eligible[0])[0]] = 0.1
    for wrong, message in (
        (dense, "not eligible in that row"),
        (flat[:-1], "must have the shape"),
        (2 * flat, "sum to 1"),
        (lambda c, items: "nothing", "one of the eligible arms"),
        (lambda c, items: {"nothing": 1.0}, "not eligible"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(table, wrong)


def test_bandits_are_evaluated_on_raw_logs(tmp_path: Path) -> None:
    logger, bandit, rng = RawLearner(["country", "category"]), RawLearner(["category"]), np.random.default_rng(0)
    with make_log(tmp_path) as log:
        for _ in range(300):
            user, items = USERS[rng.integers(len(USERS))], some_items(rng, int(rng.integers(2, 6)))
            decision = log.decide(logger, user, items=items)
            assert decision.raw_items is not None
            log.reward(decision.id, float(decision.raw_items[decision.arm]["category"] == "shoes"))
        table = log.table()
        log.replay(bandit)
        found = quietly(log, bandit)
    expected = np.concatenate([bandit.propensities(raw, table.items_of(i)) for i, raw in enumerate(table.contexts)])
    np.testing.assert_array_equal(probabilities(bandit, table), expected)
    assert found.dr.value > found.logged.value
    assert found.dr.error < found.ips.error  # the mean of each item says something

    def shoes(context: dict[str, Any], items: dict[str, Any]) -> Any:
        return next((name for name, item in items.items() if item["category"] == "shoes"), next(iter(items)))

    assert quietly(table, shoes).dr.value > 0.75
    with pytest.raises(ValueError, match="contexts are raw"):
        evaluate(table, lim2.LinearTS(n_arms=2, n_features=2))
    with pytest.raises(ValueError, match="contexts are raw"):
        evaluate(table, ItemLearner(3))


def test_bandits_with_arms_choose_among_what_was_eligible_and_known() -> None:
    users: list[Any] = [{"country": "AT"}, {"country": "DE"}] * 20
    eligible = [["a", "b", "c"], ["c", "a"]] * 20
    table = Table.of(users, ["a", "c"] * 20, [1.0, 0.0] * 20, [1 / 3, 0.5] * 20, eligible=eligible)
    bandit = RawLearner(["country"], arms=["a", "b"])
    bandit.learn({"country": "AT"}, "b", 5.0)
    chances = table.candidates.dense(probabilities(bandit, table), 3, 0.0)
    by_arm = dict(zip(table.arms, chances[0], strict=True))
    assert (by_arm["a"], by_arm["b"]) == pytest.approx(bandit.propensities({"country": "AT"}, arms=("a", "b")))
    assert dict(zip(table.arms, chances[1], strict=True)) == {"a": 1.0, "b": 0.0, "c": 0.0}
    with pytest.raises(ValueError, match="none of the arms that were eligible in row 1"):
        evaluate(table, RawLearner(["country"], arms=["b"]))
    with pytest.raises(ValueError, match="none that are raw"):
        evaluate(table, RawLearner(["country"]))


def test_agents_of_another_kind_are_refused_with_the_reason() -> None:
    numbered = item_table(0, 20, named=False)
    with pytest.raises(ValueError, match="have no names"):
        evaluate(numbered, lim2.LinearTS(n_arms=9, n_features=D))
    with pytest.raises(ValueError, match="takes raw contexts"):
        evaluate(numbered, RawLearner(["country"]))
    plain = Table.of(np.zeros((4, D)), ["a", "b"] * 2, np.ones(4), np.full(4, 0.5))
    with pytest.raises(ValueError, match="no vectors of items"):
        evaluate(plain, ItemLearner(E))


def test_agents_with_arms_are_asked_about_sets_that_differ() -> None:
    rng = np.random.default_rng(0)
    arms = [f"arm{i}" for i in range(40)]
    eligible = [rng.choice(arms, size=5, replace=False).tolist() for _ in range(200)]
    contexts = rng.normal(size=(200, 3))
    table = Table.of(contexts, [row[0] for row in eligible], rng.normal(size=200), np.full(200, 0.2), eligible=eligible)
    agent = lim2.LinearTS(arms=arms[:30], n_features=3, seed=0)
    agent.update(rng.normal(size=(300, 3)), (arms[:30] * 10), rng.normal(size=300))
    some = np.array([row for row in range(200) if set(eligible[row]) & set(arms[:30])])
    chances = probabilities(agent, table[some])
    place = 0
    for row in some:
        of = dict(zip(eligible[row], chances[place : place + 5], strict=True))
        known = [arm for arm in eligible[row] if arm in agent.arms]
        np.testing.assert_allclose([of[arm] for arm in known], agent.propensities(contexts[row], arms=known), atol=1e-9)
        assert sum(of.values()) == pytest.approx(1)
        place += 5


@pytest.mark.parametrize("split", [by_past, by_folds])
def test_no_reward_is_predicted_from_itself(split: Any) -> None:
    table = item_table(3, 60)
    contexts, rewards, items = table.contexts, table.rewards, table.candidates.items
    assert items is not None
    rows, spans = table.candidates.rows, split(60, 4)

    def models(values: Float) -> list[Float]:
        return [over_items(contexts, items, table.played, values, table.candidates, spans)]

    before = models(rewards)
    for row in (0, 17, 59):
        changed = rewards.copy()
        changed[row] += 100.0
        for old, new in zip(before, models(changed), strict=True):
            np.testing.assert_array_equal(new[rows == row], old[rows == row])
            if split is by_past:
                np.testing.assert_array_equal(new[rows <= row], old[rows <= row])
            assert row == 59 or (new != old).any()


def test_the_regression_over_items_finds_products(monkeypatch: pytest.MonkeyPatch) -> None:
    table = item_table(4, 2000)
    items = table.candidates.items
    assert items is not None
    exact = np.einsum("md,me,de->m", table.contexts[table.candidates.rows], items, TASTE)
    rewards = exact[table.played]
    spans = by_past(2000, 10)
    late = table.candidates.rows >= 1000
    whole = over_items(table.contexts, items, table.played, rewards, table.candidates, spans)
    assert np.corrcoef(whole[late], exact[late])[0, 1] > 0.999
    monkeypatch.setattr("lim2.evaluation.models.ROWS_PER_CHUNK", 100)
    parts = over_items(table.contexts, items, table.played, rewards, table.candidates, spans)
    np.testing.assert_allclose(parts, whole, rtol=1e-9, atol=1e-12)
    monkeypatch.setattr("lim2.evaluation.models.MAX_PRODUCT_COLUMNS", 5)
    without = over_items(table.contexts, items, table.played, rewards, table.candidates, spans)
    assert np.corrcoef(without[late], exact[late])[0, 1] < 0.5
