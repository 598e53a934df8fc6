"""``lim2.Bandit``, the main entry point: raw contexts, arms or items, decisions with IDs."""

from lim2.bandit.bandit import Bandit
from lim2.bandit.deciding import RawDecider, RawDecision
from lim2.bandit.explaining import Reason

__all__ = ["Bandit", "RawDecider", "RawDecision", "Reason"]
