"""All that has ever happened in a log that is pruned: its backups, one after the other, and then the log itself.

The pruner deletes nothing that is not in a backup. An agent knows its position, so it can learn one file to its end
and go on in the next.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from log.attack.witness import Report, Witness
from log.attack.world import ARMS, DEFAULT, FIRST_ARMS, digest, key_of, make_agent, open_log, position_of, reward_of
from log.stand_ins import Chooser

import lim2
from lim2.decision import History


class Event(NamedTuple):
    """A reward, or a change of arms; the first one has position 1."""

    kind: str  # "reward", "default", "added" or "removed"
    arm: str
    key: str = ""


class Tally(Chooser):
    """An agent that learns nothing and notes everything: it never lacks an arm, so it is shown every event."""

    arms = ARMS

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.events: list[Event] = []

    def lacks(self, arm: Hashable) -> bool:
        return False

    def take(self, history: History, row: int) -> None:
        context, reward = history.column("contexts", "are missing")[row], float(history.rewards[row])
        kind = "default" if reward == DEFAULT else "reward"
        assert reward in (DEFAULT, reward_of(context)), f"context {key_of(context)} has the reward {reward}"
        self.events.append(Event(kind, str(history.arms[row]), key_of(context)))

    def add_arm_logged(self, name: str, like: str | None, features: Any, position: Mapping[str, Any]) -> None:
        self.events.append(Event("added", name))
        self.metadata.update(position)

    def remove_arm_logged(self, name: str, position: Mapping[str, Any]) -> None:
        self.events.append(Event("removed", name))
        self.metadata.update(position)


def opened_backups(folder: Path, witness: Witness) -> list[lim2.DecisionLog]:
    """Return the backups, to be read only: what was pending in them is settled elsewhere."""
    return [open_log(folder / name, read_only=True) for _, name in sorted(witness.backups)]


def all_events(logs: Sequence[lim2.DecisionLog]) -> list[Event]:
    """Return every event there was; their positions are 1, 2, ... without a gap."""
    tally = Tally()
    for log in logs:
        log.apply(tally)
    assert position_of(tally) == logs[-1].position == len(tally.events)
    return tally.events


def rounds_by_position(events: list[Event]) -> list[int]:
    """Return how many rewards an agent has learned at each position: those of arms that it had."""
    arms = set(FIRST_ARMS)

    def learns(event: Event) -> int:
        if event.kind == "added":
            assert event.arm not in arms, f"{event} has been added before"
            arms.add(event.arm)
        elif event.kind == "removed":
            assert event.arm in arms, f"{event} has been removed before"
            arms.discard(event.arm)
        return int(event.kind in ("reward", "default") and event.arm in arms)

    return list(accumulate(map(learns, events), initial=0))


def compare(logs: Sequence[lim2.DecisionLog], reports: Sequence[Report]) -> tuple[Any, int]:
    """Let a fresh agent learn everything, and compare it with each report where it stands at the same position.

    Return the agent, and with how many reports it was compared. It cannot be stopped right after a change of arms, nor
    after a reward that is passed over.
    """
    agent, compared = make_agent(), 0
    waiting = sorted(report for report in reports if report.rounds)
    waiting.reverse()
    for log in logs:
        end = log.position
        while waiting and waiting[-1].position <= end:
            report = waiting.pop()
            log.apply(agent, limit=report.rounds - agent.rounds)
            if position_of(agent) == report.position:
                assert digest(agent) == report.digest, f"replay differs at position {report.position}: {report.by}"
                compared += 1
        log.apply(agent)
    assert not waiting
    return agent, compared
