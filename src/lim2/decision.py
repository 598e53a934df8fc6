"""What a decision log needs to know of a decision, and of a slate."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
D = TypeVar("D", bound="Decision", covariant=True)


@dataclass(frozen=True, eq=False)
class Decision:
    """An arm that was chosen, and how it came about.

    Parameters
    ----------
    arm
        The arm that was chosen.
    propensity
        The probability with which it was chosen, given the context and all that the agent had learned.
    arms
        The arms that could be chosen; the arrays below are in their order.
    means, stds
        Mean and standard deviation of every arm's score, as the agent believed; NaN for an agent without beliefs.
    propensities
        The probability with which each of them was chosen.
    exploit
        Whether the best arm was asked for, without exploration.
    """

    arm: Hashable
    propensity: float
    arms: tuple[Hashable, ...]
    means: Array
    stds: Array
    propensities: Array
    exploit: bool = False


@dataclass(frozen=True, eq=False)
class Slate(Generic[D]):
    """A ranking that is shown: a decision per position, the first position first.

    Parameters
    ----------
    id
        By which the rewards of its positions are given, such as ``{2: 1.0}`` or ``{"slot 2": 1.0}``.
    decisions
        One per position, all among the same candidates. The propensity of each is that of being first.
    """

    id: str
    decisions: tuple[D, ...]

    @property
    def arms(self) -> tuple[Hashable, ...]:
        """What is shown, in order."""
        return tuple(decision.arm for decision in self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[D]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> D:
        return self.decisions[place]
