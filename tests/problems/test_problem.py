from __future__ import annotations

import pickle

import numpy as np
import pytest

from lim2.problems import Problem


def coins() -> Problem:
    return Problem("coins", np.zeros((3, 2)), np.array([[0.0, 3.0], [2.0, 1.0], [5.0, 5.0]]))


def test_best_is_the_expected_best_not_the_realised_one() -> None:
    rewards = np.array([[9.0, 0.0], [0.0, 9.0]])
    expected = np.array([[1.0, 2.0], [4.0, 3.0]])
    problem = Problem("noisy", np.zeros((2, 1)), rewards, expected)
    assert problem.best_arms.tolist() == [1, 0]
    assert problem.best_rewards.tolist() == [2.0, 4.0]
    assert problem.uniform_reward == 2.5


def test_arrays_cannot_be_written_but_the_callers_can() -> None:
    rewards = np.ones((2, 2))
    problem = Problem("p", np.zeros((2, 1)), rewards)
    for array in (problem.contexts, problem.rewards, problem.expected_rewards, problem.best_rewards):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    rewards[0, 0] = 7.0


def test_a_pickled_problem_is_the_same_and_read_only() -> None:
    again = pickle.loads(pickle.dumps(coins()))
    assert again.rewards.tolist() == coins().rewards.tolist()
    assert again.best_arms.tolist() == coins().best_arms.tolist()
    assert not again.rewards.flags.writeable


def test_head_keeps_the_first_rounds() -> None:
    head = coins().head(2)
    assert head.rounds == len(head) == 2
    assert head.best_rewards.tolist() == [3.0, 2.0]
    with pytest.raises(ValueError, match="has 3 rounds: give 1 to this many, got 4"):
        coins().head(4)


@pytest.mark.parametrize(
    ("contexts", "rewards", "message"),
    [
        (np.zeros(3), np.zeros((3, 2)), "must have two dimensions"),
        (np.zeros((3, 1)), np.zeros((2, 2)), "3 contexts but 2 rows of rewards"),
        (np.zeros((0, 1)), np.zeros((0, 2)), "is empty"),
        (np.zeros((3, 1)), np.zeros((3, 0)), "is empty"),
    ],
)
def test_shapes_are_checked(contexts: np.ndarray, rewards: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Problem("p", contexts, rewards)


def test_expected_rewards_must_fit() -> None:
    with pytest.raises(ValueError, match=r"expected_rewards has shape \(3, 1\) but rewards"):
        Problem("p", np.zeros((3, 1)), np.zeros((3, 2)), np.zeros((3, 1)))


def test_repr_and_names() -> None:
    assert repr(coins()) == "Problem('coins', rounds=3, n_features=2, n_arms=2, seed=None)"
    assert coins().arm_names == ("arm 0", "arm 1")
