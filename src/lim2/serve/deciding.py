"""Decisions that requests ask for: made by the snapshot of a bandit, and answered when they are on disk."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from lim2.bandit import RawDecider
from lim2.control import controlled
from lim2.decision import Decision
from lim2.log import StoreUnavailableError, TakenIdError
from lim2.log.decision_input import DecisionInput
from lim2.log.decisions import NewDecision, insert
from lim2.log.entries import checked_attributes
from lim2.log.ids import new_id, sticky_id
from lim2.serve.background import decided
from lim2.serve.bandits import DecidingBandit
from lim2.serve.errors import not_found, refusals, shortened
from lim2.serve.spec import control_of

LARGE, LONG = 16_000, 32_000  # values that a decision compares, bytes of a request: from here on it takes milliseconds

UNRECORDED = "unrecorded-"  # what the ids of decisions begin with that the database does not know

_encode = msgspec.json.Encoder(order="sorted").encode  # for what msgspec has decoded


class RecordedDecision(NamedTuple):
    """A decision that is on disk: what the answer to a request needs of it, under the names of a log's decision."""

    id: str
    arm: Any
    propensity: float
    arms: tuple[Any, ...]
    propensities: Any
    metadata: Any
    group: str | None = None
    recorded: bool = True  # False: the database is unreachable, and knows nothing of it


def unrecorded(made: Decision, id: str | None, metadata: Any = None) -> RecordedDecision:
    """Return a decision of which the database knows nothing; its id says so, unless the client has chosen it."""
    id = id or f"{UNRECORDED}{new_id(time.time())}"
    return RecordedDecision(
        id, made.arm, made.propensity, made.arms, made.propensities, metadata, made.group, recorded=False
    )


def check_recorded(id: str) -> None:
    """Raise an ApiError if an id is of a decision that was not recorded."""
    if id.startswith(UNRECORDED):
        raise not_found(f"the decision {shortened(id)} was not recorded: the database was unreachable when it was made")


async def decide(
    hosted: DecidingBandit,
    context: Any,
    items: Mapping[str, Any] | None,
    arms: Sequence[str] | None,
    *,
    exploit: bool = False,
    id: str | None = None,
    key: str | None = None,
    metadata: Any = None,
    active: bool = True,
    size: int = 0,
) -> Any:
    """Decide by the snapshot, and return the decision when it is on disk; a taken id gives its first decision."""
    with refusals("a decision"):
        decider, sticky = hosted.decider, hosted.stored.spec.sticky
        if sticky is not None and key is not None and id is None:
            found, id = await asyncio.to_thread(_again, hosted, key, sticky, arms or items or decider.arms or ())
            if found is not None:
                return found
        choice = await choose(hosted, decider, context, items, arms, exploit=exploit, size=size)
        (made,) = controlled(control_of(hosted.stored.spec), [choice])
        return await record(
            hosted, made, context, items, decider, id=id, key=key, metadata=metadata, active=active, size=size
        )


def _again(hosted: DecidingBandit, key: str, sticky: float, eligible: Collection[Any]) -> tuple[Any, str | None]:
    """Return the decision that a key gets again, or None, and the ID of its next one.

    Another process that decides for the key at this moment uses the same ID, and then one of the two decisions holds.
    Without the database nothing is known of earlier decisions.
    """
    try:
        found = hosted.log.latest(key, sticky)
    except StoreUnavailableError:
        found = None
    if found is None:
        return None, sticky_id(hosted.log.id, key, hosted.log.clock(), sticky)
    return (found, None) if found.arm in eligible else (None, None)


async def choose(
    hosted: DecidingBandit,
    decider: RawDecider,
    context: Any,
    items: Mapping[str, Any] | None,
    arms: Sequence[str] | None = None,
    *,
    exploit: bool = False,
    size: int = 0,
) -> Decision:
    """Return a decision. A large one is computed in a thread, so that others are answered meanwhile."""

    def answer() -> Decision:
        return decider.core.decide(decider.question(context, items, arms=arms, exploit=exploit))

    candidates = max(len(part) for part in (arms or (), items or (), decider.arms or ()))
    if size >= LONG or candidates * decider.rows.width >= LARGE:
        return await decided(answer)
    return await hosted.batcher.decide(decider.core, decider.question(context, items, arms=arms, exploit=exploit))


async def record(
    hosted: DecidingBandit,
    made: Decision,
    context: Any,
    items: Mapping[str, Any] | None,
    decider: RawDecider,
    *,
    id: str | None,
    key: str | None = None,
    metadata: Any = None,
    active: bool = True,
    size: int = 0,
) -> Any:
    """Write a decision down, and return it when it is on disk; a taken id gives its first decision."""
    log, input = hosted.log, DecisionInput(None, None, context, items, _encode)  # type: ignore[arg-type]
    try:
        new = NewDecision(made, input, id, checked_attributes(key, metadata, active))
        transaction = insert(log, new, decider) if size < LONG else await decided(lambda: insert(log, new, decider))
        recorded = transaction.finish(await log.store.awrite(transaction.work))
    except TakenIdError:
        return await asyncio.to_thread(log.get, id)  # type: ignore[arg-type]
    except StoreUnavailableError:
        return unrecorded(made, id, metadata)
    return RecordedDecision(recorded, made.arm, made.propensity, made.arms, made.propensities, metadata, made.group)
