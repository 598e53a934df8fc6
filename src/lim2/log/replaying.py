"""Repeat the decisions of a log, each after the original number of events, and compare them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from lim2.arms import is_range
from lim2.log.decision_input import DecisionInput
from lim2.log.entries import LoggedDecision, from_row
from lim2.log.errors import LogError
from lim2.log.ids import row_id
from lim2.log.learning import learn, position_of
from lim2.log.store import ROWS_PER_READ, Store

Choice = tuple[Hashable, float]  # an arm, and its propensity

PROPENSITY_TOLERANCE = 1e-12  # another version may compute it by another formula


def decide_again(store: Store, agent: Any) -> int:
    """Repeat every decision of a log after the original number of events; return the number of rewards learned."""
    count, seq = 0, 0
    while rows := store.look(lambda tables: tables.decisions("all", seq, ROWS_PER_READ)):  # noqa: B023 (called at once)
        for seq, position, _, _, row in rows:  # noqa: B007 (the next chunk begins after the last)
            entry = from_row(row, "pending", None)
            count += learn(store, agent, upto=position)
            logged = _logged(store, entry)
            repeated = _repeated(agent, entry, len(logged))
            if position_of(agent) != position or not _equal_choices(repeated, logged):
                raise LogError(
                    f"decision {entry.id!r} comes out differently: {_names(repeated)} after {position_of(agent)} "
                    f"events, but {_names(logged)} after {position} in the log. The agent differs from the live "
                    f"one, perhaps in epsilon, or it was restarted or decided outside the log. Replay without "
                    f"decisions=True restores what it learned."
                )
    return count


def _logged(store: Store, entry: LoggedDecision) -> list[Choice]:
    """Return the logged choice with its propensity: one, or one per position of a slate."""
    positions = [entry]
    while entry.position:
        next_id = row_id(entry.id.removesuffix("/1"), len(positions) + 1)
        stored = store.look(lambda tables: tables.decision(next_id))  # noqa: B023 (called at once)
        if stored is None:
            break
        positions.append(from_row(stored.row, "pending", None))
    return [_own(entry) for entry in positions]


def _own(entry: LoggedDecision) -> Choice:
    """Return what the agent chose, even if a control group got something else."""
    control = entry.control
    return (entry.arm, entry.propensity) if control is None else (entry.arms[control.choice], control.propensity)


def _repeated(agent: Any, entry: LoggedDecision, positions: int) -> list[Choice]:
    items: Any = entry.vectors
    if items is not None and not is_range(entry.arms):
        items = dict(zip(entry.arms, items, strict=True))
    input = DecisionInput(entry.vector, items, entry.raw, entry.raw_items)
    eligible = None if agent.arms is None or entry.arms == agent.arms else entry.arms
    decisions = agent.decide_logged(input, eligible, entry.exploit, positions if entry.position else None)
    return [(decision.arm, decision.propensity) for decision in decisions]


def _equal_choices(repeated: list[Choice], logged: list[Choice]) -> bool:
    """Return whether choices are the same arms, with the same propensities up to rounding."""
    return [arm for arm, _ in repeated] == [arm for arm, _ in logged] and all(
        abs(new - old) <= PROPENSITY_TOLERANCE for (_, new), (_, old) in zip(repeated, logged, strict=True)
    )


def _names(choices: list[Choice]) -> str:
    return ", ".join(repr(arm) for arm, _ in choices)
