"""Repeat the decisions of a log, each after the original number of events, and compare them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from lim2.log import deciders
from lim2.log.entries import LoggedDecision, from_row
from lim2.log.errors import LogError
from lim2.log.ids import row_id
from lim2.log.learning import learn, position_of
from lim2.log.store import CHUNK, Store

Choice = tuple[Hashable, float]  # an arm, and its propensity

ROUNDING = 1e-12  # of a propensity: another version may compute it by another formula


def decide_again(store: Store, agent: Any) -> int:
    """Repeat every decision of a log after the original number of events; return the number of rewards learned.

    Parameters
    ----------
    store
        Store of the log.
    agent
        The agent that decides and learns.
    """
    learned, seq = 0, 0
    while rows := store.look(lambda tables: tables.decisions("all", seq, CHUNK)):  # noqa: B023 (called at once)
        for seq, position, _, _, row in rows:  # noqa: B007 (the next chunk begins after the last)
            entry = from_row(row, "pending", None)
            learned += learn(store, agent, upto=position)
            logged = _logged(store, entry)
            again = _again(agent, entry, len(logged))
            if position_of(agent) != position or not _same(again, logged):
                raise LogError(
                    f"decision {entry.id!r} comes out differently: {_words(again)} after {position_of(agent)} events, "
                    f"but {_words(logged)} after {position} in the log. The agent differs from the live one, perhaps "
                    f"in epsilon, or it was restarted or decided outside the log. Replay without decisions=True "
                    f"restores what it learned."
                )
    return learned


def _logged(store: Store, entry: LoggedDecision) -> list[Choice]:
    """Return the logged choice with its propensity: one, or one per position of a slate."""
    chosen = [entry]
    while entry.position:
        next_id = row_id(entry.id.removesuffix("/1"), len(chosen) + 1)
        stored = store.look(lambda tables: tables.decision(next_id))  # noqa: B023 (called at once)
        if stored is None:
            break
        chosen.append(from_row(stored.row, "pending", None))
    return [(one.arm, one.propensity) for one in chosen]


def _again(agent: Any, entry: LoggedDecision, positions: int) -> list[Choice]:
    about, eligible = deciders.situation_of(entry), deciders.eligible_in(agent, entry)
    if entry.position:
        slate = deciders.rank(agent, about, positions, eligible, entry.exploit)
        return [(one.arm, one.propensity) for one in slate]
    one = deciders.decide(agent, about, eligible, entry.exploit)
    return [(one.arm, one.propensity)]


def _same(again: list[Choice], logged: list[Choice]) -> bool:
    """Return whether choices are the same arms, with the same propensities up to rounding."""
    return [arm for arm, _ in again] == [arm for arm, _ in logged] and all(
        abs(now - before) <= ROUNDING for (_, now), (_, before) in zip(again, logged, strict=True)
    )


def _words(choices: list[Choice]) -> str:
    return ", ".join(repr(arm) for arm, _ in choices)
