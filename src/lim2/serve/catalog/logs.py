"""Logs with the settings of a bandit's description."""

from pathlib import Path

from lim2.log import DecisionLog
from lim2.serve.spec import Stored


def new_log(address: Path | str, stored: Stored, synchronous: str) -> DecisionLog:
    """Return a new log.

    Parameters
    ----------
    address
        As :class:`lim2.DecisionLog` takes it.
    stored
        The description.
    synchronous
        As :class:`lim2.DecisionLog` takes it.
    """
    own = stored.spec
    return DecisionLog(
        address,
        expire_after=own.expire_after,
        default_reward=own.default_reward,
        aggregate=own.aggregate,
        keep=None,  # who learns deletes what is too old
        synchronous=synchronous,
    )
