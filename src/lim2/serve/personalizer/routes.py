"""Which paths Personalizer's versions have, and what each does."""

from dataclasses import dataclass
from typing import Any

from lim2.serve.bandits import PERSONALIZER
from lim2.serve.errors import ApiError
from lim2.serve.operations import SMALL, Call, Handler, Operation
from lim2.serve.personalizer import multislot, ranking, wire

BANDIT = f"/v1/bandits/{PERSONALIZER}"


@dataclass(frozen=True)
class Dialect:
    """A published version of the protocol."""

    name: str
    prefix: str


V1_0 = Dialect("v1.0", "/personalizer/v1.0")
V1_1 = Dialect("v1.1-preview.3", "/personalizer/v1.1-preview.3")
V2022 = Dialect("2022-09-01-preview", "/personalizer")
DIALECTS = (V1_0, V1_1, V2022)  # the prefix of the last one is the start of the others

# The error code of a wrong request with such a body; "BadRequest" for the others.
INVALID: dict[Any, str] = {
    wire.RankRequest: "InvalidRankRequest",
    wire.RewardRequest: "InvalidRewardRequest",
    wire.MultiSlotRankRequest: "InvalidRankRequest",
    wire.MultiSlotRewardRequest: "InvalidRewardRequest",
}

# Administration of the original service, and the native call that does the same.
GONE = {
    "GET /configurations/service": f"GET {BANDIT}",
    "PUT /configurations/service": f"PATCH {BANDIT}",
    "GET /configurations/policy": f"GET {BANDIT}",
    "PUT /configurations/policy": f"PATCH {BANDIT} with algorithm",
    "DELETE /configurations/policy": f"PATCH {BANDIT} with algorithm",
    "POST /configurations/applyFromEvaluation": f"PATCH {BANDIT} with algorithm",
    "GET /model": f"GET {BANDIT}/snapshot",
    "PUT /model": f"PUT {BANDIT}/snapshot",
    "DELETE /model": f"DELETE {BANDIT}, which deletes its log, too",
    "GET /model/properties": f"GET {BANDIT}",
    "GET /logs/properties": f"GET {BANDIT}/overview",
    "DELETE /logs": f"DELETE {BANDIT}",
    "POST /logs/interactions": f"POST {BANDIT}/decide",
    "POST /logs/observations": f"POST {BANDIT}/reward",
    "GET /evaluations": f"POST {BANDIT}/evaluate",
    "POST /evaluations": f"POST {BANDIT}/evaluate",
    "PUT /evaluations/{id:path}": f"POST {BANDIT}/evaluate",
    "GET /evaluations/{id:path}": f"POST {BANDIT}/evaluate",
    "DELETE /evaluations/{id:path}": f"POST {BANDIT}/evaluate",
    "GET /featureImportances": f"GET {BANDIT}/overview",
    "PUT /featureImportances/{id:path}": f"GET {BANDIT}/overview",
    "GET /featureImportances/{id:path}": f"GET {BANDIT}/overview",
    "DELETE /featureImportances/{id:path}": f"GET {BANDIT}/overview",
}


def operations(dialect: Dialect) -> list[Operation]:
    """Return what a version of the protocol offers.

    Examples
    --------
    >>> operations(V1_0)[0].path
    '/personalizer/v1.0/rank'
    """
    offered: list[Operation] = []

    def add(name: str, path: str, handler: Handler, summary: str, status: int = 204, **rest: Any) -> None:
        offered.append(
            Operation(
                name=f"{dialect.name}.{name}", method="POST", path=dialect.prefix + path, handler=handler,
                summary=summary, status=status, tag=f"Personalizer {dialect.name}", plain_codes=dialect is V1_0,
                version=dialect.name if dialect is V2022 else None, roles=("decide",), bandit=PERSONALIZER,
                invalid=INVALID.get(rest.get("body"), "BadRequest"), **rest,
            )
        )  # fmt: skip

    add("rank", "/rank", ranking.rank, "Choose an action for a context.", 201,
        body=wire.RankRequest, answer=wire.RankResponse)  # fmt: skip
    add("reward", "/events/{event:path}/reward", ranking.reward, "Report the reward of an event.",
        body=wire.RewardRequest, most=SMALL)  # fmt: skip
    add("activate", "/events/{event:path}/activate", ranking.activate,
        "Report that the action of a deferred event was shown.")  # fmt: skip
    if dialect is not V1_0:
        add("multislot.rank", "/multislot/rank", multislot.rank, "Choose an action for each slot.", 201,
            body=wire.MultiSlotRankRequest, answer=wire.MultiSlotRankResponse)  # fmt: skip
        add("multislot.reward", "/multislot/events/{event:path}/reward", multislot.reward,
            "Report the rewards of slots of an event.", body=wire.MultiSlotRewardRequest)  # fmt: skip
        add("multislot.activate", "/multislot/events/{event:path}/activate", multislot.activate,
            "Report that the actions of a deferred event were shown.")  # fmt: skip
    return offered


def removed(dialect: Dialect) -> list[Operation]:
    """Return the calls of a version that answer 410 with the native call to use instead."""
    return [_removed(dialect, route, native) for route, native in GONE.items()]


def _removed(dialect: Dialect, route: str, native: str) -> Operation:
    method, path = route.split(" ")
    message = f"this call was removed: use {native}; see docs/guides/from-personalizer.md"

    async def handler(_: Call) -> None:
        raise ApiError(410, "OperationNotAllowed", message)

    return Operation(
        name=f"{dialect.name}.removed", method=method, path=dialect.prefix + path, handler=handler, summary=message,
        tag=f"Personalizer {dialect.name}", plain_codes=dialect is V1_0, roles=("decide", "read"),
    )  # fmt: skip
