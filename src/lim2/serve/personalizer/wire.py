"""What Personalizer's clients send and receive, named as they name it."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

Id = Annotated[str, Meta(min_length=1, max_length=256)]
EventId = Annotated[str, Meta(max_length=256)]
Reward = Annotated[float, Meta(ge=-1, le=1)]
Features = list[dict[str, Any]]
MOST = 50  # actions, and slots
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # characters that no event id has; slots are marked by one


class RankableAction(msgspec.Struct, rename="camel"):
    """An action and its features."""

    id: Id
    features: Features | None = None


class RankRequest(msgspec.Struct, rename="camel"):
    """A request to choose one of the actions."""

    actions: Annotated[list[RankableAction], Meta(min_length=1, max_length=MOST)]
    context_features: Features | None = None
    excluded_actions: list[str] | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class RankedAction(msgspec.Struct, rename="camel"):
    """An action and the probability with which it was chosen."""

    id: str
    probability: float


class RankResponse(msgspec.Struct, rename="camel"):
    """The action to show, and the probabilities of all actions."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardRequest(msgspec.Struct):
    """The reward of an event."""

    value: Reward


class SlotRequest(msgspec.Struct, rename="camel"):
    """A slot, and the action that the application itself would show in it."""

    id: Id
    baseline_action: Id
    features: Features | None = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(msgspec.Struct, rename="camel"):
    """A request to choose an action for each slot."""

    actions: Annotated[list[RankableAction], Meta(min_length=1, max_length=MOST)]
    slots: Annotated[list[SlotRequest], Meta(min_length=1, max_length=MOST)]
    context_features: Features | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class SlotResponse(msgspec.Struct, rename="camel"):
    """The action to show in a slot."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(msgspec.Struct, rename="camel"):
    """The actions to show."""

    slots: list[SlotResponse]
    event_id: str


class SlotReward(msgspec.Struct, rename="camel"):
    """The reward of a slot."""

    slot_id: Id
    value: Reward


class MultiSlotRewardRequest(msgspec.Struct, rename="camel"):
    """The rewards of the slots of an event."""

    reward: Annotated[list[SlotReward], Meta(min_length=1, max_length=MOST)]
