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
