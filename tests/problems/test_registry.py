from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import lim2.problems
from lim2.problems import Problem
from lim2.problems.registry import entries, find

ELEVEN = "adult amazon census covertype epileptic financial jester mushroom scania smartphones statlog"
SYNTHETIC = "drifting linear nonlinear sparse-linear wheel"


def test_list_has_the_eleven_and_the_synthetic_worlds() -> None:
    assert {"smartphones-66", *ELEVEN.split(), *SYNTHETIC.split()} <= set(lim2.problems.list())


def test_every_setting_can_be_left_out() -> None:
    for entry in entries():
        assert entry.summary.endswith((".", "?"))
        assert "rounds" not in entry.settings
        assert "seed" not in entry.settings


def test_a_name_that_is_nearly_right_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="there is no problem 'statlg'; did you mean 'statlog'"):
        lim2.problems.load("statlg")


def test_an_unknown_setting_is_told_with_those_that_exist() -> None:
    with pytest.raises(TypeError, match=r"'wheel' has no setting 'detla'.*delta=0.95"):
        lim2.problems.load("wheel", detla=0.5)


@pytest.mark.parametrize("rounds", [0, -1, 2.5, True, "some"])
def test_rounds_must_be_a_positive_integer(rounds: object) -> None:
    with pytest.raises(ValueError, match="rounds must be a positive integer"):
        lim2.problems.load("wheel", rounds=rounds)  # type: ignore[call-overload]


def test_a_synthetic_world_has_no_end() -> None:
    with pytest.raises(ValueError, match="has no last round"):
        lim2.problems.load("wheel", rounds="all")


def test_numpy_integers_are_rounds_too() -> None:
    assert lim2.problems.load("wheel", rounds=np.int64(3), seed=0).rounds == 3  # type: ignore[call-overload]


def test_without_a_seed_one_is_drawn_and_kept() -> None:
    first, second = lim2.problems.load("wheel", rounds=5), lim2.problems.load("wheel", rounds=5)
    assert first.seed != second.seed
    again = lim2.problems.load("wheel", rounds=5, seed=first.seed)
    np.testing.assert_array_equal(again.rewards, first.rewards)


def test_a_new_problem_is_one_decorated_function() -> None:
    @lim2.problems.register("constant", summary="Always one.", kind="synthetic", rounds=4)
    def constant(rounds: int, seed: int, value: float = 1.0) -> Problem:
        return Problem("constant", np.ones((rounds, 1)), np.full((rounds, 2), value), seed=seed)

    try:
        assert "constant" in lim2.problems.list()
        assert lim2.problems.load("constant", value=3.0).rewards.tolist() == [[3.0, 3.0]] * 4
    finally:
        lim2.problems.unregister("constant")
    assert "constant" not in lim2.problems.list()


def test_a_name_is_taken_once() -> None:
    def other(rounds: int, seed: int) -> Problem:
        raise NotImplementedError

    with pytest.raises(ValueError, match="'wheel' is already registered by lim2"):
        lim2.problems.register("wheel", summary="Another.")(other)
    assert find("wheel").loader is not other


def test_importing_lim2_problems_is_light() -> None:
    heavy = ("polars", "pooch", "requests", "typer", "rich", "matplotlib", "torch")
    code = f"import sys, lim2, lim2.problems as p; p.list(); print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
