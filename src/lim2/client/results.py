"""Results of a service, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True)
class ServedDecision:
    """A decision made by a service.

    Parameters
    ----------
    arm
        Name of the chosen arm or item.
    propensity
        Probability of choosing it; in a slate, the probability that it comes first.
    arms
        The eligible arms or items; in a slate, those in the slate.
    group
        ``"control"`` if the rule of the control group decided, ``"bandit"`` if not; None without a control, and in a
        slate.
    """

    id: str
    arm: str
    propensity: float
    arms: tuple[str, ...]
    propensities: tuple[float, ...]
    group: str | None = None


@dataclass(frozen=True)
class ServedSlate:
    """A ranking: one decision per position, in order.

    Parameters
    ----------
    id
        It gives rewards by position, such as ``reward(id, {2: 1.0})``.
    """

    id: str
    decisions: tuple[ServedDecision, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms or items, in order of position."""
        return tuple(decision.arm for decision in self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[ServedDecision]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> ServedDecision:
        return self.decisions[place]


class Estimate(NamedTuple):
    """An estimate and its 95% interval; None if there is too little data."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ServedEvaluation:
    """Off-policy evaluation of a policy; see :func:`lim2.evaluate`.

    Parameters
    ----------
    left_out
        Number of latest decisions that are excluded until their rewards are final.
    effective_decisions
        Effective sample size; None if it is unknown.
    ips, snips, dr
        Estimated mean reward of the policy, by three estimators, as in :class:`lim2.evaluation.Evaluation`.
    gain
        Estimated mean reward of the policy minus that of the logged decisions.
    warnings
        Reasons why the estimates may be unreliable.
    """

    policy: str
    decisions: int
    left_out: int
    effective_decisions: float | None
    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    warnings: tuple[str, ...]
