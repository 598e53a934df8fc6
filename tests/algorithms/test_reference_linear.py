"""The frozen rival of the worlds: it agrees with LinearTS(scaled=True), from which it was transcribed."""

import copy
import hashlib

import numpy as np
import pytest
from oracle.reference_linear import ReferenceLinear, play

import lim2
from lim2 import problems

TOLERANCE = 1e-8


def badly_scaled(rounds: int, seed: int) -> problems.Problem:
    """Return columns and rewards of any unit, one column that is constant, and one that varies late."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rounds, 5))
    contexts = z * [1.0, 1e-3, 300.0, 0.0, 1.0] + [0.0, 2.0, 1e4, 3.0, 0.0]
    contexts[:, 4] = (np.arange(rounds) > 60) & (np.arange(rounds) % 9 == 0)
    rewards = 50.0 + 7.0 * (z[:, :3] + 0.3 * rng.normal(size=(rounds, 3)))
    rewards[:5] = 50.0  # at first nothing varies
    return problems.Problem("badly scaled", contexts, rewards)


# Delete this test together with LinearTS(scaled=True); the recorded plays below stay.
@pytest.mark.parametrize("name", ["clicks", "clicks-10-arms", "revenue", "outliers", "badly scaled"])
def test_it_agrees_with_the_agent(name: str) -> None:
    problem = badly_scaled(500, 0) if name == "badly scaled" else problems.load(name, rounds=600, seed=3)
    agent = lim2.LinearTS(problem.n_arms, problem.n_features, scaled=True, seed=1)
    rival = ReferenceLinear(problem.n_arms, problem.n_features)
    for t, (context, rewards) in enumerate(zip(problem.contexts, problem.rewards, strict=True)):
        score = agent.algorithm.score(agent.state, context)
        for own, other in zip(score, rival.scores(context), strict=True):
            np.testing.assert_allclose(own, other, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"round {t}")
        draws = copy.deepcopy(agent._streams.act).standard_t(score.freedom)
        arm = agent.act(context)
        assert arm == rival.act(context, draws), f"round {t}"
        agent.update(context, arm, float(rewards[arm]))
        rival.update(context, arm, float(rewards[arm]))


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
