"""Rules that choose without learning: one grammar for proofs, evaluations, controls, HTTP and the command line.

``always:ARM``, ``uniform`` and ``first`` (the first candidate) can be written down: they need nothing but the names of
the eligible arms, so the log keeps what it has computed for them. A function of (context, candidates), an agent or a
bandit can be a rule in Python.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.log.entries import LoggedDecision

Array = NDArray[np.float64]

ALWAYS, UNIFORM, FIRST = "always", "uniform", "first"


class Rule(NamedTuple):
    """A rule that can be written down."""

    kind: str
    arm: str | None = None

    @property
    def name(self) -> str:
        """The rule in the grammar."""
        return self.kind if self.arm is None else f"{self.kind}:{self.arm}"

    def __str__(self) -> str:
        return self.name if self.arm is None else f'"{self.arm}"'

    def chances(self, arms: tuple[Hashable, ...]) -> Array | None:
        """Return the probability of each eligible arm; None if the rule's arm is not one of them.

        Examples
        --------
        >>> Rule("always", "b").chances(("a", "b")), Rule("uniform").chances(("a", "b"))
        (array([0., 1.]), array([0.5, 0.5]))
        """
        if self.kind == UNIFORM:
            return np.full(len(arms), 1 / len(arms))
        place = 0 if self.kind == FIRST else next((at for at, arm in enumerate(arms) if str(arm) == self.arm), None)
        if place is None:
            return None
        chances = np.zeros(len(arms))
        chances[place] = 1.0
        return chances

    def __call__(self, context: Any, candidates: Any) -> Array:  # noqa: ARG002
        """Return the probabilities of candidates, as a function that is a policy does."""
        chances = self.chances(tuple(candidates))
        if chances is None:
            raise ValueError(
                f"the arm {self.arm!r} was not eligible in every decision; one had only {list(candidates)!r}"
            )
        return chances


def written(text: str) -> Rule | None:
    """Return the rule that a text describes, or None if it is not in the grammar.

    Examples
    --------
    >>> written("always:spring"), written("uniform"), written("spring")
    (Rule(kind='always', arm='spring'), Rule(kind='uniform', arm=None), None)
    """
    kind, colon, arm = text.partition(":")
    if kind == ALWAYS and arm:
        return Rule(ALWAYS, arm)
    return Rule(kind) if not colon and kind in (UNIFORM, FIRST) else None


def rule_of(against: Any) -> Rule | Any:
    """Return a rule from the grammar, the name of an arm, a function, an agent or a bandit."""
    if isinstance(against, Rule) or callable(against) or hasattr(against, "propensities"):
        return against
    if isinstance(against, str):
        return written(against) or Rule(ALWAYS, against)
    if isinstance(against, Hashable) and against is not None:
        return Rule(ALWAYS, str(against))
    raise ValueError(
        f"a rule must be an arm, 'always:ARM', 'uniform', 'first', a function or an agent, got {against!r}"
    )


def chances_of(rule: Any, decision: LoggedDecision) -> Array | None:
    """Return the probabilities with which a rule chooses each eligible arm of a decision; None if it cannot choose."""
    if isinstance(rule, Rule):
        return rule.chances(decision.arms)
    if hasattr(rule, "propensities"):
        return checked_chances(_propensities(rule, decision), decision.arms)
    candidates: Any = decision.arms if decision.items is None else _items(decision)
    return checked_chances(as_probabilities(rule(decision.context, candidates), decision.arms), decision.arms)


def _items(decision: LoggedDecision) -> dict[Hashable, Any]:
    items = decision.items
    return items if isinstance(items, dict) else dict(zip(decision.arms, items, strict=True))  # type: ignore[arg-type]


def _propensities(chooser: Any, decision: LoggedDecision) -> Any:
    if getattr(chooser, "keeps_raw", False):
        if decision.raw_items is not None:
            return chooser.propensities(decision.raw, decision.raw_items)
        return chooser.propensities(decision.raw, arms=decision.arms)
    if getattr(chooser, "arms", None) is None:
        return chooser.propensities(decision.vector, decision.vectors)
    vector = decision.vector
    if vector is None:
        raise ValueError("the log's contexts are raw, and this agent takes vectors: give a lim2.Bandit")
    return chooser.propensities(vector[None], arms=list(decision.arms))[0]


def checked_chances(chances: Any, arms: tuple[Hashable, ...]) -> Array:
    """Return probabilities of arms; raise a ValueError if they are none."""
    values = np.asarray(chances, dtype=np.float64)
    if values.shape != (len(arms),) or not (values >= 0).all() or abs(float(values.sum()) - 1) > 1e-4:
        raise ValueError(f"a rule must give {len(arms)} probabilities that sum to 1, got {chances!r}")
    return values


def as_probabilities(answer: Any, arms: tuple[Hashable, ...]) -> Array:
    """Return the probabilities that a policy's answer means: an arm, probabilities, or probabilities by arm."""
    if isinstance(answer, Mapping):
        unknown = [arm for arm in answer if arm not in arms]
        if unknown:
            raise ValueError(f"the policy gave probabilities to arms that were not eligible: {unknown!r}")
        return np.array([answer.get(arm, 0.0) for arm in arms], dtype=np.float64)
    if isinstance(answer, Hashable) and answer in arms:
        return np.array([arm == answer for arm in arms], dtype=np.float64)
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (len(arms),):
        raise ValueError(
            f"a policy must return one of the eligible arms {arms!r}, or their {len(arms)} probabilities; "
            f"got {answer!r}"
        )
    return values
