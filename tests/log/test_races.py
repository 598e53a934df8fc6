"""Several learners on one log, interleaved at the worst moments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log.world import N_FEATURES, learned, live, make_agent, make_log

import lim2
from lim2 import state as trees
from lim2.log import LogError, PrunedLogError, learning

X = np.ones(N_FEATURES)


def in_between(log: lim2.DecisionLog, monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Do something once, just before the log's next transaction that writes."""
    write = log.store.write

    def late(work: Any) -> Any:
        monkeypatch.undo()
        act()
        return write(work)

    monkeypatch.setattr(log.store, "write", late)


def write_event(log: lim2.DecisionLog, kind: str, change: str | None) -> None:
    """Write an event of any kind, as no method of the log would."""
    log.store.write(lambda tables: tables.append(0.0, kind, None, None, change))


@pytest.mark.one_store
@pytest.mark.parametrize("kind", ["agent", "bandit"])
def test_what_is_saved_while_another_thread_learns_has_its_own_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A later position than that of the state would lose rewards after a restart."""
    agent: Any = make_agent() if kind == "agent" else lim2.Bandit(arms=["a", "b", "c"], seed=0)
    context: Any = X if kind == "agent" else {"country": "AT"}
    canonical = trees.canonical
    with make_log(tmp_path) as log:
        made = log.decide_many(agent, [context] * 4)
        log.reward(made[0].id, 1.0)
        log.apply(agent)
        log.reward_many([(decision.id, 1.0) for decision in made[1:]])

        def meanwhile(state: Any) -> Any:
            monkeypatch.undo()
            log.apply(agent)
            return canonical(state)

        monkeypatch.setattr(trees, "canonical", meanwhile)
        loaded = lim2.from_bytes(agent.to_bytes())
        assert loaded.rounds == loaded.metadata["log_position"]
        log.apply(loaded)
        assert loaded.rounds == agent.rounds == 4


@pytest.mark.parametrize("change", ["add_arm", "remove_arm"])
def test_two_who_change_the_same_arm_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    one, other, fresh = make_agent(), make_agent(), make_agent()
    name = "d" if change == "add_arm" else "b"
    with make_log(tmp_path) as log, make_log(tmp_path) as beside:
        live(log, one, 10)
        outcomes: list[bool] = []
        in_between(log, monkeypatch, lambda: outcomes.append(getattr(beside, change)(other, name)))
        outcomes.append(getattr(log, change)(one, name))
        assert outcomes == [True, False]
        assert log.position == 11
        live(log, one, 10, seed=1)
        log.apply(other)
        log.replay(fresh)
    assert one.arms == other.arms == fresh.arms
    assert learned(one) == learned(other) == learned(fresh)


def test_a_different_change_in_between_is_learned_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, fresh = make_agent(), make_agent(), make_agent()
    with make_log(tmp_path) as log, make_log(tmp_path) as beside:
        in_between(log, monkeypatch, lambda: beside.remove_arm(other, "a"))
        with pytest.raises(ValueError, match="'a'"):
            log.add_arm(one, "d", like="a")
        assert log.add_arm(one, "d", like="b")
        log.replay(fresh)
    assert fresh.arms == one.arms == ("b", "c", "d")


def test_a_log_in_which_an_arm_was_added_twice_can_be_read(tmp_path: Path) -> None:
    agent, fresh = make_agent(), make_agent()
    with make_log(tmp_path) as log:
        log.add_arm(agent, "d")
        changes = [("add_arm", '["d"]'), ("remove_arm", '["b"]'), ("remove_arm", '["b"]')]  # as two could before
        for kind, change in changes:
            write_event(log, kind, change)
        log.apply(agent)
        log.replay(fresh)
        assert fresh.arms == agent.arms == ("a", "c", "d")


def test_a_learner_that_is_behind_while_another_prunes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are deleted after the slow one has checked that they are there, and after some of its chunks."""
    quick, slow = make_agent(), make_agent()
    monkeypatch.setattr(learning, "ROWS_PER_READ", 8)
    with make_log(tmp_path, keep=None) as log, make_log(tmp_path, keep=10) as pruning:
        for _ in range(60):
            log.reward(log.decide(quick, X).id, 1.0)
        update, told = slow.learn_logged, []

        def update_and_prune(*given: Any, **options: Any) -> None:
            update(*given, **options)
            if slow.rounds == 12:
                pruning.apply(quick)

        slow.learn_logged = update_and_prune
        with pytest.raises(PrunedLogError, match="Save the agent more often"):
            told.append(log.apply(slow))
        assert not told
        assert slow.rounds == slow.metadata["log_position"] == 16


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("save", '["FOLDER/stolen"]', "'save'"),
        ("praise", None, r"position 1 .* 'praise'"),
        ("add_arm", "[1, 2, 3]", "unknown change of arms"),
    ],
)
def test_a_row_of_an_unknown_kind_is_refused(tmp_path: Path, kind: str, change: str | None, message: str) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        write_event(log, kind, change and change.replace("FOLDER", str(tmp_path)))
        with pytest.raises(LogError, match=message):
            log.apply(agent)
    assert not (tmp_path / "stolen").exists()
    assert agent.metadata["log_position"] == 0
