"""Logged decisions, the newest of them, for the page and for evaluations."""

from collections.abc import Sequence
from typing import NamedTuple

from lim2.log import DecisionLog, LoggedDecision
from lim2.log.reading import newest

MOST = 300_000  # weights of decisions in memory at once, about 100 bytes each


class Recent(NamedTuple):
    """The newest decisions in the order in which they were made, without the later positions of slates."""

    decisions: list[LoggedDecision]
    limited: bool  # whether there was no memory for all that were asked for


def recent(log: DecisionLog, last: int, *, features: bool = False, most: int | None = None) -> Recent:
    """Return up to ``last`` of the newest decisions; fewer if they have many candidates."""
    return Recent(*newest(log.store, last, MOST if most is None else most, features=features))


def complete(decisions: Sequence[LoggedDecision], default_reward: float | None) -> Sequence[LoggedDecision]:
    """Return the decisions before the first one that still waits, where a default reward stands in for missing ones.

    Later ones are a biased sample: a click that has come is known, one that will not come is not.
    """
    if default_reward is None:
        return decisions
    first = next((at for at, one in enumerate(decisions) if one.status == "pending"), len(decisions))
    return decisions[:first]


def only(count: int) -> str:
    """Return what to say when only some of the decisions that were asked for fit in memory."""
    return f"only the newest {count} decisions were used: more do not fit in memory, since they have many candidates"


def too_few(count: int) -> str:
    """Return what to say when too few rewards are known for an evaluation."""
    return (
        f"at least 4 decisions whose rewards are known are needed, there are {count}; a decision that still waits for "
        f"its reward does not count, nor do those after it, until it is there or the wait is over"
    )
