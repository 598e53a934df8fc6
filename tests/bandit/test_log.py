"""Bandits with a log: late rewards, restarts, replay, slates, arms that change, evaluation."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bandit.shop import ARMS, FORMS, USERS, content, items_of, learned, make, question, reward_of
from helpers.clock import Clock
from helpers.learning import learn
from log.world import make_log

import lim2
from lim2.encoding import Category, Columns, Encoder
from lim2.log import LogError

LOGGED = 0.03  # the default epsilon beside a log

every_form = pytest.mark.parametrize("form", FORMS)


def live(bandit: lim2.Bandit, form: str, rounds: int = 20, start: int = 0) -> list[Any]:
    """Decide, with rewards that come late and out of order; return decisions and slates."""
    rng, made = np.random.default_rng(start), []
    waiting: list[Any] = []
    for t in range(start, start + rounds):
        entry: Any = bandit.rank(**question(form, t), k=2) if t % 4 == 3 else bandit.decide(**question(form, t))
        waiting.append(entry)
        made.append(entry)
        while waiting and rng.random() < 0.55:
            late = waiting.pop(int(rng.integers(len(waiting))))
            reward = {1: 0.0, "slot 2": 1.0} if isinstance(late, lim2.Slate) else reward_of(late)
            bandit.reward(late.id, reward)
    return made


@every_form
def test_a_restart_from_the_log_gives_the_same_bandit(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make(form, log=log)
        live(bandit, form)
        assert bandit.rounds > 10
        restarted = make(form, log=log)
        assert learned(restarted) == learned(bandit)
        assert restarted.metadata == bandit.metadata
        again = make(form, epsilon=bandit.epsilon)
        log.replay(again, decisions=True)
        assert content(again) == content(bandit)
        assert again.decide(**question(form)).arm == bandit.copy().decide(**question(form)).arm


@every_form
def test_the_share_of_uniform_decisions(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        assert make(form).epsilon == 0.0
        assert make(form, log=log).epsilon == LOGGED
        assert make(form, log=log, epsilon=0.0).epsilon == 0.0
        assert make(form, log=log, epsilon=0.3).epsilon == 0.3
        sizes: dict[str, Any] = {} if form != "arms" else {"arms": ["a", "b"]}
        mine = lim2.Bandit(**sizes, algorithm=partial(lim2.LinearTS, epsilon=0.2), log=log)
        assert mine.epsilon == mine.snapshot().epsilon == 0.2
        mine.epsilon = 0.4
        assert mine.epsilon == mine.agent.algorithm.epsilon == mine.clone().epsilon == 0.4
        loaded = lim2.from_bytes(mine.to_bytes())
        loaded.attach(log)  # which changes no setting
        assert loaded.epsilon == 0.4


@every_form
def test_an_agent_of_another_share_does_not_decide_as_logged(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        live(make(form, log=log), form)
        with pytest.raises(LogError, match="epsilon"):
            log.replay(make(form), decisions=True)


@every_form
def test_a_saved_bandit_catches_up(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make(form, log=log)
        live(bandit, form)
        log.save(bandit, tmp_path / "bandit.lim2")
        live(bandit, form, start=50)
        loaded = lim2.load(tmp_path / "bandit.lim2")
        assert loaded.log is None
        assert loaded.rounds < bandit.rounds
        loaded.attach(log)
        assert learned(loaded) == learned(bandit)


@every_form
def test_with_a_log_as_without(form: str, tmp_path: Path) -> None:
    """The same rewards in the same order teach the same, slates included."""
    with make_log(tmp_path) as log:
        logged, plain = make(form, log=log), make(form, epsilon=LOGGED)
        for t in range(12):
            if t % 3:
                one, two = logged.decide(**question(form, t)), plain.decide(**question(form, t))
                assert (one.arm, one.propensity) == (two.arm, two.propensity)
                for bandit, decision in ((logged, one), (plain, two)):
                    bandit.update(decision, reward_of(decision))
            else:
                slates = logged.rank(**question(form, t), k=3), plain.rank(**question(form, t), k=3)
                assert slates[0].arms == slates[1].arms
                for bandit, slate in zip((logged, plain), slates, strict=True):
                    bandit.update(slate, {1: 1.0, "slot 3": 0.5})
        assert learned(logged) == learned(plain)
        assert logged.explain(logged.decide(**question(form))) == plain.explain(plain.decide(**question(form)))


def test_a_path_is_a_log(tmp_path: Path) -> None:
    bandit = make("arms", log=tmp_path / "decisions.db")
    decision = bandit.decide(USERS[0], id="order 7")
    assert decision.id == "order 7"
    assert bandit.reward("order 7", 1.0) == "recorded"
    assert bandit.reward("order 7", 1.0) == "duplicate"
    assert bandit.rounds == 1
    slate = bandit.rank(USERS[1], k=2, id="page 3")
    assert bandit.reward(slate.id, {"slot 2": 1.0}) == {"slot 2": "recorded"}
    assert bandit.rounds == 2
    with pytest.raises(ValueError, match="order 7"):
        bandit.decide(USERS[0], id="order 7")
    assert bandit.log is not None
    bandit.log.close()
    same = make("arms", log=str(tmp_path / "decisions.db"))
    assert learned(same) == learned(bandit)
    assert same.log is not None
    same.log.close()


def test_what_needs_a_log() -> None:
    bandit = make("arms")
    with pytest.raises(LogError, match="reward needs a decision log"):
        bandit.reward("x", 1.0)
    with pytest.raises(LogError, match="evaluate needs a decision log"):
        bandit.evaluate()


@every_form
@pytest.mark.parametrize("bad", [{1: 1.0, 2: float("nan")}, {1: 1.0, 3: 0.0}, {"slot 2": 1.0, 2: 0.0}, {}], ids=str)
def test_rewards_of_a_logged_slate_come_whole_or_not_at_all(form: str, bad: Any, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make(form, log=log)
        slate = bandit.rank(**question(form), k=2)
        before = content(bandit), log.position
        with pytest.raises(ValueError):  # each has words of its own
            bandit.reward(slate.id, bad)
        assert (content(bandit), log.position) == before
        bandit.update(slate, {2: 1.0})
        assert bandit.rounds == 1


@every_form
def test_bad_input_is_not_written_down(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make(form, log=log)
        before = content(bandit)
        for ask in (bandit.decide, bandit.rank):
            with pytest.raises(ValueError, match="age"):
                ask({"age": float("inf")}, question(form).get("items"))
        assert content(bandit) == before
        assert not log.pending()
        with pytest.raises(ValueError, match="a mapping by position for a slate"):
            bandit.update(bandit.rank(**question(form), k=2), 1.0)
        assert len(log.pending()) == 2
        assert learned(bandit) == learned(make(form))


def test_joint_draws_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make("items", log=log)
        before = content(bandit)
        for ask in (bandit.decide, bandit.rank):
            with pytest.raises(ValueError, match="no propensities"):
                ask(USERS[0], items_of(0), joint=True)
        assert content(bandit) == before
        assert not log.pending()


@every_form
def test_eligible_and_exploited_decisions_are_made_again(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make(form, log=log)
        live(bandit, form, 8)
        some = list(bandit.decide(**question(form)).arms)[:2]
        for t in range(12):
            bandit.update(bandit.decide(**question(form), arms=some, exploit=t % 2 == 0), 1.0)
            bandit.update(bandit.rank(**question(form), k=2, arms=some[::-1]), {1: 1.0})
            bandit.rank(**question(form), k=1, exploit=True)
        again = make(form, epsilon=bandit.epsilon)
        log.replay(again, decisions=True)
        assert content(again) == content(bandit)


def test_late_rewards_and_defaults(tmp_path: Path) -> None:
    clock = Clock()
    with make_log(tmp_path, clock=clock, expire_after=60, default_reward=0.0) as log:
        bandit = make("items", log=log)
        early, late = (bandit.decide(**question("items", t)) for t in (0, 1))
        clock.now += 30
        assert bandit.reward(early.id, 1.0) == "recorded"
        clock.now += 40
        assert bandit.reward(late.id, 1.0) == "late"
        assert bandit.rounds == 2
        assert log.get(late.id).status == "default"
        assert learned(make("items", log=log)) == learned(bandit)


# Other encoders


def test_replay_with_another_encoder(tmp_path: Path) -> None:
    """Features evolve: another bandit learns from what this one saw, as if it had been there."""
    other: dict[str, Any] = {"encoder": Encoder(numbers=4, buckets=16), "item_encoder": Encoder(buckets=4, seed=3)}
    with make_log(tmp_path) as log:
        bandit = make("items", log=log)
        live(bandit, "items")
        replayed, expected = make("items", **other), make("items", **other)
        assert log.replay(replayed) == bandit.rounds
        for entry in map(log.get, ids_of(log)):
            assert entry.reward is not None
            assert entry.raw_items is not None
            decision = expected.decide(entry.raw, {entry.arm: entry.raw_items[entry.arm]})
            expected.update(replace(decision, position=entry.position), entry.reward)
        assert learned(replayed) == learned(expected)


def ids_of(log: lim2.DecisionLog) -> list[str]:
    """Return the ids of all decisions that have a reward, in the order of their rewards."""
    return [event.row[0] for event in log.store.look(lambda tables: tables.events(0, 10**9, 10_000))]


def test_another_encoder_learns_what_it_would_have_learned(tmp_path: Path) -> None:
    declared = Columns(country=Category(["AT", "DE", "CH"]))
    settings: dict[str, Any] = {"encoder": declared, "algorithm": "LinearTS", "seed": 1}
    users = [{"country": user["country"]} for user in USERS]
    with make_log(tmp_path) as log:
        bandit = lim2.Bandit(list(ARMS), algorithm="LinearTS", seed=0, log=log)
        for t in range(20):
            bandit.update(bandit.decide(users[t % 4]), float(t % 3))
        other, expected = lim2.Bandit(list(ARMS), **settings), lim2.Bandit(list(ARMS), **settings)
        log.replay(other)
        for entry in map(log.get, ids_of(log)):
            assert entry.reward is not None
            learn(expected, entry.raw, entry.arm, entry.reward)
        assert learned(other) == learned(expected)


# Arms that come and go


def test_arms_that_come_and_go_through_the_log(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make("arms", log=log)
        live(bandit, "arms", 6)
        log.add_arm(bandit, "new", like="shoes")
        live(bandit, "arms", 6, start=20)
        waiting = bandit.decide(USERS[0], arms=["spring"])
        log.remove_arm(bandit, "spring")
        live(bandit, "arms", 6, start=40)
        bandit.reward(waiting.id, 1.0)
        assert bandit.arms == ("shoes", "gift card", "new")
        assert learned(make("arms", log=log)) == learned(bandit)


def test_arms_with_features_that_come_and_go_through_the_log(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make("features", log=log)
        live(bandit, "features", 6)
        log.add_arm(bandit, "new", features={"price": np.float64(33.0), "tags": ("a", "b")})
        live(bandit, "features", 6, start=20)
        log.remove_arm(bandit, "spring")
        live(bandit, "features", 6, start=40)
        assert bandit.arms == ("shoes", 3, "new")
        before = content(bandit), log.position
        for bad in ({"features": {"price": float("inf")}}, {"features": 5}, {}, {"like": "shoes"}):
            with pytest.raises(ValueError):
                log.add_arm(bandit, "newer", **bad)
        with pytest.raises(ValueError, match="new"):
            log.add_arm(bandit, "new", features={"price": 1})
        assert (content(bandit), log.position) == before
        restarted = make("features", log=log)
        assert restarted.arms == bandit.arms
        assert learned(restarted) == learned(bandit)
        assert restarted.propensities(USERS[0]).tobytes() == bandit.propensities(USERS[0]).tobytes()


def test_another_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with make_log(tmp_path) as one, make_log(tmp_path / "b") as two:
        bandit = make("arms", log=one)
        bandit.update(bandit.decide(USERS[0]), 1.0)
        with pytest.raises(LogError, match="another log"):
            bandit.attach(two)
        assert bandit.log is one
        copied = bandit.copy()
        assert copied.log is None


# Evaluation


@every_form
@pytest.mark.filterwarnings("ignore::lim2.evaluation.evaluate.OverlapWarning")
def test_a_bandit_is_evaluated_on_its_own_log(form: str, tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit = make(form, log=log, epsilon=0.3)
        for t in range(60):
            decision = bandit.decide(**question(form, t))
            bandit.update(decision, reward_of(decision))
        before = content(bandit)
        own = bandit.evaluate()
        assert content(bandit) == before, "nothing was drawn or learned"
        assert np.isfinite(own.dr.value)
        assert 0.0 <= own.dr.value <= 2.5
        other = bandit.evaluate(make(form, algorithm="Uniform").snapshot())
        assert np.isfinite(other.dr.value)


def test_slates_of_an_agent_with_vectors_are_made_again(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        agent, again = (lim2.LinearTS(arms=list(ARMS), n_features=2, seed=0) for _ in range(2))
        for t in range(12):
            slate = log.rank(agent, [1.0, float(t % 3)], None, 2)
            log.reward(slate.id, {1: float(t % 2)})
            log.apply(agent)
        assert log.replay(again, decisions=True) == 12
        assert again.means([1.0, 1.0]).tobytes() == agent.means([1.0, 1.0]).tobytes()
        with pytest.raises(ValueError, match="ranks arms, not items"):
            log.rank(agent, [1.0, 0.0], np.eye(3), 2)


@pytest.mark.parametrize("form", ["arms", "features"])
def test_arms_that_a_bandit_adds_and_removes_are_written_down(form: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"features": {"price": 5.0}} if form == "features" else {"like": "shoes"}
    with make_log(tmp_path) as log:
        bandit = make(form, log=log)
        live(bandit, form)
        bandit.add_arm("new", **given)
        bandit.reward(bandit.decide(**question(form, 0), arms=["new"]).id, 1.0)
        bandit.remove_arm("shoes")
        assert bandit.arms is not None
        assert "new" in bandit.arms
        assert "shoes" not in bandit.arms
        restarted = make(form, log=log)
        assert restarted.arms == bandit.arms
        assert learned(restarted) == learned(bandit)
        with pytest.raises(ValueError):
            bandit.add_arm("new", **given)
        assert learned(make(form, log=log)) == learned(bandit)
