"""Decisions and their rewards, kept in a file: late rewards, restarts, replay, and what evaluation needs."""

from lim2.log.candidates import Candidates
from lim2.log.decision_log import DecisionLog
from lim2.log.entries import LoggedDecision
from lim2.log.errors import ConflictingRewardError, LogError, LogFileError, PrunedLogError, UnknownDecisionError
from lim2.log.open_bandit import OpenBandit, read_open_bandit
from lim2.log.table import Table

__all__ = [
    "Candidates",
    "ConflictingRewardError",
    "DecisionLog",
    "LogError",
    "LogFileError",
    "LoggedDecision",
    "OpenBandit",
    "PrunedLogError",
    "Table",
    "UnknownDecisionError",
    "read_open_bandit",
]
