"""Durable log of decisions and rewards, for late rewards, restarts, replay and evaluation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lim2.log.candidates import Candidates
from lim2.log.decision_log import DecisionLog
from lim2.log.entries import LoggedDecision
from lim2.log.errors import (
    ConflictingRewardError,
    LogError,
    LogFileError,
    LostLeaseError,
    PrunedLogError,
    StoreUnavailableError,
    TakenIdError,
    UnknownDecisionError,
)
from lim2.log.store import Lease, Model
from lim2.log.table import Table

if TYPE_CHECKING:
    from lim2.log.open_bandit import OpenBandit, read_open_bandit

__all__ = [
    "Candidates",
    "ConflictingRewardError",
    "DecisionLog",
    "Lease",
    "LogError",
    "LogFileError",
    "LoggedDecision",
    "LostLeaseError",
    "Model",
    "OpenBandit",
    "PrunedLogError",
    "StoreUnavailableError",
    "Table",
    "TakenIdError",
    "UnknownDecisionError",
    "read_open_bandit",
]

_LATER = ("OpenBandit", "read_open_bandit")  # imported when first used: it brings all of lim2.problems


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("lim2.log.open_bandit"), name)
