"""What evaluation computes, takes and warns of."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation.test_coverage import ARMS, FEATURES, TRUTH, expected, logged_table, target
from numpy.typing import NDArray

import lim2
from lim2.evaluation import OverlapWarning, Table, evaluate
from lim2.evaluation.estimators import mean_of, snips
from lim2.evaluation.models import by_arm, by_folds, by_past
from lim2.evaluation.policies import probabilities
from lim2.log.candidates import Candidates

Float = NDArray[np.float64]


def quietly(*args: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        return evaluate(*args, **settings)


def test_estimates_are_those_of_the_formulas() -> None:
    table = logged_table(0, 300)
    chances = target(table.contexts)
    q = expected(table.contexts)
    found = quietly(table, chances, model=q)
    n, rows = len(table), np.arange(len(table))
    w = chances[rows, table.chosen] / table.propensity
    r = table.rewards
    ips = sum(w[i] * r[i] for i in range(n)) / n
    assert found.ips.value == pytest.approx(ips, rel=1e-12)
    assert found.ips.error == pytest.approx(np.sqrt(sum((w * r - ips) ** 2) / (n - 1) / n), rel=1e-12)
    assert found.snips.value == pytest.approx(sum(w * r) / sum(w), rel=1e-12)
    dr = np.mean([chances[i] @ q[i] + w[i] * (r[i] - q[i, table.chosen[i]]) for i in range(n)])
    assert found.dr.value == pytest.approx(dr, rel=1e-12)
    assert found.gain.value == pytest.approx(dr - r.mean(), rel=1e-12)
    assert found.effective_size == pytest.approx(sum(w) ** 2 / sum(w**2), rel=1e-12)
    assert (found.mean_weight, found.max_weight) == (pytest.approx(w.mean()), w.max())
    assert found.unsupported == 0.0


def test_the_logging_policy_itself_is_worth_what_it_earned() -> None:
    table = logged_table(1)
    found = evaluate(table, table.propensities, model=np.zeros((len(table), ARMS)))  # type: ignore[arg-type]
    for estimate in (found.ips, found.snips, found.dr, found.logged):
        assert estimate.value == pytest.approx(table.rewards.mean(), rel=1e-12)
        assert (estimate.low, estimate.high) == pytest.approx((found.logged.low, found.logged.high), rel=1e-12)
    assert found.effective_size == pytest.approx(len(table))


def test_snips_does_not_move_with_the_origin() -> None:
    table = logged_table(2)
    w = target(table.contexts)[np.arange(len(table)), table.chosen] / table.propensity
    one, other = snips(w, table.rewards, 0.95), snips(w, table.rewards + 100.0, 0.95)
    assert other.value - 100 == pytest.approx(one.value, abs=1e-9)
    assert other.error == pytest.approx(one.error, rel=1e-9)


def test_a_policy_is_a_function_of_many_forms() -> None:
    table = logged_table(3, 200)
    best = expected(table.contexts).argmax(axis=1)
    onehot = np.eye(ARMS)[best]

    def rule(context: Float, arms: tuple[Any, ...]) -> int:
        return int(expected(context[None])[0].argmax())

    for policy in (
        rule,
        lambda context, arms: np.eye(ARMS)[rule(context, arms)],
        lambda context, arms: {rule(context, arms): 1.0},
    ):
        np.testing.assert_array_equal(probabilities(policy, table).reshape(-1, ARMS), onehot)
    assert quietly(table, rule).ips == quietly(table, onehot).ips


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda context, arms: "x", "one of the eligible arms"),
        (lambda context, arms: [0.5, 0.5], "their 4 probabilities"),
        (lambda context, arms: {"x": 1.0}, "not eligible"),
        (lambda context, arms: [0.5, 0.5, 0.5, 0.0], "sum to 1"),
        (lambda context, arms: [1.5, -0.5, 0.0, 0.0], "not negative"),
        (lambda context, arms: [np.nan] * 4, "finite"),
        (np.ones((3, 3)), "must have the shape"),
    ],
)
def test_what_is_no_policy_is_refused(policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(logged_table(0, 50), policy)


def test_other_arguments_are_checked() -> None:
    table = logged_table(0, 50)
    policy = target(table.contexts)
    for settings, message in (
        ({"level": 95}, "level must be"),
        ({"model": "magic"}, "model must be"),
        ({"model": "logged"}, "were not logged"),
        ({"model": np.zeros(3)}, "predictions must be"),
        ({"crossfit": "none"}, "crossfit must be"),
        ({"folds": 1}, "folds must be"),
        ({"reward_range": (0, 0.1)}, "cover all rewards"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(table, policy, **settings)
    with pytest.raises(ValueError, match="at least 2 decisions"):
        evaluate(table[:1], policy[:1])


def test_tables_are_checked() -> None:
    good: dict[str, Any] = {
        "contexts": np.zeros((2, 1)), "played": ["a", "b"], "rewards": [0.0, 1.0], "propensity": [0.5, 0.5]
    }  # fmt: skip
    for wrong, message in (
        ({"arms": ["a"]}, "not among arms"),
        ({"rewards": [0.0]}, "rewards must have the shape"),
        ({"rewards": [0.0, np.nan]}, "must be finite"),
        ({"propensity": [0.5, 0.0]}, "above 0"),
        ({"propensity": [0.5, 1.5]}, "at most 1"),
        ({"propensities": np.ones((2, 3))}, "propensities must have the shape"),
        ({"contexts": np.zeros((3, 1))}, "contexts must have the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            Table.of(**{**good, **wrong})


def test_agents_choose_among_what_was_eligible_and_known(tmp_path: Path) -> None:
    logging = lim2.Uniform(arms=["a", "b", "c"], n_features=FEATURES, seed=0)
    rng = np.random.default_rng(0)
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal") as log:
        for i, context in enumerate(rng.normal(size=(300, FEATURES))):
            decision = log.decide(logging, context, arms=["c", "b"] if i % 3 == 0 else None)
            log.reward(decision.id, float(decision.arm == "b"))
        table = log.table()
        agent = lim2.LinearTS(arms=["b", "c", "new"], n_features=FEATURES, seed=0)
        agent.update(table.contexts, ["b", "c", "new"] * 100, [1.0, 0.0, 0.5] * 100)
        before = agent.to_bytes()
        chances = table.candidates.dense(probabilities(agent, table), len(table.arms), 0.0)
        found = evaluate(log, agent)
    assert agent.to_bytes() == before  # nothing was drawn or learned
    for row in (0, 1, 2, 299):
        of = dict(zip(table.arms, chances[row], strict=True))
        assert of["a"] == 0
        same = agent.propensities(table.contexts[row], arms=["b", "c"])
        np.testing.assert_allclose([of["b"], of["c"]], same, atol=1e-9)
    assert found.ips.low < 1.0 < found.ips.high
    assert found.dr.value > 0.9
    other = lim2.LinearTS(arms=["x"], n_features=FEATURES, seed=0)
    with pytest.raises(ValueError, match="none of the arms"):
        evaluate(table, other)


def test_poor_overlap_is_told() -> None:
    table = logged_table(4, 500)
    rarest = np.eye(ARMS)[table.propensities.argmin(axis=1)]  # type: ignore[union-attr]
    with pytest.warns(OverlapWarning) as caught:
        found = evaluate(table, rarest)
    assert str(caught[0].message).startswith("poor overlap: 500 decisions have an effective sample size of ")
    assert "few rewards: the log says as much about the policy as 48 decisions" in str(caught[1].message)
    assert found.effective_size < 100
    assert f"warning: {found.warnings[0]}" in str(found)


def test_an_arm_that_the_log_never_plays_is_told() -> None:
    table = logged_table(4, 500)
    assert table.propensities is not None
    never = table.propensities.copy()
    never[:, 2] = 0.0
    played, half = [0, 1] * 250, np.full(500, 0.5)
    some = Table.of(table.contexts, played, table.rewards, half, arms=range(ARMS), propensities=never)
    with pytest.warns(OverlapWarning) as caught:
        found = evaluate(some, lambda context, arms: 0 if 0 in arms and context[0] > 0 else arms[-1])
    texts = " ".join(str(warning.message) for warning in caught)
    assert "the log never played: [3]" in texts
    assert "weights average" in texts
    # the same where all arms count as eligible: half of what the policy plays could not have been logged
    every = np.ones((500, ARMS), dtype=bool)
    blind = Table.of(table.contexts, played, table.rewards, half, arms=range(ARMS), eligible=every, propensities=never)
    found = quietly(blind, np.tile([0.5, 0.0, 0.5, 0.0], (500, 1)))
    assert found.unsupported == pytest.approx(0.5)
    assert any("50.00% of the policy's plays had propensity 0" in text for text in found.warnings)


def test_one_decision_with_most_of_the_weight_is_told() -> None:
    table = Table.of(np.zeros((300, 1)), ["a"] * 299 + ["b"], np.ones(300), [0.9] * 299 + [0.001])
    found = quietly(table, lambda context, arms: [0.5, 0.5])
    assert any("carries 75% of all weight" in text for text in found.warnings)


def test_missing_rewards_and_vanished_propensities_are_told(tmp_path: Path) -> None:
    table = logged_table(5, 300)
    gappy = Table(**{**table.__dict__, "missing": 100})
    found = quietly(gappy, target(table.contexts))
    assert any("100 decisions have no reward, 25% of all" in text for text in found.warnings)
    propensity = table.propensity.copy()
    propensity[7] = 0.0
    found = quietly(Table(**{**table.__dict__, "propensity": propensity}), lambda context, arms: [0.25] * 4)
    assert found.n == 299
    assert found.warnings == ("1 decisions were left out: their propensity is 0 to machine precision",)


def test_bernstein_intervals_are_wider_and_hold() -> None:
    covered = 0
    for seed in range(20):
        table = logged_table(seed, 400)
        bounded = Table(**{**table.__dict__, "rewards": np.clip(table.rewards, -1, 2)})
        policy = target(table.contexts)
        sure, usual = quietly(bounded, policy, reward_range=(-1, 2)), quietly(bounded, policy)
        assert sure.ips.low < usual.ips.low < usual.ips.high < sure.ips.high
        assert sure.dr.low < usual.dr.low < usual.dr.high < sure.dr.high
        covered += sure.ips.low < TRUTH < sure.ips.high and sure.dr.low < TRUTH < sure.dr.high
    assert covered == 20


@pytest.mark.parametrize("split", [by_past, by_folds])
def test_no_reward_is_predicted_from_itself(split: Any) -> None:
    rng = np.random.default_rng(0)
    contexts, chosen, rewards = rng.normal(size=(60, 2)), rng.integers(3, size=60), rng.normal(size=60)
    every = Candidates.of([range(3)] * 60)
    before = by_arm(contexts, chosen, rewards, every, split(60, 4)).reshape(60, 3)
    covered = np.sort(np.concatenate([apply for _, apply in split(60, 4)]))
    np.testing.assert_array_equal(covered, np.arange(60))
    for row in (0, 17, 59):
        changed = rewards.copy()
        changed[row] += 100.0
        after = by_arm(contexts, chosen, changed, every, split(60, 4)).reshape(60, 3)
        np.testing.assert_array_equal(after[row], before[row])
        if split is by_past:
            np.testing.assert_array_equal(after[: row + 1], before[: row + 1])


def test_a_learning_agent_may_have_logged() -> None:
    """Thompson sampling, with epsilon, learning all the while: IPS and DR stay unbiased, and intervals cover."""
    rng = np.random.default_rng(11)
    z: dict[str, list[float]] = {"ips": [], "snips": [], "dr": []}
    for seed in range(40):
        agent = lim2.LinearTS(n_arms=ARMS, n_features=FEATURES, epsilon=0.1 * ARMS, seed=seed)
        contexts = rng.normal(size=(150, FEATURES))
        rows = []
        for context, noise in zip(contexts, 0.3 * rng.normal(size=150), strict=True):
            decision = agent.decide(context)
            reward = float(expected(context[None])[0, decision.arms.index(decision.arm)] + noise)
            rows.append((decision.arm, reward, decision.propensity, decision.propensities, decision.means))
            agent.update(context, decision.arm, reward)
        played, rewards, propensity, propensities, means = zip(*rows, strict=True)
        table = Table.of(
            contexts, played, rewards, propensity, arms=range(ARMS), propensities=np.array(propensities), means=means
        )
        for model in ("ridge", "logged"):
            found = quietly(table, target(contexts), model=model)
            for name in z if model == "ridge" else ["dr"]:
                estimate = getattr(found, name)
                z[name].append((estimate.value - TRUTH) / estimate.error)
    for name, values in z.items():
        assert np.mean(np.abs(values) < 1.98) > 0.87, name
        assert abs(np.mean(values)) < 0.5, name


def test_terms_without_spread_have_an_interval_without_width() -> None:
    assert mean_of(np.ones(5), 0.95).low == mean_of(np.ones(5), 0.95).high == 1.0


@pytest.mark.parametrize("n", range(2, 14))
def test_small_tables_are_evaluated(n: int) -> None:
    rng = np.random.default_rng(n)
    played = ["a", "b", *rng.choice(["a", "b"], n - 2).tolist()]
    table = Table.of(rng.normal(size=(n, 2)), played, rng.random(n), np.full(n, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert evaluate(table, lambda context, arms: arms[0]).n == n
