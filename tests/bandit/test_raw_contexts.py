"""Features are those of the decision: whatever the order in which rewards come, and whatever keys are useless."""

import functools
import heapq
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from bandit.shop import content, question
from helpers.learning import learn

import lim2
from lim2.state import Array

FILES = Path(__file__).parents[1] / "data" / "bandits-v2"
START = datetime(2026, 11, 2, tzinfo=UTC)
ROUNDS, FIRST = 1600, 100  # the first rewards, of which the scale is not yet known


class Visit(NamedTuple):
    """A visit, the arm that was shown, and the reward with its delay."""

    context: dict[str, Any]
    arm: str
    reward: float
    delay: int


def visits(rounds: int = ROUNDS) -> list[Visit]:
    """Return visits with useful keys and useless ones; clicks are known early, zeros late."""
    rng, out = np.random.default_rng(0), []
    for t in range(rounds):
        context = {
            "at": (START + timedelta(minutes=4 * t)).isoformat(),
            "visit": 1_000_000 + t,
            "session": f"{rng.integers(2**62):x}",
            "user": f"u{rng.integers(40)}",
            "country": ("AT", "DE", "CH")[rng.integers(3)],
            "age": int(rng.integers(18, 80)),
            "basket": {"total": round(float(rng.exponential(40)), 2)},
        }
        reward = float(rng.random() < 0.2)
        delay = int(rng.integers(1, 10)) if reward else 200
        out.append(Visit(context, ("a", "b")[rng.integers(2)], reward, delay))
    return out


def arrivals(all_visits: list[Visit], late: bool) -> list[int]:
    """Return the numbers of the visits in the order in which their rewards are learned."""
    waiting = [(t + visit.delay * late, t) for t, visit in enumerate(all_visits)]
    heapq.heapify(waiting)
    return [heapq.heappop(waiting)[1] for _ in all_visits]


@functools.cache
def learned(late: bool) -> tuple[lim2.Bandit, dict[int, Array]]:
    """Return a bandit that has learned all visits, and what each was encoded as when it was learned."""
    bandit, rows, all_visits = lim2.Bandit(["a", "b"], algorithm="LinearTS", seed=0), {}, visits()
    for t in arrivals(all_visits, late):
        learn(bandit, all_visits[t].context, all_visits[t].arm, all_visits[t].reward)
        rows[t] = bandit.question(all_visits[t].context).rows
    return bandit, rows


def test_the_order_of_rewards_does_not_change_the_features() -> None:
    """Learn the same decisions in the order of decisions, and clicks first with zeros late."""
    (prompt, early), (late, rows) = learned(False), learned(True)
    all_visits = visits()
    assert arrivals(all_visits, True) != arrivals(all_visits, False)
    # what new visits are encoded as
    for visit in visits(60):
        one, other = (bandit.question(visit.context).rows for bandit in (prompt, late))
        np.testing.assert_allclose(one, other, rtol=0.35, atol=0.35)  # the scales are of other first values
        np.testing.assert_array_equal(one != 0.0, other != 0.0)
    # what was learned: the same in both orders, but for the first rewards and the first occurrences of categories
    settled = set(arrivals(all_visits, True)[FIRST:]) & set(range(FIRST, ROUNDS))
    differing = [t for t in settled if not np.allclose(early[t], rows[t], rtol=0.35, atol=0.35)]
    assert len(settled) > 1000
    assert len(differing) <= 0.02 * len(settled)


@pytest.mark.parametrize("late", [False, True], ids=["prompt", "late"])
def test_rows_do_not_tell_clicks_from_zeros(late: bool) -> None:
    """Clicks are drawn at random: no column may be larger for them, in whatever order they are learned."""
    all_visits, (_, rows) = visits(), learned(late)
    settled = arrivals(all_visits, late)[FIRST:]
    X, clicked = np.array([rows[t] for t in settled]), np.array([all_visits[t].reward > 0.0 for t in settled])
    spread = X.std(axis=0)
    used = spread > 0.0
    gap = (X[clicked].mean(axis=0) - X[~clicked].mean(axis=0))[used] / spread[used]
    error = np.sqrt(1.0 / clicked.sum() + 1.0 / (~clicked).sum())
    assert used.sum() > 30
    assert np.abs(gap).max() < 4.0 * error


@pytest.mark.parametrize("key", ["at", "visit", "session"])
def test_a_useless_key_changes_no_decision(key: str) -> None:
    """Nor does it change what is learned, when rewards are prompt."""

    def decisions(*dropped: str) -> list[Array]:
        bandit, out = lim2.Bandit(["a", "b"], algorithm="LinearTS", seed=0), []
        for visit in visits(300):
            context = {name: value for name, value in visit.context.items() if name not in dropped}
            decision = bandit.decide(context)
            out.append(np.sort(decision.means))
            bandit.update(decision, float(decision.arm == "a") * visit.reward)
        return out

    rest = {"at", "visit", "session"} - {key}
    np.testing.assert_allclose(decisions(*rest), decisions(*rest, key), atol=1e-9)


def test_what_is_not_used_is_shown() -> None:
    bandit = lim2.Bandit(["a", "b"], algorithm="LinearTS", seed=0)
    for t, visit in enumerate(visits(500)):
        context = {**visit.context, "plan": 3 if t % 50 == 49 else "free"}
        if t >= 150:
            del context["basket"]
        learn(bandit, context, visit.arm, visit.reward)
    notes = {info.name: info.note for info in bandit.columns["context"]}
    assert notes == {
        "age": "",
        "at": "only grows or falls, not used",
        "basket.total": "absent from the last 350 contexts",
        "country": "",
        "plan": "never varied, not used; 10 of another type",
        "session": "most values do not repeat, only repeated ones are used",
        "user": "",
        "visit": "only grows or falls, not used",
    }
    infos = {info.name: info for info in bandit.columns["context"]}
    assert (infos["basket.total"].missing, infos["plan"].changed, infos["session"].new) == (350, 10, 500)


def test_what_is_known_of_keys_survives_a_file(tmp_path: Path) -> None:
    bandit = lim2.Bandit(["a", "b"], algorithm="LinearTS", seed=0)
    for visit in visits(200):
        learn(bandit, visit.context, visit.arm, visit.reward)
    bandit.save(tmp_path / "bandit.lim2")
    other = lim2.load(tmp_path / "bandit.lim2")
    assert other.core.state.encoders == bandit.core.state.encoders and other.columns == bandit.columns
    for visit in visits(30):
        for each in (bandit, other):
            learn(each, visit.context, visit.arm, 1.0)
    assert content(other) == content(bandit)


@pytest.mark.parametrize("form", ["arms", "items"])
def test_files_of_the_earlier_version_open(form: str) -> None:
    """Their numbers keep their scale, every category counts, and times are measured anew."""
    bandit = lim2.load(FILES / f"{form}.lim2")
    assert isinstance(bandit, lim2.Bandit)
    context = {info.name: info for info in bandit.columns["context"]}
    assert context["age"].mean == pytest.approx(31.0 + 8.35849057)
    assert bandit.core.state.encoders[0].categories is None
    x = bandit.rows.encoders[0].encode(bandit.core.state.encoders[0], question(form)["context"])
    assert x[0] == pytest.approx((31.0 - 39.35849057) / np.sqrt(15018.18867925 / 53))
    assert x[8:].any() and not x[1:6].any()
    for t in range(8):
        decision = bandit.decide(**question(form, t))
        assert np.isfinite(decision.means).all()
        bandit.update(decision, 1.0)
    assert bandit.core.state.encoders[0].updates == 61
    assert lim2.load(FILES / f"{form}.lim2").rounds == bandit.rounds - 8
