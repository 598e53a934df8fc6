"""Several slots per event: each gets an action of its own, chosen one after another."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from lim2.log import DecisionLog, LoggedDecision, StoreUnavailableError, TakenIdError, UnknownDecisionError
from lim2.log.decisions import record_many
from lim2.log.ids import new_id
from lim2.log.transactions import Transaction
from lim2.serve.background import written
from lim2.serve.bandits import DecidingBandit
from lim2.serve.errors import ApiError, bad_request, not_found, refusals, shortened
from lim2.serve.operations import Call, Reply
from lim2.serve.personalizer.features import merged, of_action
from lim2.serve.personalizer.ranking import (
    bandit_of,
    candidates,
    checked_event,
    chosen_by_application,
    event_of,
    name_of,
)
from lim2.serve.personalizer.wire import MultiSlotRankRequest, MultiSlotRankResponse, SlotRequest, SlotResponse

MARK = "\x1f"  # between an event and the number of a slot: no event id of a client has it
SLOT, SLOTS = "slot", "slots"  # keys of a decision's metadata: its slot, and all slots of the event


async def rank(call: Call) -> MultiSlotRankResponse:
    """Choose an action for each slot, and write the decisions down; the same event id again gets the same answer."""
    request: MultiSlotRankRequest = call.body
    hosted = await bandit_of(call)
    items = candidates(request.actions, ())[0]
    check_slots(request.slots, items)
    event = checked_event(request.event_id) or new_id(time.time())
    shown: list[SlotResponse] = []
    with refusals("a decision"):
        try:
            work = partial(_decide, hosted, hosted.log, request, items, event, shown)
            known: list[Any] = await written(hosted.log, work)
            for one in known:
                call.service.metrics.decided(hosted.name, one)
        except TakenIdError:
            known = await asyncio.to_thread(_logged, hosted, event)
        except StoreUnavailableError:  # decisions go on; these have no reward
            return MultiSlotRankResponse(shown, event)
    return MultiSlotRankResponse([SlotResponse(one.metadata[SLOT], str(one.arm)) for one in known], event)


def _decide(
    hosted: DecidingBandit,
    log: DecisionLog,
    request: MultiSlotRankRequest,
    items: dict[str, Any],
    event: str,
    shown: list[SlotResponse],
) -> Transaction[list[LoggedDecision]]:
    context, slots = merged(request.context_features), request.slots
    own, decider = hosted.stored.personalizer, hosted.decider
    online = own is None or own.learning_mode == "Online"
    taken: set[str] = set()
    chosen: list[tuple[Any, ...]] = []
    for number, slot in enumerate(slots):
        free = {name: items[name] for name in eligible(slots[number:], items, taken)}
        about = {**context, "slot": of_action(slot.id, slot.features)}
        made: Any = decider.decide(about, free, exploit=not online)
        if not online:
            made = chosen_by_application(made)
        taken.add(made.arm)
        metadata: dict[str, Any] = {SLOT: slot.id} | ({SLOTS: [one.id for one in slots]} if number == 0 else {})
        shown.append(SlotResponse(slot.id, str(made.arm)))
        chosen.append((made, about, free, row_of(event, number), metadata))
    decisions, contexts, candidates_of, ids, kept = zip(*chosen, strict=True)
    return record_many(
        log, decisions, raw=contexts, raw_items=candidates_of, ids=ids, metadata=kept,
        active=not request.defer_activation, agent=decider,
    )  # fmt: skip


def eligible(slots: Sequence[SlotRequest], items: Sequence[str] | dict[str, Any], taken: set[str]) -> list[str]:
    """Return the actions that the first of some slots may get, its baseline first, so that the others get one, too.

    Examples
    --------
    >>> top, side = SlotRequest("top", "a"), SlotRequest("side", "b", excluded_actions=["a", "c"])
    >>> eligible([top, side], ["a", "b", "c"], set())
    ['a', 'c']
    """
    first, *rest = slots
    may = [[name for name in items if name not in taken and name not in (slot.excluded_actions or ())] for slot in rest]
    matched: dict[str, int] = {}
    for number in range(len(rest)):
        _augment(number, may, matched, set())
    own = [name for name in items if name not in taken and name not in (first.excluded_actions or ())]
    own = [name for name in own if name not in matched or _spare(name, may, matched)]
    return sorted(own, key=lambda name: name != first.baseline_action)


def _spare(name: str, may: list[list[str]], matched: dict[str, int]) -> bool:
    """Return whether all slots can be filled without an action."""
    others = {other: slot for other, slot in matched.items() if other != name}
    return _augment(matched[name], may, others, {name})


def _augment(slot: int, may: list[list[str]], matched: dict[str, int], tried: set[str]) -> bool:
    """Give a slot an action, and other actions to other slots where that is needed; return whether it works."""
    for name in may[slot]:
        if name not in matched and name not in tried:
            matched[name] = slot
            return True
    for name in may[slot]:
        if name not in tried:
            tried.add(name)
            if _augment(matched[name], may, matched, tried):
                matched[name] = slot
                return True
    return False


def check_slots(slots: Sequence[SlotRequest], items: dict[str, Any]) -> None:
    """Refuse slots that cannot be filled, or whose baselines are not right."""
    wrong = None
    baselines = [slot.baseline_action for slot in slots]
    if len({slot.id for slot in slots}) < len(slots):
        wrong = "the ids of slots must be unique"
    elif len(set(baselines)) < len(slots):
        wrong = "each slot must have a baselineAction of its own"
    for slot in slots:
        if slot.baseline_action not in items:
            wrong = f"the baselineAction of slot {shortened(slot.id)} is not among the actions"
        elif slot.baseline_action in (slot.excluded_actions or ()):
            wrong = f"the baselineAction of slot {shortened(slot.id)} is excluded there"
    if wrong:
        raise bad_request(wrong, "slots", "InvalidRankRequest")


async def reward(call: Call) -> Reply:
    """Write down what slots of an event have earned: of all that are given, or of none."""
    hosted, given = await bandit_of(call), call.body.reward
    event = event_of(call, "InvalidRewardRequest")
    known = await asyncio.to_thread(_logged, hosted, event)
    numbers = {one.metadata[SLOT]: number for number, one in enumerate(known)}
    unknown = [one.slot_id for one in given if one.slot_id not in numbers]
    if unknown:
        raise bad_request(f"the event has no slot {shortened(unknown[0])}", "slotId", "InvalidRewardRequest")
    named = name_of(call)
    rewards = [
        (row_of(event, numbers[one.slot_id]), one.value, None if named is None else f"{named} {place}")
        for place, one in enumerate(given)
    ]
    with refusals("a reward"):
        statuses = await hosted.log.areward_many(rewards)
    for one, status in zip(given, statuses, strict=True):
        call.service.metrics.rewarded(hosted.name, status, one.value)
    hosted.tell()
    return Reply(status=204)


async def activate(call: Call) -> Reply:
    """Note that the actions of a deferred event were shown."""
    hosted = await bandit_of(call)
    event = event_of(call, "InvalidEventIdToActivate")
    with refusals("an activation"):
        known = await asyncio.to_thread(_logged, hosted, event)
        await asyncio.gather(*(hosted.log.aactivate(one.id) for one in known))
    hosted.tell()
    return Reply(status=204)


def logged_slots(hosted: DecidingBandit, event: str) -> list[Any] | None:
    """Return the decisions of an event, in the order of its slots; None if it is not there."""
    try:
        first = hosted.log.get(row_of(event, 0))
    except UnknownDecisionError:
        return None
    slots = (first.metadata or {})[SLOTS]
    return [first, *(hosted.log.get(row_of(event, number)) for number in range(1, len(slots)))]


def _logged(hosted: DecidingBandit, event: str) -> list[Any]:
    try:
        known = logged_slots(hosted, event)
    except UnknownDecisionError as error:
        raise ApiError(404, "ResourceNotFound", str(error)) from error
    if known is None:
        raise not_found(f"there is no multi-slot event {shortened(event)}")
    return known


def row_of(event: str, number: int) -> str:
    """Return the id under which a slot's decision is logged."""
    return f"{event}{MARK}{number + 1}"
