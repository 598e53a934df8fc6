from __future__ import annotations

from pathlib import Path

import pytest
from experiments.made import made

from lim2.experiments.compare import compared, only_in_one, worse
from lim2.experiments.names import PlanError
from lim2.experiments.stats import holm, paired_p, welch_p

BEFORE = {
    ("wheel", "LiM2"): [100.0, 110.0, 104.0, 99.0],
    ("wheel", "LinearTS"): [99.0, 109.5, 104.5, 98.0],
    ("wheel", "Uniform"): [50.0, 48.0, 52.0, 50.0],
}
AFTER = {
    ("wheel", "LiM2"): [102.0, 112.5, 106.0, 101.0, 400.0],
    ("wheel", "LinearTS"): [90.0, 115.0, 104.0, 97.0],
    ("wheel", "Uniform"): [50.0, 48.0, 52.0, 50.0],
}


def test_runs_are_compared_shuffle_by_shuffle(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", BEFORE), made(tmp_path / "b", AFTER)
    lim2, linear, uniform = compared(first, second)
    assert lim2.paired
    assert lim2.pairs == 4  # the fifth has no partner
    assert lim2.difference == pytest.approx(2.125)
    assert lim2.second["reward_mean"] == pytest.approx(105.375)
    ps = [paired_p(AFTER["wheel", a][:4], BEFORE["wheel", a]) for a in ("LiM2", "LinearTS")]
    assert [lim2.p, linear.p] == pytest.approx(holm(ps))
    assert [d.verdict for d in (lim2, linear, uniform)] == ["better", "unclear", "same"]
    assert uniform.p is None
    assert worse(compared(second, first)) != []
    assert lim2.memory_ratio == 1.0
    assert lim2.as_dict()["verdict"] == "better"


def test_other_shuffles_are_not_paired(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", BEFORE), made(tmp_path / "b", AFTER, seed=100)
    lim2 = compared(first, second)[0]
    assert not lim2.paired
    ps = [welch_p(AFTER["wheel", a], BEFORE["wheel", a]) for a in ("LiM2", "LinearTS", "Uniform")]
    assert lim2.p == pytest.approx(holm(ps)[0])


def test_another_problem_under_the_same_name_is_not_paired(tmp_path: Path) -> None:
    settings = {"wheel": {"delta": 0.5}}
    first, second = made(tmp_path / "a", BEFORE), made(tmp_path / "b", AFTER, settings=settings)
    assert not compared(first, second)[0].paired


def test_nothing_in_common(tmp_path: Path) -> None:
    other = {("linear", "LiM2"): [1.0, 2.0], ("linear", "Uniform"): [0.0, 0.0]}
    first, second = made(tmp_path / "a", BEFORE), made(tmp_path / "b", other)
    with pytest.raises(PlanError, match="have no \\(problem, agent\\) in common"):
        compared(first, second)
    assert only_in_one(first, second)[1] == ["linear / LiM2", "linear / Uniform"]
