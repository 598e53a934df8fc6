"""Logged decisions, the newest of them, for the page and for evaluations."""

from lim2.log import LoggedDecision
from lim2.serve.stopgap import Log


def recent(log: Log, last: int) -> list[LoggedDecision]:
    """Return the newest decisions in the order in which they were made, without the later positions of slates.

    Parameters
    ----------
    log
        Where they are.
    last
        How many.
    """
    from lim2.serve import stopgap

    return stopgap.recent(log, last)


def span(log: Log) -> tuple[float, float] | None:
    """Return when the oldest and the newest decision were made; None if there are none.

    Parameters
    ----------
    log
        Where they are.
    """
    newest = recent(log, 1000)  # a slate has as many positions, at most
    if not newest:
        return None
    oldest = next(iter(entries(log.store, "all")))
    return oldest.time, newest[-1].time
