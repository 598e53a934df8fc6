"""A control group: a rule decides for a share of the traffic, by chance, and every propensity stays exact.

With the bandit's propensities p and the rule's probabilities g, an arm is chosen with probability
share g + (1 - share) p. That is what is logged, so evaluations and proofs use all decisions of both groups.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lim2.decision import Assignment, Decision
from lim2.log.rules import ALWAYS, Rule, rule_of

D = TypeVar("D", bound=Decision)
Chance = Callable[[], float]  # draws a number from 0 to 1

by_chance: Chance = random.SystemRandom().random


@dataclass(frozen=True)
class Control:
    """A control group: a rule that decides for a share of the traffic, drawn for each decision.

    Parameters
    ----------
    rule
        ``"always:ARM"`` or the name of an arm, ``"uniform"``, or ``"first"``, the first candidate. If its arm is not
        eligible in a decision, the bandit decides.
    share
        Share of the decisions, from 0 to 1. With 1 the rule decides always, and the log says what the bandit would have
        chosen: begin with that, and lower the share step by step.

    Examples
    --------
    >>> import lim2
    >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0, control=lim2.Control("spring", share=1.0))
    >>> decision = bandit.decide({"country": "AT"})
    >>> decision.arm, decision.group, decision.propensity
    ('spring', 'control', 1.0)
    """

    rule: str
    share: float = 0.1

    def __post_init__(self) -> None:
        rule = rule_of(self.rule)
        if not isinstance(rule, Rule):
            raise ValueError(f"the rule of a control must be an arm, 'always:ARM', 'uniform' or 'first', got {rule!r}")
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 <= self.share <= 1:
            raise ValueError(f"the share of a control must be from 0 to 1, got {self.share!r}")
        object.__setattr__(self, "rule", rule.name)
        object.__setattr__(self, "share", float(self.share))

    def check_arms(self, arms: Iterable[Hashable] | None) -> None:
        """Raise a ValueError if the rule's arm is not one of a bandit's arms; None stands for items."""
        rule = rule_of(self.rule)
        if rule.kind == ALWAYS and arms is not None and rule.chances(tuple(arms)) is None:
            raise ValueError(f"the control's rule {self.rule!r} must name one of the arms {list(arms)!r}")

    def applied(self, decisions: Sequence[D], chance: Chance = by_chance) -> list[D]:
        """Return a decision, or the positions of a ranking, under this control.

        In a ranking the rule's arm comes first in the control group, and the others follow in the bandit's order.

        Parameters
        ----------
        decisions
            What the bandit has chosen: one decision, or one per position.
        chance
            Function that draws a number from 0 to 1.
        """
        first = decisions[0]
        rule = rule_of(self.rule)
        chances = rule.chances(first.arms)
        if chances is None:
            return list(decisions)
        group, arms = "bandit", [one.arm for one in decisions]
        if chance() < self.share:
            group, place = "control", int((chances.cumsum() <= chance()).sum())
            arm = first.arms[min(place, int(np.flatnonzero(chances)[-1]))]  # rounding may leave a sum below 1
            arms = [arm, *(other for other in arms if other != arm)][: len(arms)]
        propensities = self.share * chances + (1 - self.share) * first.propensities
        return [
            dataclasses.replace(
                one,
                arm=arm,
                propensity=float(propensities[one.arms.index(arm)]),
                propensities=propensities,
                control=Assignment(group, self.share, rule.name, one.arms.index(one.arm), one.propensity),
            )
            for one, arm in zip(decisions, arms, strict=True)
        ]


def controlled(control: Control | None, decisions: Sequence[D], chance: Chance = by_chance) -> list[D]:
    """Return decisions under a control, or as they are without one."""
    return list(decisions) if control is None else control.applied(decisions, chance)
