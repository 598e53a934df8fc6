"""Decisions and their rewards, kept in a file: late rewards, restarts, replay, and what evaluation needs."""

from lim2.log.candidates import Candidates
from lim2.log.decision_log import DecisionLog
from lim2.log.entries import LoggedDecision
from lim2.log.errors import (
    ConflictingRewardError,
    LogError,
    LogFileError,
    PrunedLogError,
    TakenIdError,
    UnknownDecisionError,
)
from lim2.log.open_bandit import OpenBandit, read_open_bandit
from lim2.log.store import Lease, Model
from lim2.log.table import Table

__all__ = [
    "Candidates",
    "ConflictingRewardError",
    "DecisionLog",
    "Lease",
    "LogError",
    "LogFileError",
    "LoggedDecision",
    "Model",
    "OpenBandit",
    "PrunedLogError",
    "Table",
    "TakenIdError",
    "UnknownDecisionError",
    "read_open_bandit",
]
