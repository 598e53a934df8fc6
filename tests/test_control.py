"""A control group: exact propensities of both groups together, and the bandit's gain whatever the share."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lim2
from lim2.decision import Assignment

ARMS = ("a", "b", "c")


def chosen(arm: str = "b", propensities: tuple[float, ...] = (0.2, 0.7, 0.1)) -> lim2.Decision:
    p = np.array(propensities)
    return lim2.Decision(arm, float(p[ARMS.index(arm)]), ARMS, np.zeros(3), np.ones(3), p)


def numbers(*values: float) -> Callable[[], float]:
    left: Iterator[float] = iter(values)
    return lambda: next(left)


def test_propensities_are_those_of_both_groups_together() -> None:
    control = lim2.Control("always:a", share=0.25)
    (bandit,) = control.applied([chosen()], numbers(0.3))
    (ruled,) = control.applied([chosen()], numbers(0.2, 0.9))
    assert (bandit.arm, bandit.group, ruled.arm, ruled.group) == ("b", "bandit", "a", "control")
    for one in (bandit, ruled):
        assert one.propensities.tolist() == pytest.approx([0.4, 0.525, 0.075])
        assert one.propensity == one.propensities[ARMS.index(one.arm)]
        assert one.control == Assignment(one.group or "", 0.25, "always:a", 1, 0.7)


def test_shown_as_often_as_the_propensities_say() -> None:
    rng, control, counts = np.random.default_rng(0), lim2.Control("uniform", share=0.3), Counter[Any]()
    for _ in range(20_000):
        own = rng.choice(3, p=(0.2, 0.7, 0.1))
        (one,) = control.applied([chosen(ARMS[own])], rng.random)
        counts[one.arm] += 1
    expected = 0.3 / 3 + 0.7 * np.array([0.2, 0.7, 0.1])
    assert [counts[arm] / 20_000 for arm in ARMS] == pytest.approx(expected, abs=0.015)


def test_a_share_of_one_is_shadow_and_of_none_changes_nothing() -> None:
    (shadow,) = lim2.Control("first", share=1).applied([chosen()])
    assert (shadow.arm, shadow.propensities.tolist()) == ("a", [1.0, 0.0, 0.0])
    assert shadow.control is not None and ARMS[shadow.control.choice] == "b"
    (alone,) = lim2.Control("first", share=0).applied([chosen()])
    assert (alone.arm, alone.group, alone.propensities.tolist()) == ("b", "bandit", [0.2, 0.7, 0.1])


def test_in_a_ranking_the_arm_of_the_rule_comes_first() -> None:
    ranking = [chosen(arm) for arm in ("b", "c", "a")]
    shown = lim2.Control("a", share=0.5).applied(ranking, numbers(0.1, 0.0))
    assert [one.arm for one in shown] == ["a", "b", "c"]
    assert [one.arm for one in lim2.Control("a", share=0.5).applied(ranking[:2], numbers(0.1, 0.0))] == ["a", "b"]
    assert [one.arm for one in lim2.Control("a", share=0.5).applied(ranking, numbers(0.9))] == ["b", "c", "a"]
    assert shown[0].propensity == pytest.approx(0.6)


def test_without_its_arm_the_bandit_decides() -> None:
    (one,) = lim2.Control("zebra", share=1).applied([chosen()])
    assert one.group is None and one.control is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("a", 1.5), "share of a control"), (("a", math.nan), "share of a control"), (("a", True), "share of a control"),
     ((None,), "a rule must be"), ((lambda *_: "a",), "rule of a control")],
)  # fmt: skip
def test_bad_controls_are_refused(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        lim2.Control(*arguments)


def simulated(log: lim2.DecisionLog, share: float, n: int = 4000) -> None:
    """Record uniform decisions under a control, with clicks of 20%, and of 60% for b."""
    rng, bandit = np.random.default_rng(0), lim2.Bandit(arms=list(ARMS), algorithm="Uniform", seed=0)
    control = lim2.Control("a", share)
    made = [control.applied([bandit.decide({})], rng.random)[0] for _ in range(n)]
    kept = log.record_many(made, raw=[{}] * n)
    log.reward_many([(one.id, float(rng.random() < (0.6 if one.arm == "b" else 0.2))) for one in kept])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_proof_is_about_the_bandit_alone(tmp_path: Path, share: float) -> None:
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal") as log:
        simulated(log, share)
        proof = log.proof("a")
        assert proof.verdict == "proved better" and proof.decisions == 4000
        assert proof.gain == pytest.approx(0.4 / 3, abs=0.03)
        assert proof.relative == pytest.approx(2 / 3, rel=0.25)
        assert proof.interval[0] < 0.4 / 3 < proof.interval[1]
        again = log.proof(lambda context, arms: "a")
        assert again.gain == pytest.approx(proof.gain, rel=1e-12) and again.interval == pytest.approx(proof.interval)


def test_in_shadow_nothing_can_be_proved(tmp_path: Path) -> None:
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal") as log:
        simulated(log, 1.0, 100)
        proof = log.proof("a")
        assert (proof.verdict, proof.decisions, proof.uncovered) == ("not yet", 0, 100)


def test_the_log_knows_the_groups(tmp_path: Path) -> None:
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal") as log:
        simulated(log, 0.5, 50)
        alone = log.record(chosen(), [1.0])
        entries = [log.get(one) for one in log_ids(log)]
        assert {one.group for one in entries} == {"control", "bandit", None}
        assert log.get(alone.id).control is None
        for one in entries[:-1]:
            assert (
                one.control is not None and one.control.share == 0.5 and one.control.propensity == pytest.approx(1 / 3)
            )
            assert one.group == "control" or one.arms[one.control.choice] == one.arm


def log_ids(log: lim2.DecisionLog) -> list[str]:
    from lim2.log.reading import entries

    return [one.id for one in entries(log.store, "all")]


def test_a_wide_control_is_what_a_proof_recommends(tmp_path: Path) -> None:
    """What a proof without a control says of one is about what one with it needs."""
    rng, n = np.random.default_rng(1), 6000

    def run(name: str, share: float) -> Any:
        p = np.array([0.0075, 0.9775, 0.015])
        with lim2.DecisionLog(tmp_path / name, synchronous="normal") as log:
            control = lim2.Control("a", share)
            made = [control.applied([chosen(ARMS[rng.choice(3, p=p)], tuple(p))], rng.random)[0] for _ in range(n)]
            kept = log.record_many(made, raw=[{}] * n)
            log.reward_many([(one.id, float(rng.random() < (0.5 if one.arm == "b" else 0.3))) for one in kept])
            return log.proof("a")

    alone, controlled = run("alone.db", 0.0), run("controlled.db", 0.2)
    assert alone.verdict == "not yet" and alone.control_share is not None
    assert controlled.verdict == "proved better" and controlled.control_share is None
    assert controlled.interval[1] - controlled.interval[0] < 0.5 * (alone.interval[1] - alone.interval[0])
