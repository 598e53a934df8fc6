"""Logged decisions, the newest of them, for the page and for evaluations."""

from lim2.log import DecisionLog, LoggedDecision
from lim2.log.reading import entries


def recent(log: DecisionLog, last: int) -> list[LoggedDecision]:
    """Return the newest decisions in the order in which they were made, without the later positions of slates.

    Parameters
    ----------
    log
        Where they are.
    last
        How many.
    """
    newest = log.store.look(lambda tables: tables.newest())
    return list(entries(log.store, "all", max(newest - last, 0)))


def span(log: DecisionLog) -> tuple[float, float] | None:
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
