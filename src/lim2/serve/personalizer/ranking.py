"""Rank, reward and activate: one action per event."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lim2.decision import Decision
from lim2.serve.bandits import PERSONALIZER, DecidingBandit
from lim2.serve.deciding import RecordedDecision, choose, decide, record
from lim2.serve.errors import ApiError, bad_request, refusals, shortened
from lim2.serve.operations import Call, Reply
from lim2.serve.personalizer.features import merged, of_action
from lim2.serve.personalizer.wire import CONTROL, RankableAction, RankedAction, RankRequest, RankResponse

REQUEST_ID = b"x-ms-client-request-id"  # by which a client's retries are known
EXCLUDED = "excluded"  # the key of a decision's metadata: places and ids of what could not be chosen
MODEL = "model"  # another one: what the model would have chosen, while the application chooses
_PROBABILITY = operator.attrgetter("probability")


async def bandit_of(call: Call) -> DecidingBandit:
    """Return the bandit behind the endpoints."""
    service = call.service
    return await service.bandits.get(PERSONALIZER) if service.bandits.started else service.personalizer


async def rank(call: Call) -> RankResponse:
    """Choose an action, and write the decision down; the same event id again gets the same answer."""
    request: RankRequest = call.body
    hosted = await bandit_of(call)
    items, excluded = candidates(request.actions, request.excluded_actions or ())
    context, active = merged(request.context_features), not request.defer_activation
    event = checked_event(request.event_id)
    metadata = {EXCLUDED: excluded} if excluded else None
    own = hosted.stored.personalizer
    if own is None or own.learning_mode == "Online":
        made = await decide(hosted, context, items, None, id=event, metadata=metadata, active=active, size=call.size)
    else:
        made = await apprentice(hosted, context, items, event, metadata or {}, active, call.size)
    if isinstance(made, RecordedDecision):  # not one that was made before
        call.service.metrics.decided(hosted.name, made)
    return response(made)


async def apprentice(
    hosted: DecidingBandit,
    context: Any,
    items: dict[str, Any],
    event: str | None,
    metadata: dict[str, Any],
    active: bool,
    size: int = 0,
) -> Any:
    """Return the application's own choice, the first action, written down beside what the model would have chosen."""
    with refusals("a decision"):
        decider = hosted.decider
        best = await choose(hosted, decider, context, items, exploit=True, size=size)
        return await record(
            hosted,
            chosen_by_application(best), context, items, decider, id=event,
            metadata={**metadata, MODEL: best.arm}, active=active, size=size,
        )  # fmt: skip


def chosen_by_application(best: Decision) -> Decision:
    """Return the decision for the first candidate, made with certainty."""
    certain = np.zeros(len(best.arms))
    certain[0] = 1.0
    return Decision(best.arms[0], 1.0, best.arms, best.means, best.stds, certain)


def candidates(
    actions: Sequence[RankableAction], excluded: Sequence[str]
) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """Return the features of the actions that may be chosen, and the places and ids of the others."""
    out, items, seen = set(excluded), dict[str, Any](), set[str]()
    left: list[tuple[int, str]] = []
    for place, action in enumerate(actions):
        if action.id in seen:
            message = f"the ids of actions must be unique, {shortened(action.id)} comes twice"
            raise bad_request(message, "actions", "InvalidRankRequest")
        seen.add(action.id)
        if action.id in out:
            left.append((place, action.id))
        else:
            items[action.id] = of_action(action.id, action.features)
    if not items:
        raise bad_request("all actions are excluded: leave at least one", "excludedActions", "InvalidRankRequest")
    return items, left


def checked_event(event: str | None) -> str | None:
    """Return the id of an event, None if the service should make one; an ApiError if it cannot be used."""
    if not event:
        return None
    if len(event) > 256 or CONTROL.search(event):
        message = "an event id has at most 256 characters, and no control characters"
        raise bad_request(message, "eventId", "InvalidRankRequest")
    return event


def response(made: Any) -> RankResponse:
    """Return the answer to a rank: what was chosen first, then by probability; excluded actions in their places."""
    ranking = list(map(RankedAction, made.arms, np.minimum(made.propensities, 1.0).tolist()))
    chosen = ranking.pop(made.arms.index(made.arm))
    ranking.sort(key=_PROBABILITY, reverse=True)
    ranking.insert(0, chosen)
    for place, name in (made.metadata or {}).get(EXCLUDED, ()):
        ranking.insert(place, RankedAction(name, 0.0))
    return RankResponse(ranking, made.id, made.arm)


async def reward(call: Call) -> Reply:
    """Write down what an event has earned. A late reward is written down, and not learned."""
    hosted, value = await bandit_of(call), call.body.value
    event = event_of(call, "InvalidRewardRequest")
    with refusals("a reward"):
        status = await hosted.log.areward(event, value, name=name_of(call))
    call.service.metrics.rewarded(hosted.name, status, value)
    hosted.tell()
    return Reply(status=204)


async def activate(call: Call) -> Reply:
    """Note that the action of a deferred event was shown, so that its reward counts."""
    hosted = await bandit_of(call)
    with refusals("an activation"):
        await hosted.log.aactivate(event_of(call, "InvalidEventIdToActivate"))
    hosted.tell()
    return Reply(status=204)


def name_of(call: Call) -> str | None:
    """Return the name of the reward that a request gives, by which a retry of it is known; None if it has none."""
    name = call.headers.get(REQUEST_ID)
    return None if name is None else name.decode("latin-1")[:250]  # the number of a slot may follow


def event_of(call: Call, code: str) -> str:
    """Return the event id of a path."""
    try:
        event = checked_event(call.path["event"])
    except ApiError as error:
        raise bad_request(error.message, "eventId", code) from error
    if event is None:
        raise bad_request("the path has no event id: /events/{eventId}/...", "eventId", code)
    return event
