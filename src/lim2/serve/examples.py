"""Examples for the OpenAPI document, and for the page that tries it: sent one after the other, they work."""

from typing import Any

from lim2.serve import wire
from lim2.serve.operations import Operation
from lim2.serve.personalizer import wire as personalizer
from lim2.serve.spec import BanditSpec

VISIT, PAGE, PERSON = "visit 1", "page 1", "customer 17"
CONTEXT = {"country": "AT", "device": "phone", "basket": {"items": 3, "total": 80.5}}
ACTIONS = [
    {"id": "pasta", "features": [{"taste": "salty", "price": 9.5}]},
    {"id": "ice cream", "features": [{"taste": "sweet", "price": 4}]},
    {"id": "juice", "features": [{"taste": "sweet", "price": 3}]},
]

BODIES: dict[Any, Any] = {
    BanditSpec: {"arms": ["spring", "shoes", "gift card"], "expire_after": 3600, "default_reward": 0},
    wire.SettingsRequest: {"expire_after": 7200},
    wire.DecideRequest: {"id": VISIT, "context": CONTEXT, "key": PERSON},
    wire.DecideManyRequest: {
        "requests": [{"id": "visit 2", "context": CONTEXT}, {"id": "visit 3", "context": {"country": "DE"}}]
    },
    wire.RankRequest: {"id": PAGE, "context": CONTEXT, "k": 2},
    wire.RewardRequest: {"id": VISIT, "reward": 1},
    wire.RewardManyRequest: {"rewards": [{"id": "visit 2", "reward": 0}, {"id": "visit 3", "reward": 1}]},
    wire.ActivateRequest: {"id": VISIT},
    wire.ExplainRequest: {"id": VISIT},
    wire.EvaluateRequest: {"policy": "random", "last": 5000},
    wire.ProofRequest: {"against": "always:spring"},
    wire.EraseRequest: {"key": PERSON},
    wire.ArmRequest: {"name": "books", "like": "shoes"},
    wire.Login: {"key": "your-api-key"},
    personalizer.RankRequest: {
        "eventId": VISIT,
        "contextFeatures": [{"user": {"country": "AT", "age": 31}}, {"device": "phone"}],
        "actions": ACTIONS,
        "excludedActions": ["juice"],
    },
    personalizer.RewardRequest: {"value": 1},
    personalizer.MultiSlotRankRequest: {
        "eventId": PAGE,
        "contextFeatures": [{"device": "phone"}],
        "actions": ACTIONS,
        "slots": [
            {"id": "top", "baselineAction": "pasta", "features": [{"size": "large"}]},
            {"id": "side", "baselineAction": "juice", "excludedActions": ["pasta"]},
        ],
    },
    personalizer.MultiSlotRewardRequest: {"reward": [{"slotId": "top", "value": 1}, {"slotId": "side", "value": 0}]},
}


def in_path(operation: Operation, name: str) -> str:
    """Return an example of a part of an operation's path.

    Examples
    --------
    >>> from lim2.serve.app import all_operations
    >>> operations = {operation.name: operation for operation in all_operations()}
    >>> in_path(operations["decide"], "name"), in_path(operations["v1.1-preview.3.multislot.reward"], "event")
    ('banner', 'page 1')
    """
    if "/multislot/" in operation.path:
        return PAGE
    return {"name": "banner", "arm": "books"}.get(name, VISIT)
