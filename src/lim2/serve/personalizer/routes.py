"""Which paths Personalizer's dialects have, and what each does."""

from dataclasses import dataclass
from typing import Any

from lim2.serve.operations import Handler, Operation
from lim2.serve.personalizer import ranking, wire


@dataclass(frozen=True)
class Dialect:
    """A published version of the protocol.

    Parameters
    ----------
    name
        Of the version.
    prefix
        Of its paths.
    """

    name: str
    prefix: str


V1_0 = Dialect("v1.0", "/personalizer/v1.0")
V1_1 = Dialect("v1.1-preview.3", "/personalizer/v1.1-preview.3")
V2022 = Dialect("2022-09-01-preview", "/personalizer")
DIALECTS = (V1_0, V1_1, V2022)  # the prefix of the last one is the start of the others


def operations(dialect: Dialect) -> list[Operation]:
    """Return what a dialect offers.

    Parameters
    ----------
    dialect
        The version of the protocol.
    """
    made: list[Operation] = []

    def add(name: str, method: str, path: str, handler: Handler, summary: str, **rest: Any) -> None:
        made.append(
            Operation(
                name=f"{dialect.name}.{name}", method=method, path=dialect.prefix + path, handler=handler,
                summary=summary, tag=f"Personalizer {dialect.name}", plain_codes=dialect is V1_0, **rest,
            )
        )  # fmt: skip

    add("rank", "POST", "/rank", ranking.rank, "Choose an action for a context.",
        body=wire.RankRequest, answer=wire.RankResponse, status=201)  # fmt: skip
    add("reward", "POST", "/events/{event:path}/reward", ranking.reward, "Report what an event has earned.",
        body=wire.RewardRequest, status=204)  # fmt: skip
    add("activate", "POST", "/events/{event:path}/activate", ranking.activate,
        "Report that the action of a deferred event was shown.", status=204)  # fmt: skip
    return made
