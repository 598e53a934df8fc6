from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lim2.problems
from lim2.problems import ItemProblem, Problem

WORLDS: list[tuple[str, dict[str, Any]]] = [
    ("wheel", {}),
    ("wheel", {"delta": 0.5}),
    ("linear", {}),
    ("sparse-linear", {}),
    ("nonlinear", {}),
    ("nonlinear", {"noise": 0.3, "n_arms": 3}),
    ("drifting", {}),
    ("drifting", {"change": "gradual", "world": "nonlinear", "noise": 0.1}),
    ("drifting", {"change": "gradual", "world": "wheel"}),
    ("drifting", {"world": "sparse-linear", "options": {"n_features": 12, "nonzero": 2}}),
]


def digest(problem: Problem | ItemProblem) -> str:
    both = problem.contexts.astype("<f8").tobytes() + problem.rewards.astype("<f8").tobytes()
    if isinstance(problem, ItemProblem):
        both += problem.candidates.astype("<f8").tobytes() + problem.expected_rewards.astype("<f8").tobytes()
    return hashlib.sha256(both).hexdigest()[:12]


@pytest.mark.parametrize(("name", "settings"), WORLDS)
def test_the_expected_optimum_is_true(name: str, settings: dict[str, Any]) -> None:
    """Realised rewards scatter around the expected ones, arm by arm, and no arm is expected to pay more."""
    problem = lim2.problems.load(name, rounds=20_000, seed=1, **settings)
    residual = problem.rewards - problem.expected_rewards
    error = residual.std(axis=0) / np.sqrt(problem.rounds) + 1e-12
    assert (np.abs(residual.mean(axis=0)) < 5 * error).all()
    # Also where each arm is best, so that noise does not lean on the optimum.
    for arm in np.unique(problem.best_arms):
        here = residual[problem.best_arms == arm, arm]
        assert abs(here.mean()) < 5 * here.std() / np.sqrt(len(here)) + 1e-12
    np.testing.assert_array_equal(problem.best_rewards, problem.expected_rewards.max(axis=1))
    assert np.isfinite(problem.contexts).all()


@pytest.mark.parametrize(("name", "settings"), WORLDS)
def test_the_seed_decides_all(name: str, settings: dict[str, Any]) -> None:
    first, again, other = (digest(lim2.problems.load(name, rounds=300, seed=seed, **settings)) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wheel", "6570f6d505ef"),
        ("linear", "b8013ba538b2"),
        ("sparse-linear", "ecf849e04639"),
        ("nonlinear", "a40cd30435e4"),
        ("drifting", "62095f44d158"),
        ("catalogue", "786820c12981"),
    ],
)
def test_the_same_bits_on_every_machine(name: str, expected: str) -> None:
    assert digest(lim2.problems.load(name, rounds=1000, seed=0)) == expected


@pytest.mark.parametrize("delta", [0.0, 0.5, 0.95, 1.0])
def test_wheel_as_riquelme_et_al_define_it(delta: float) -> None:
    problem = lim2.problems.load("wheel", rounds=20_000, seed=0, delta=delta)
    radius = np.sqrt((problem.contexts**2).sum(axis=1))
    assert radius.max() <= 1
    np.testing.assert_allclose((radius <= 0.5).mean(), 0.25, atol=0.01)  # uniform in the disc
    inside = radius <= delta
    assert (problem.best_rewards[inside] == 1.2).all()
    assert (problem.best_arms[inside] == 0).all()
    assert (problem.best_rewards[~inside] == 50).all()
    np.testing.assert_allclose((~inside).mean(), 1 - delta**2, atol=0.01)
    signs = np.sign(problem.contexts[~inside])
    for arm, sign in {1: (1, 1), 2: (1, -1), 3: (-1, 1), 4: (-1, -1)}.items():
        assert (problem.best_arms[~inside][(signs == sign).all(axis=1)] == arm).all()
    assert (problem.expected_rewards[:, 1:].min(axis=1) == 1.0).all()
    np.testing.assert_allclose((problem.rewards - problem.expected_rewards).std(), 0.01, rtol=0.02)


def test_wheel_settings() -> None:
    problem = lim2.problems.load("wheel", rounds=10, seed=0, means=(2.0, 1.0, 3.0), sigma=0.0, delta=1.0)
    assert problem.rewards.tolist() == [[2.0, 1.0, 1.0, 1.0, 1.0]] * 10
    with pytest.raises(ValueError, match="delta is a radius"):
        lim2.problems.load("wheel", delta=1.5)


def test_linear_is_linear_with_unit_weights() -> None:
    problem = lim2.problems.load("linear", rounds=2000, seed=0, n_features=7, n_arms=4, noise=0.0)
    weights, *_ = np.linalg.lstsq(problem.contexts, problem.rewards, rcond=None)
    np.testing.assert_allclose(problem.contexts @ weights, problem.rewards, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1.0)


def test_sparse_linear_is_sparse() -> None:
    problem = lim2.problems.load("sparse-linear", rounds=500, seed=0, n_features=20, nonzero=3, noise=0.0)
    weights, *_ = np.linalg.lstsq(problem.contexts, problem.rewards, rcond=None)
    assert ((np.abs(weights) > 1e-9).sum(axis=0) == 3).all()
    with pytest.raises(ValueError, match="nonzero must be from 1 to n_features=20"):
        lim2.problems.load("sparse-linear", n_features=20, nonzero=21)


@pytest.mark.parametrize(("n_features", "n_arms"), [(2, 2), (1, 3), (100, 10), (5, 1)])
def test_nonlinear_of_any_size(n_features: int, n_arms: int) -> None:
    problem = lim2.problems.load("nonlinear", 500, 0, n_features=n_features, n_arms=n_arms, margin=0.0)
    assert problem.contexts.shape == (500, n_features)
    assert problem.rewards.shape == (500, n_arms)
    assert (problem.rewards.sum(axis=1) == 1).all()


def test_nonlinear_margin_is_kept_and_controls_difficulty() -> None:
    from lim2.problems.synthetic.nonlinear import Scores

    scores = Scores(0, 10, 5, 32)
    for margin in (0.0, 0.2, 1.0):
        problem = lim2.problems.load("nonlinear", 1000, 0, margin=margin)
        ordered = np.sort(scores(problem.contexts), axis=1)
        gap = ordered[:, -1] - ordered[:, -2]
        assert gap.min() >= margin
        assert gap.min() < margin + 0.05
    with pytest.raises(ValueError, match="margin=50 is too wide"):
        lim2.problems.load("nonlinear", 100, 0, margin=50)


def test_nonlinear_is_not_linear_and_has_every_class() -> None:
    problem = lim2.problems.load("nonlinear", 4000, 0, margin=0.5)
    shares = problem.expected_rewards.mean(axis=0)
    assert shares.min() > 0.05
    with_bias = np.hstack([problem.contexts, np.ones((4000, 1))])
    weights, *_ = np.linalg.lstsq(with_bias, problem.rewards, rcond=None)
    right = ((with_bias @ weights).argmax(axis=1) == problem.best_arms).mean()
    assert shares.max() < right < 0.9


def test_nonlinear_noise_is_the_share_of_other_classes() -> None:
    problem = lim2.problems.load("nonlinear", 20_000, 0, noise=0.3)
    hit = problem.rewards[np.arange(20_000), problem.best_arms].mean()
    np.testing.assert_allclose(hit, 0.7, atol=0.015)
    np.testing.assert_allclose(problem.best_rewards, 0.7)


@pytest.mark.parametrize("world", ["linear", "sparse-linear", "nonlinear", "wheel"])
def test_abrupt_changes_come_at_their_time(world: Any) -> None:
    problem = lim2.problems.load("drifting", 4000, 0, world=world, changes=3, noise=0.0)
    assert problem.settings["starts"] == [0, 1000, 2000, 3000]
    if world in ("linear", "sparse-linear"):
        stages = [slice(start, start + 1000) for start in problem.settings["starts"]]
        weights = [np.linalg.lstsq(problem.contexts[s], problem.expected_rewards[s], rcond=None)[0] for s in stages]
        for s, w in zip(stages, weights, strict=True):
            np.testing.assert_allclose(problem.contexts[s] @ w, problem.expected_rewards[s], atol=1e-9)
        assert all(np.abs(a - b).max() > 0.1 for a, b in pairwise(weights))


def test_the_first_stage_is_the_world_without_drift() -> None:
    still = lim2.problems.load("linear", 1000, 5)
    drifting = lim2.problems.load("drifting", 1000, 5, changes=1)
    np.testing.assert_array_equal(drifting.expected_rewards[:500], still.expected_rewards[:500])
    assert not np.allclose(drifting.expected_rewards[500:], still.expected_rewards[500:])


def test_gradual_changes_go_in_a_straight_line() -> None:
    gradual = lim2.problems.load("drifting", 1001, 5, changes=2, change="gradual")
    abrupt = lim2.problems.load("drifting", 1001, 5, changes=2, change="abrupt")
    np.testing.assert_array_equal(gradual.contexts, abrupt.contexts)
    still = lim2.problems.load("linear", 1001, 5)
    np.testing.assert_array_equal(gradual.expected_rewards[0], still.expected_rewards[0])
    np.testing.assert_allclose(gradual.expected_rewards[-1], abrupt.expected_rewards[-1])
    np.testing.assert_allclose(gradual.expected_rewards[500], abrupt.expected_rewards[500])  # in the middle
    assert not np.allclose(gradual.expected_rewards[250], abrupt.expected_rewards[250])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("linear", {"n_arms": 0}, "n_features and n_arms must be at least 1"),
        ("linear", {"noise": -1}, "noise must be at least 0"),
        ("nonlinear", {"noise": 1.5}, "noise at most 1"),
        ("drifting", {"world": "flat"}, "world must be one of linear"),
        ("drifting", {"changes": 0}, "changes must be from 1"),
        ("drifting", {"world": "nonlinear", "options": {"margin": 1}}, "no option 'margin'"),
    ],
)
def test_worlds_that_cannot_be(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lim2.problems.load(name, rounds=10, seed=0, **settings)
