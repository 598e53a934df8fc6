"""Worlds: rates, delays and changes against their closed forms, and the same arrays for the same seed."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lim2.problems
from lim2.problems import ItemProblem, Problem
from lim2.problems.registry import entries
from lim2.problems.worlds.truth import arm_effects, click_rates, late_zeros, odds_ratio

WORLDS = [entry.name for entry in entries() if entry.kind == "world"]
RAW = ["banner", "item-clicks", "shop", "shop-late"]


def digest(problem: Problem | ItemProblem) -> str:
    arrays = [problem.contexts, problem.rewards, problem.expected_rewards]
    arrays += [problem.candidates] if isinstance(problem, ItemProblem) else []
    arrays += [] if problem.delays is None else [problem.delays]
    raw = json.dumps([problem.raw_contexts, getattr(problem, "raw_items", ())])
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays) + raw.encode()).hexdigest()


@pytest.mark.parametrize("name", WORLDS)
def test_a_seed_gives_the_same_world(name: str) -> None:
    first, again, other = (digest(lim2.problems.load(name, rounds=300, seed=seed)) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clicks", "32c39fdc3275"),
        ("revenue", "c1545339fac0"),
        ("shop-late", "7dd5fa92a77d"),
        ("item-clicks", "0742a3e82413"),
        ("sparse-columns", "bda770987318"),
    ],
)
def test_worlds_are_the_same_on_every_machine(name: str, expected: str) -> None:
    assert digest(lim2.problems.load(name, rounds=200, seed=7))[:12] == expected


@pytest.mark.parametrize("name", WORLDS)
def test_rewards_scatter_around_the_truth(name: str) -> None:
    problem = lim2.problems.load(name, rounds=4000 if name == "sparse-columns" else 20_000, seed=5)
    residual = (problem.rewards - problem.expected_rewards).reshape(len(problem.rewards), -1)
    error = residual.std(axis=0) / np.sqrt(len(residual))
    assert (np.abs(residual.mean(axis=0)) < 4.5 * error).all()
    if name not in ("revenue", "outliers"):
        assert set(np.unique(problem.rewards)) == {0.0, 1.0}
        assert problem.usual_rewards == (0.0, 1.0)


def test_the_odds_follow_the_score() -> None:
    scores = np.array([-2.0, 0.0, 0.5, 3.0])
    rates = click_rates(0.2, scores)
    np.testing.assert_allclose(np.log(rates / (1 - rates)), np.log(0.25) + np.arcsinh(scores))
    np.testing.assert_allclose(odds_ratio(scores) * odds_ratio(-scores), 1.0)
    assert sorted(arm_effects(9, 5, 0.4).round(9).tolist()) == [-0.4, -0.2, 0.0, 0.2, 0.4]


@pytest.mark.parametrize(("name", "rate", "arms"), [("clicks", 0.03, 4), ("clicks-10-arms", 0.02, 10)])
def test_clicks_are_rare_and_arms_differ(name: str, rate: float, arms: int) -> None:
    problem = lim2.problems.load(name, seed=2)
    assert problem.n_arms == arms
    rates = problem.expected_rewards
    # The logit of a rate is that of the base rate plus asinh of a score, whose mean is the arm's effect.
    scores = np.sinh(np.log(rates / (1 - rates)) - np.log(rate / (1 - rate)))
    np.testing.assert_allclose(np.sort(scores.mean(axis=0)), np.linspace(-0.4, 0.4, arms), atol=0.03)
    flags = problem.contexts[:, 5:]
    assert set(np.unique(flags)) == {0.0, 1.0}
    assert abs(flags.mean() - 0.3) < 0.01


def test_a_click_is_known_soon_and_a_zero_when_the_window_closes() -> None:
    problem = lim2.problems.load("late-zeros", seed=1)
    assert problem.delays is not None
    clicked = problem.rewards == 1.0
    assert (problem.delays[~clicked] == 360).all()
    soon = problem.delays[clicked]
    assert soon.min() == 1
    assert soon.max() == 60
    assert abs(soon.mean() - 30.5) < 4 * np.sqrt((60**2 - 1) / 12 / len(soon))
    np.testing.assert_array_equal(problem.rewards, lim2.problems.load("clicks", seed=1).rewards)
    with pytest.raises(ValueError, match="must ascend"):
        late_zeros(0, problem.rewards, 1, 400, 360)


@pytest.mark.parametrize(("name", "rate", "rounds"), [("one-change", 0.3, 8000), ("one-change-rare", 0.05, 16_000)])
def test_half_way_every_kind_of_visitor_has_another_favourite(name: str, rate: float, rounds: int) -> None:
    problem = lim2.problems.load(name, seed=3)
    assert problem.rounds == rounds
    assert problem.changes == (rounds // 2,)
    kinds = problem.contexts[:, :4].argmax(axis=1)
    favourites = []
    for part in (slice(rounds // 2), slice(rounds // 2, None)):
        found = {kind: set(problem.best_arms[part][kinds[part] == kind].tolist()) for kind in range(4)}
        assert all(len(arms) == 1 for arms in found.values())
        favourites.append([arms.pop() for arms in found.values()])
    assert all(before != after for before, after in zip(*favourites, strict=True))
    assert sorted(favourites[1]) == [0, 1, 2, 3]
    np.testing.assert_allclose(problem.best_rewards, 2 * rate)
    np.testing.assert_allclose(problem.expected_rewards.mean(axis=1), rate)


def test_the_worst_arm_becomes_the_best() -> None:
    problem = lim2.problems.load("late-better", seed=3)
    late = problem.settings["late_arm"]
    assert problem.changes == (4000,)
    assert set(problem.expected_rewards[:4000, late].tolist()) == {0.12}
    assert set(problem.expected_rewards[4000:, late].tolist()) == {0.8}
    assert problem.expected_rewards[:4000].mean(axis=0).argmin() == late
    assert (problem.best_arms[4000:] == late).mean() > 0.95


def test_everything_changes_three_times() -> None:
    problem = lim2.problems.load("abrupt-changes", rounds=4000, seed=3)
    assert problem.changes == (1000, 2000, 3000)
    # Within a stage the logit is a function of the context: asinh of an affine one.
    rates = problem.expected_rewards
    scores = np.sinh(np.log(rates / (1 - rates)) - np.log(0.4 / 0.6))
    X = np.column_stack([problem.contexts, np.ones(4000)])
    fits = [np.linalg.lstsq(X[a : a + 1000], scores[a : a + 1000], rcond=None)[0] for a in range(0, 4000, 1000)]
    for start, fit in zip(range(0, 4000, 1000), fits, strict=True):
        np.testing.assert_allclose(X[start : start + 1000] @ fit, scores[start : start + 1000], atol=1e-9)
    assert all(np.abs(a - b).max() > 0.5 for a, b in pairwise(fits))


def test_amounts_have_the_moments_of_their_closed_form() -> None:
    problem = lim2.problems.load("revenue", rounds=40_000, seed=3)
    z = np.random.default_rng(0).standard_normal(400_000)
    assert abs((odds_ratio(z) ** 2).mean() / 3.0 - 1.0) < 0.02  # E = 3
    buys = problem.rewards > 0.0
    assert 0.025 < buys.mean() < 0.045
    amounts = problem.rewards[buys]
    assert amounts.std() / amounts.mean() > 1.5  # sqrt(33 / 9 - 1) = 1.63 given visitor and arm
    assert amounts.max() > 10 * amounts.mean()


def test_useless_columns_do_not_move_the_truth() -> None:
    for name, rates in (("useless-columns", [0.2, 0.3, 0.4, 0.5, 0.6]), ("ab-test", [0.4, 0.42, 0.45, 0.5])):
        problem = lim2.problems.load(name, seed=3)
        assert sorted(problem.expected_rewards[0].tolist()) == rates
        assert (problem.expected_rewards == problem.expected_rewards[0]).all()
        np.testing.assert_allclose(problem.rewards.mean(axis=0), problem.expected_rewards[0], atol=0.04)
    assert lim2.problems.load("useless-columns", seed=0).n_features == 100


def test_one_reward_in_a_thousand_is_off_by_a_thousand() -> None:
    problem = lim2.problems.load("outliers", rounds=50_000, seed=3)
    errors = problem.rewards - problem.expected_rewards
    high, low = (errors > 900).mean(), (errors < -900).mean()
    assert abs(high - 0.0005) < 4 * np.sqrt(0.0005 / errors.size)
    assert abs(low - 0.0005) < 4 * np.sqrt(0.0005 / errors.size)
    assert abs(errors[np.abs(errors) < 900].std() - 1.0) < 0.01


def test_values_are_as_frequent_as_one_over_their_rank() -> None:
    problem = lim2.problems.load("sparse-columns", seed=3)
    shares = problem.contexts.reshape(4000, 5, 400).mean(axis=(0, 1))
    harmonic = (1 / np.arange(1, 401)).sum()
    np.testing.assert_allclose(shares[:5], 1 / np.arange(1, 6) / harmonic, rtol=0.1)
    assert problem.contexts.reshape(4000, 5, 400).sum(axis=2).min() == 1.0


# Dictionaries


@pytest.mark.parametrize("name", RAW)
def test_by_hand_is_the_same_world_as_vectors(name: str) -> None:
    raw, hand = (lim2.problems.load(name, rounds=300, seed=2, by_hand=by_hand) for by_hand in (False, True))
    assert (raw.form, hand.form) == ("dictionaries", "vectors")
    np.testing.assert_array_equal(raw.rewards, hand.rewards)
    np.testing.assert_array_equal(raw.contexts, hand.contexts)
    assert len(raw.raw_contexts) == 300
    json.dumps(raw.raw_contexts)  # what a product could send


def test_a_session_never_comes_again_and_time_goes_on() -> None:
    problem = lim2.problems.load("shop", seed=2)
    contexts = problem.raw_contexts
    assert len({context["session"] for context in contexts}) == problem.rounds
    times = [datetime.fromisoformat(context["time"]) for context in contexts]
    assert {b - a for a, b in pairwise(times)} == {times[1] - times[0]}
    plain = lim2.problems.load("shop", seed=2, session=False, time=False)
    keys = {"country", "device", "age", "returning", "basket", "referrer"}
    assert all(set(context) == keys for context in plain.raw_contexts)
    assert [{k: c[k] for k in keys} for c in contexts] == list(plain.raw_contexts)
    np.testing.assert_array_equal(plain.rewards, problem.rewards)


def test_columns_by_hand_say_what_the_dictionaries_say() -> None:
    problem = lim2.problems.load("shop", rounds=500, seed=2)
    for context, columns in zip(problem.raw_contexts, problem.contexts, strict=True):
        assert columns[:3].argmax() == ["AT", "CH", "DE"].index(context["country"])
        assert columns[3:7].argmax() == ["instagram", "newsletter", "search", None].index(context["referrer"])
        assert columns[7:9].tolist() == [context["device"] == "phone", context["returning"]]
        numbers = [(context["age"] - 48.5) / 18, context["basket"]["items"] - 1.5, context["basket"]["total"] / 40 - 1]
        np.testing.assert_allclose(columns[9:], numbers)


@pytest.mark.parametrize(("name", "window"), [("shop-late", 360), ("banner", 600)])
def test_zeros_of_dictionaries_are_late(name: str, window: int) -> None:
    problem = lim2.problems.load(name, seed=2)
    assert problem.delays is not None
    assert set(problem.delays[problem.rewards == 0.0].tolist()) == {window}
    assert problem.delays[problem.rewards == 1.0].max() <= 60


def test_the_banner_is_that_of_the_issue() -> None:
    problem = lim2.problems.load("banner", seed=2)
    assert (problem.rounds, problem.n_arms) == (20_000, 4)
    assert 0.018 < problem.expected_rewards.min() < problem.expected_rewards.max() < 0.065


def test_items_are_drawn_without_replacement_and_equally_often() -> None:
    problem = lim2.problems.load("item-clicks", rounds=3000, seed=2)
    assert isinstance(problem, ItemProblem)
    assert (problem.n_candidates == 30).all()
    shown = np.bincount([int(name.removeprefix("item")) for name in problem.item_names], minlength=300)
    assert np.abs(shown - 300).max() < 5 * np.sqrt(300 * 0.9)
    assert 0.02 < problem.uniform_reward < 0.06 < problem.best_rewards.mean()
    context, items = problem.raw(5)
    assert len(items) == 30
    np.testing.assert_allclose(context["taste"], problem.contexts[5, :3])
    first = next(iter(items.values()))
    np.testing.assert_allclose(first["style"], problem.items(5)[0, 6:9])


# What a problem may have


def tiny(**changed: Any) -> Problem:
    return Problem("tiny", np.zeros((3, 1)), np.eye(3), **changed)


def test_a_part_of_a_problem_has_its_part_of_everything() -> None:
    problem = lim2.problems.load("shop-late", rounds=50, seed=0).head(20)
    assert problem.delays is not None
    assert len(problem.raw_contexts) == len(problem.delays) == 20
    assert lim2.problems.load("one-change", rounds=50, seed=0).head(20).changes == ()
    items = lim2.problems.load("item-clicks", rounds=50, seed=0).head(20)
    assert len(items.raw_contexts) == 20
    with pytest.raises(ValueError, match="read-only"):
        problem.delays[0, 0] = 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"delays": np.zeros((3, 2), dtype=int)}, "in the shape of the rewards"),
        ({"delays": np.zeros((3, 3))}, "whole numbers"),
        ({"delays": np.full((3, 3), -1)}, "from 0"),
        ({"form": "json"}, "'vectors' or 'dictionaries'"),
        ({"form": "dictionaries"}, "needs raw_contexts"),
        ({"raw_contexts": ({},)}, "1 raw_contexts, but 3 are needed"),
    ],
)
def test_a_problem_that_cannot_be_played_is_refused(changed: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        tiny(**changed)


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("clicks", {"rate": 1.5}, "rate must be between 0 and 1"),
        ("one-change", {"rate": 0.6}, "at most 0.5"),
        ("useless-columns", {"rates": (0.2, 1.2)}, "rates must be from 0 to 1"),
        ("item-clicks", {"eligible": 400}, "from 1 to n_items"),
        ("outliers", {"share": 2.0}, "share must be from 0 to 1"),
        ("abrupt-changes", {"changes": -1}, "changes must be from 0"),
    ],
)
def test_worlds_that_cannot_be_are_refused(name: str, settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        lim2.problems.load(name, rounds=10, seed=0, **settings)


def test_a_world_has_no_last_round() -> None:
    with pytest.raises(ValueError, match="has no last round"):
        lim2.problems.load("clicks", rounds="all")
