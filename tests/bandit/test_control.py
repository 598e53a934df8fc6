"""A bandit under a control group: what it shows, what it keeps, and what replay makes of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock

import lim2

ARMS = ["spring", "shoes", "gift card"]


def played(bandit: lim2.Bandit, n: int, log: lim2.DecisionLog | None = None) -> list[Any]:
    """Let a bandit decide and learn; return its decisions."""
    rng, made = np.random.default_rng(0), []
    for number in range(n):
        made.append(bandit.decide({"n": number % 3}))
        bandit.update(made[-1], float(rng.random() < (0.6 if made[-1].arm == "shoes" else 0.2)))
    return made


def test_a_share_of_decisions_is_the_rule_s() -> None:
    bandit = lim2.Bandit(arms=ARMS, algorithm="LinearTS", seed=0, control=lim2.Control("spring", share=0.3))
    made = played(bandit, 400)
    counts = Counter(one.group for one in made)
    assert counts["control"] == pytest.approx(120, abs=30) and counts["bandit"] == 400 - counts["control"]
    assert all(one.arm == "spring" for one in made if one.group == "control")
    assert all(one.propensities[0] >= 0.3 and one.propensities.sum() == pytest.approx(1) for one in made)
    again = lim2.Bandit(arms=ARMS, algorithm="LinearTS", seed=0, control=lim2.Control("spring", share=0.3))
    assert [one.arm for one in played(again, 400)] == [one.arm for one in made]


def test_it_is_saved_copied_and_followed_by_snapshots(tmp_path: Path) -> None:
    bandit = lim2.Bandit(arms=ARMS, seed=0, control=lim2.Control("shoes", share=1.0))
    bandit.save(tmp_path / "bandit.lim2")
    loaded = lim2.load(tmp_path / "bandit.lim2")
    for one in (bandit, loaded, bandit.copy(), bandit.snapshot(), loaded.snapshot()):
        assert one.control == lim2.Control("shoes", share=1.0)
        assert one.decide({}).arm == "shoes" and one.rank({}).arms[0] == "shoes"
    assert bandit.clone().control is None
    bandit.control = None
    assert bandit.control is None and bandit.decide({}).group is None


def test_items_under_a_control() -> None:
    shop = lim2.Bandit(seed=0, control=lim2.Control("first", share=1.0))
    items = {"x": {"price": 1}, "y": {"price": 2}}
    decision = shop.decide({}, items)
    assert (decision.arm, decision.item) == ("x", {"price": 1})
    shop.update(decision, 1.0)
    assert shop.rank({}, {"y": {"price": 2}, "x": {"price": 1}}).arms == ("y", "x")


def test_the_log_replays_what_the_bandit_chose(tmp_path: Path) -> None:
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal") as log:
        control = lim2.Control("spring", share=0.5)
        bandit = lim2.Bandit(arms=ARMS, algorithm="LinearTS", seed=0, epsilon=0.2, log=log, control=control)
        made = played(bandit, 120)
        assert {one.group for one in made} == {"control", "bandit"}
        assert log.proof("spring").decisions > 100
        again = lim2.Bandit(arms=ARMS, algorithm="LinearTS", seed=0, epsilon=0.2)
        assert log.replay(again, decisions=True) == 120
        assert again.propensities({"n": 1}).tolist() == bandit.propensities({"n": 1}).tolist()
        shown = log.decide(bandit.snapshot(), {"n": 1})
        assert shown.group in ("control", "bandit") and shown.propensities[0] >= 0.5


def test_pin_pause_and_resume(tmp_path: Path) -> None:
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal") as log:
        bandit = lim2.Bandit(arms=ARMS, seed=0, log=log, control=lim2.Control("spring", share=0.5))
        bandit.pin("gift card")
        assert {bandit.decide({}).arm for _ in range(10)} == {"gift card"}
        bandit.pause()
        played(bandit, 5)
        assert bandit.paused and bandit.rounds == 0 and log.state.rewards == 5
        bandit.resume()
        assert not bandit.paused and bandit.rounds == 5 and bandit.control == lim2.Control("spring", share=0.5)
        with pytest.raises(ValueError, match="must name one of the arms"):
            bandit.pin("zebra")
        with pytest.raises(ValueError, match="must name one of the arms"):
            bandit.control = lim2.Control("zebra")


def test_a_key_gets_the_same_decision_again(tmp_path: Path) -> None:
    clock = Clock()
    with lim2.DecisionLog(tmp_path / "log.db", synchronous="normal", clock=clock) as log:
        bandit = lim2.Bandit(arms=ARMS, seed=0, epsilon=1.0, log=log, sticky=60)
        other = lim2.Bandit(arms=ARMS, seed=1, epsilon=1.0, log=log, sticky=60)  # as in another process
        first = bandit.decide({}, key="ann")
        bandit.update(first, 1.0)
        clock.now += 59
        again = [one.decide({"n": 1}, key="ann") for one in (bandit, other) for _ in range(5)]
        assert {one.id for one in again} == {first.id} and again[0].reward == 1.0
        rest = [arm for arm in ARMS if arm != first.arm]
        assert bandit.decide({}, key="ann", arms=iter(rest)).arm in rest
        clock.now += 61
        assert bandit.decide({}, key="ann").id != first.id
        assert len({bandit.decide({}).id for _ in range(3)}) == 3
        for wrong in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="sticky must be"):
                lim2.Bandit(arms=ARMS, sticky=wrong)
