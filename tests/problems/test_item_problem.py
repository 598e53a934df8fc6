from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lim2.problems
from lim2.problems import ItemProblem, from_items


def shop(**changes: Any) -> ItemProblem:
    given_as: dict[str, Any] = {
        "contexts": np.arange(6.0).reshape(3, 2),
        "candidates": np.arange(14.0).reshape(7, 2),
        "offsets": np.array([0, 2, 5, 7]),
        "rewards": np.array([0.0, 3.0, 1.0, 2.0, 2.0, 0.5, 0.5]),
        "item_names": tuple("abcabab"),
        "raw_contexts": tuple({"age": age} for age in (30, 40, 50)),
        "raw_items": tuple({"price": price} for price in range(7)),
    }
    return ItemProblem("shop", **(given_as | changes))


def test_rounds_have_their_own_candidates() -> None:
    problem = shop()
    assert (problem.rounds, problem.n_features, problem.n_item_features) == (3, 2, 2)
    assert problem.n_candidates.tolist() == [2, 3, 2]
    assert problem.items(1).tolist() == [[4.0, 5.0], [6.0, 7.0], [8.0, 9.0]]
    assert problem.names(1) == ("c", "a", "b")
    assert problem.raw(1) == ({"age": 40}, {"c": {"price": 2}, "a": {"price": 3}, "b": {"price": 4}})
    for t, (context, items, rewards) in enumerate(problem):
        assert context.tolist() == problem.contexts[t].tolist()
        assert items.tolist() == problem.items(t).tolist()
        assert rewards.tolist() == problem.rewards[problem.rows(t)].tolist()


def test_best_is_the_expected_best_and_the_first_of_several() -> None:
    problem = shop(expected_rewards=np.array([1.0, 0.0, 5.0, 7.0, 7.0, 2.0, 2.0]))
    assert problem.best_items.tolist() == [0, 1, 0]
    assert problem.best_rewards.tolist() == [1.0, 7.0, 2.0]
    assert problem.earned(np.array([1, 1]), start=1).tolist() == [2.0, 0.5]
    for chosen in ([0, 0, 2], [2, 0, 0], [-1, 0, 0]):
        with pytest.raises(IndexError, match="an index beyond the candidates of its round"):
            problem.earned(np.array(chosen))
    assert problem.expected(np.array([1, 0, 1])).tolist() == [0.0, 5.0, 2.0]


def test_a_round_counts_once_however_many_candidates_it_has() -> None:
    assert shop().uniform_reward == pytest.approx((1.5 + 5 / 3 + 0.5) / 3)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=6), min_size=1, max_size=8), st.data())
def test_it_says_what_a_loop_says(rewards: list[list[float]], data: st.DataObject) -> None:
    items = [np.zeros((len(row), 1)) for row in rewards]
    problem = from_items(np.zeros((len(rewards), 1)), items, rewards)
    assert problem.best_rewards.tolist() == [max(row) for row in rewards]
    assert problem.best_items.tolist() == [row.index(max(row)) for row in rewards]
    assert problem.uniform_reward == pytest.approx(np.mean([np.mean(row) for row in rewards]))
    cut = data.draw(st.integers(1, len(rewards)))
    head = problem.head(cut)
    assert [row.tolist() for _, _, row in head] == rewards[:cut]
    chosen = [data.draw(st.integers(0, len(row) - 1)) for row in rewards]
    assert problem.earned(np.array(chosen)).tolist() == [row[i] for row, i in zip(rewards, chosen, strict=True)]


def test_arrays_cannot_be_written_but_the_callers_can() -> None:
    rewards = np.ones(7)
    problem = pickle.loads(pickle.dumps(shop(rewards=rewards)))
    for array in (problem.contexts, problem.candidates, problem.offsets, problem.rewards, problem.best_rewards):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        problem.items(0)[0] = 1
    rewards[0] = 7.0


def test_dictionaries_are_the_callers_own() -> None:
    problem = shop()
    context, items = problem.raw(0)
    context["age"] = items["a"]["price"] = -1
    assert problem.raw(0) == ({"age": 30}, {"a": {"price": 0}, "b": {"price": 1}})


def test_head_keeps_the_first_rounds() -> None:
    head = shop().head(2)
    assert (len(head), len(head.candidates), head.item_names) == (2, 5, tuple("abcab"))
    assert head.raw(1) == shop().raw(1)
    with pytest.raises(ValueError, match="has 3 rounds: give 1 to this many, got 4"):
        shop().head(4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contexts": np.zeros(3)}, "must have two dimensions"),
        ({"contexts": np.zeros((0, 2)), "offsets": np.array([0])}, "is empty"),
        ({"contexts": np.zeros((4, 2))}, "4 contexts but offsets of shape"),
        ({"offsets": np.array([0, 2, 2, 7])}, "must rise from 0 to 7"),
        ({"offsets": np.array([0, 2, 5, 6])}, "must rise from 0 to 7"),
        ({"rewards": np.zeros(6)}, r"rewards has shape \(6,\), but there are 7 candidates"),
        ({"expected_rewards": np.zeros((7, 1))}, "expected_rewards has shape"),
        ({"item_names": ("a",)}, "1 item_names, but 7 are needed"),
        ({"raw_contexts": ({},) * 7}, "7 raw_contexts, but 3 are needed"),
        ({"item_names": tuple("abcacab")}, "two candidates of round 1 have the same name"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shop(**changes)


def test_rounds_that_are_not_there() -> None:
    for t in (-1, 3):
        with pytest.raises(IndexError, match="has the rounds 0 to 2"):
            shop().items(t)
    with pytest.raises(ValueError, match="has vectors only"):
        from_items([[0.0]], [[[1.0]]], [[1.0]]).raw(0)
    assert from_items([[0.0]], [[[1.0], [2.0]]], [[1.0, 0.0]]).names(0) == ("0", "1")


@pytest.mark.parametrize(
    ("items", "rewards", "message"),
    [
        ([], [], "is empty"),
        ([[[1.0], [2.0]], [[1.0, 2.0]]], [[1.0, 0.0], [1.0]], "items of round 1 have shape"),
        ([[[1.0]], [[2.0]]], [[1.0]], "given for 1 rounds, items for 2"),
        ([[[1.0]], [[2.0]]], [[1.0], [1.0, 2.0]], "rewards of round 1 must be 1 finite numbers"),
        ([[[1.0]], [[np.nan]]], [[1.0], [1.0]], "items must be finite"),
    ],
)
def test_lists_that_do_not_fit(items: Any, rewards: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_items([[0.0], [1.0]], items, rewards)


# The catalogue


def test_the_catalogue_grows_and_anything_in_it_may_be_eligible() -> None:
    problem = lim2.problems.load("catalogue", rounds=2000, seed=1)
    numbers = np.array([int(name.removeprefix("sku")) for name in problem.item_names]).reshape(2000, 20)
    assert (numbers.max(axis=1) < 500 + np.ceil(150 * np.arange(1, 2001) / 2000)).all()
    assert numbers[:200].max() < 515
    assert numbers[-200:].max() >= 640
    assert np.unique(numbers).tolist() == list(range(numbers.max() + 1))


def test_an_item_is_the_same_in_every_round_and_form() -> None:
    problem = lim2.problems.load("catalogue", rounds=300, seed=1)
    known: dict[str, list[float]] = {}
    for t in range(300):
        user, items = problem.raw(t)
        assert list(user.values()) == problem.contexts[t].tolist()
        for (name, item), row in zip(items.items(), problem.items(t).tolist(), strict=True):
            assert row == known.setdefault(name, row)
            column = problem.item_feature_names.index(f"category={item['category']}")
            assert (row[column], sum(row[:10]), row[10:]) == (1.0, 1.0, item["embedding"])


def test_clicks_follow_their_expected_rewards() -> None:
    problem = lim2.problems.load("catalogue", rounds=10_000, seed=2)
    residual = problem.rewards - problem.expected_rewards
    assert abs(residual.mean()) < 4 * residual.std() / np.sqrt(len(residual))
    best = problem.earned(problem.best_items) - problem.best_rewards
    assert abs(best.mean()) < 4 * best.std() / np.sqrt(len(best))
    assert set(problem.rewards) == {0.0, 1.0}


def _fitted(features: np.ndarray, problem: ItemProblem) -> float:
    """Return what choosing by a least-squares fit earns: 0 for a random choice, 1 for the best."""
    features = np.hstack([np.ones((len(features), 1)), features])
    weights = np.linalg.lstsq(features, problem.expected_rewards, rcond=None)[0]
    chosen = (features @ weights).reshape(problem.rounds, -1).argmax(axis=1)
    reward = problem.expected(chosen).mean()
    return float((reward - problem.uniform_reward) / (problem.best_rewards.mean() - problem.uniform_reward))


def test_products_of_user_and_item_are_what_matters_in_it() -> None:
    problem = lim2.problems.load("catalogue", rounds=2000, seed=3)
    users = np.repeat(problem.contexts, 20, axis=0)
    products = (users[:, :, None] * problem.candidates[:, None, :]).reshape(len(users), -1)
    assert _fitted(np.hstack([users, problem.candidates]), problem) < 0.3
    assert _fitted(np.hstack([users, problem.candidates, products]), problem) > 0.95


def test_catalogues_that_cannot_be() -> None:
    for settings in ({"eligible": 0}, {"eligible": 30, "n_items": 20}, {"arrivals": -1}, {"embedding": 0}):
        with pytest.raises(ValueError, match="eligible must be from 1"):
            lim2.problems.load("catalogue", rounds=5, seed=0, **settings)
