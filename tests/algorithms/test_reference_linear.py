"""The frozen rival of the worlds: LinearTS(scaled=True) of lim2 0.2, which it agreed with to 1e-8."""

import hashlib

import numpy as np
import pytest
from oracle.reference_linear import ReferenceLinear, play

from lim2 import problems


@pytest.mark.parametrize(
    ("name", "arms", "location"),
    [
        ("clicks", "71cc3de980ce", [0.0186194814, 0.053069811, 0.00085202736, -0.0675210753]),
        ("revenue", "e81f4941c6e1", [8.21719374, 0.0690272373, -0.291176928, 0.0063269888, 1.13873043]),
        ("abrupt-changes", "20b062c5017f", [0.177607621, 0.0131118712, 0.372064567, 0.372786315, 0.0360527544]),
    ],
)
def test_it_plays_as_recorded(name: str, arms: str, location: list[float]) -> None:
    problem = problems.load(name, rounds=800, seed=11)
    rival = ReferenceLinear(problem.n_arms, problem.n_features, seed=5)
    chosen = play(rival, problem)
    assert len(set(chosen)) == problem.n_arms
    assert hashlib.sha256(bytes(chosen)).hexdigest()[:12] == arms
    np.testing.assert_allclose(rival.scores(problem.contexts[0])[0], location, rtol=1e-6)


def test_it_takes_late_rewards() -> None:
    rival = ReferenceLinear(3, 2, seed=0)
    assert [rival.act([0.0, 1.0]) for _ in range(26)][:24] == [0, 1, 2] * 8  # turns count when they are decided
    rival.update([0.0, 1.0], 2, 1.0)
