"""Overlap between a log and a policy: the spread of the weights, and the arms that the log never played."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lim2.evaluation.estimators import effective_size
from lim2.log.table import Table

Array = NDArray[np.float64]

LEAST_SIZE = 100  # decisions' worth: above it, intervals cover about as they should (`python -m benchmarks.coverage`)
LARGEST_SHARE = 0.05  # of all weight, in one decision
RARE = 1e-3  # a propensity that a log can hardly show
MISSING = 0.05  # of decisions
SHOWN = 10  # arms that a warning lists


@dataclass(frozen=True)
class Overlap:
    """Overlap between the policy's and the log's choices; see `Evaluation`."""

    effective_size: float
    mean_weight: float
    max_weight: float
    unsupported: float

    @classmethod
    def of(cls, weights: Array, chances: Array, table: Table) -> Overlap:
        """Compute the overlap.

        Parameters
        ----------
        weights
            Weights, (n,).
        chances
            The policy's probabilities of all candidates, (m,).
        table
            The logged decisions.
        """
        unsupported = math.nan
        logged = table.candidates.propensities
        if logged is not None:
            unsupported = float(chances[logged <= 0].sum() / len(table))
        return cls(effective_size(weights), float(weights.mean()), float(weights.max()), unsupported)


def concerns(overlap: Overlap, chances: Array, weights: Array, table: Table, underflown: int) -> list[str]:
    """Return the reasons why an evaluation may be unreliable, one sentence each.

    Parameters
    ----------
    overlap
        The computed overlap.
    chances, weights
        The policy's probabilities (m,), and the weights (n,).
    table
        The logged decisions.
    underflown
        Number of decisions left out because their propensity was 0 to machine precision.
    """
    found = []
    n = len(table)
    if overlap.effective_size < LEAST_SIZE:
        found.append(
            f"poor overlap: {n} decisions have an effective sample size of {overlap.effective_size:.0f}, less than "
            f"{LEAST_SIZE}; intervals may be too narrow"
        )
    total = weights.sum()
    if total > 0 and overlap.max_weight / total > LARGEST_SHARE:
        share = overlap.max_weight / total
        found.append(f"one decision carries {share:.0%} of all weight: {overlap.max_weight:.4g} of {total:.4g}")
    spread = float(weights.std(ddof=1)) / math.sqrt(n)
    if abs(overlap.mean_weight - 1) > 4 * spread + 1e-6:
        found.append(
            f"weights average {overlap.mean_weight:.3f}, not 1 +- {spread:.3f}: the policy plays what the log never "
            f"does, or logged propensities are wrong"
        )
    never = _never_played(chances, table)
    if never:
        more = f" and {len(never) - SHOWN} more" if len(never) > SHOWN else ""
        found.append(f"the policy plays arms that the log never played: {never[:SHOWN]!r}{more}")
    if overlap.unsupported > 1e-9:
        found.append(
            f"{overlap.unsupported:.2%} of the policy's plays had propensity 0 in the log: they count as if they "
            f"earned nothing (IPS), or what the model says (DR). table[table.propensity < 1] leaves out "
            f"decisions without choice"
        )
    logged = table.candidates.propensities
    if logged is not None:
        share = float(chances[(logged > 0) & (logged < RARE)].sum() / n)
        if share > 0.01:
            found.append(f"{share:.1%} of the policy's plays had a propensity below {RARE:g} in the log")
    if table.missing > MISSING * (n + table.missing):
        found.append(
            f"{table.missing} decisions have no reward, {table.missing / (n + table.missing):.0%} of all: if that "
            f"depends on the arm, every estimate is biased"
        )
    if underflown:
        found.append(f"{underflown} decisions were left out: their propensity is 0 to machine precision")
    return found


def _never_played(chances: Array, table: Table) -> list[Hashable]:
    """Return the arms that the policy plays and the log did not; none for items, which share one model."""
    if table.candidates.items is not None:
        return []
    size = len(table.arms)
    wanted = np.bincount(table.candidates.arms, chances, size) > 0
    return [table.arms[arm] for arm in np.flatnonzero(wanted & (np.bincount(table.chosen, minlength=size) == 0))]
