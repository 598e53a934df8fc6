"""What a decision log needs to know of a decision."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
