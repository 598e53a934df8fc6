"""Durable log of decisions and rewards, for late rewards, restarts, replay and evaluation."""

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
from lim2.log.open_bandit import OpenBandit, read_open_bandit
from lim2.log.proof import CurvePoint, Proof
from lim2.log.store import Lease, Model
from lim2.log.table import Table

__all__ = [
    "Candidates",
    "ConflictingRewardError",
    "CurvePoint",
    "DecisionLog",
    "Lease",
    "LogError",
    "LogFileError",
    "LoggedDecision",
    "LostLeaseError",
    "Model",
    "OpenBandit",
    "Proof",
    "PrunedLogError",
    "StoreUnavailableError",
    "Table",
    "TakenIdError",
    "UnknownDecisionError",
    "read_open_bandit",
]
