"""What a service returns, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True)
class ServedDecision:
    """A decision of a service.

    Parameters
    ----------
    id
        By which its reward is given.
    arm
        The name of what was chosen.
    propensity
        The probability with which it was chosen; in a slate, that of being first.
    arms
        What could be chosen; in a slate, what is shown.
    propensities
        Of each of them.
    """

    id: str
    arm: str
    propensity: float
    arms: tuple[str, ...]
    propensities: tuple[float, ...]


@dataclass(frozen=True)
class ServedSlate:
    """A ranking that is shown: a decision per position, the first position first.

    Parameters
    ----------
    id
        By which the rewards of its positions are given, such as ``{2: 1.0}``.
    decisions
        One per position.
    """

    id: str
    decisions: tuple[ServedDecision, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """What is shown, in order."""
        return tuple(decision.arm for decision in self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[ServedDecision]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> ServedDecision:
        return self.decisions[place]


class Estimate(NamedTuple):
    """A value and its 95% interval; None where there is too little data."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ServedEvaluation:
    """What a log says about a policy; see docs/production.md.

    Parameters
    ----------
    policy
        Which.
    decisions, effective_decisions
        How many there were, and how many the estimates are worth.
    logged
        What was earned.
    ips, snips, dr
        What the policy would have earned, by three estimators.
    gain
        By how much that is more than what was earned.
    warnings
        What makes the estimates unreliable.
    """

    policy: str
    decisions: int
    effective_decisions: float | None
    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    warnings: tuple[str, ...]
