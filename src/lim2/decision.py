"""Decisions and slates, with all that a decision log needs."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
D = TypeVar("D", bound="Decision", covariant=True)


class Assignment(NamedTuple):
    """Assignment of a decision to a group by a control.

    Parameters
    ----------
    group
        ``"control"`` if the rule decided, ``"bandit"`` if the bandit did.
    share
        Share of the control group at that time.
    rule
        The rule, such as ``"always:spring"``.
    choice
        Place among the eligible arms of what the bandit chose, shown or not.
    propensity
        The bandit's own probability of that choice.
    """

    group: str
    share: float
    rule: str
    choice: int
    propensity: float


@dataclass(frozen=True, eq=False)
class Decision:
    """A chosen arm with its propensity and the posterior it was chosen from.

    Parameters
    ----------
    arm
        The arm that was chosen.
    propensity
        Probability of choosing this arm, given the context and the state of the agent.
    arms
        The eligible arms; the arrays below are in the same order.
    means
        Posterior mean of every arm's score; NaN for an agent without a posterior.
    stds
        Posterior standard deviation of every arm's score; NaN for an agent without a posterior.
    propensities
        Probability of choosing each eligible arm.
    exploit
        Whether the decision was made without exploration.
    control
        Assignment to a group; None without a control. The propensities are then those of both groups together.
    """

    arm: Hashable
    propensity: float
    arms: tuple[Hashable, ...]
    means: Array
    stds: Array
    propensities: Array
    exploit: bool = False
    control: Assignment | None = None

    @property
    def group(self) -> str | None:
        """``"control"`` or ``"bandit"``; None without a control."""
        return None if self.control is None else self.control.group


@dataclass(frozen=True, eq=False)
class Slate(Generic[D]):
    """A ranking: one decision per position, in order.

    Parameters
    ----------
    id
        ID of the slate, used to give rewards by position, such as ``{2: 1.0}`` or ``{"slot 2": 1.0}``.
    decisions
        One decision per position, all with the same candidates. The propensity of each is the probability that its arm
        comes first.
    """

    id: str
    decisions: tuple[D, ...]

    @property
    def arms(self) -> tuple[Hashable, ...]:
        """Names of the arms or items, in order of position."""
        return tuple(decision.arm for decision in self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[D]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> D:
        return self.decisions[place]


class History(NamedTuple):
    """Choices and their rewards in every form in which they are stored; None, or None in a row: not in this form."""

    arms: Sequence[Hashable]
    rewards: Any  # numbers
    contexts: Any = None  # vectors
    items: Any = None  # vectors of the items that were chosen
    raw: Any = None
    raw_items: Any = None
    positions: Sequence[int] | None = None  # in a slate; None: the first
    decided: Sequence[int] | None = None  # when decisions were made, in whole numbers that grow
    rows: Sequence[str] | None = None  # what errors call each row
    numbered: bool = False  # whether items are called by their places, because they have no names
    error: type[ValueError] = ValueError

    def column(self, name: str, error: str) -> Any:
        """Return a column; raise the error if a row lacks it."""
        values = getattr(self, name)
        missing = 0 if values is None else next((row for row, value in enumerate(values) if value is None), None)
        if missing is not None:
            raise self.error(f"{self.rows[missing] if self.rows else f'row {missing}'} {error}")
        return values
