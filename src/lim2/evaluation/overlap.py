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

# From this effective sample size on, intervals cover about as they should: `python -m benchmarks.coverage`.
MIN_EFFECTIVE_SIZE = 100
MAX_WEIGHT_SHARE = 0.05  # of one decision in the sum of weights
MIN_EFFECTIVE_REWARDED = 50  # rewards other than 0: with fewer, too many intervals miss
RARE_PROPENSITY = 1e-3  # below, a log has hardly any plays
MAX_MISSING_SHARE = 0.05  # of decisions without reward
MAX_LISTED_ARMS = 10  # in a warning


@dataclass(frozen=True)
class Overlap:
    """Overlap between the policy's and the log's choices; see `Evaluation`."""

    effective_size: float
    mean_weight: float
    max_weight: float
    unsupported: float
    effective_rewarded: float

    @classmethod
    def of(cls, weights: Array, chances: Array, table: Table) -> Overlap:
        """Compute the overlap from weights (n,) and the policy's probabilities of all candidates (m,)."""
        unsupported = math.nan
        logged = table.candidates.propensities
        if logged is not None:
            unsupported = float(chances[logged <= 0].sum() / len(table))
        return cls(
            effective_size(weights),
            float(weights.mean()),
            float(weights.max()),
            unsupported,
            effective_size(weights[table.rewards != 0]),
        )


def doubts(overlap: Overlap, chances: Array, weights: Array, table: Table, n_underflows: int) -> list[str]:
    """Return the reasons why an evaluation may be unreliable, one sentence each."""
    texts = []
    n = len(table)
    if overlap.effective_size < MIN_EFFECTIVE_SIZE:
        texts.append(
            f"poor overlap: {n} decisions have an effective sample size of {overlap.effective_size:.0f}, less than "
            f"{MIN_EFFECTIVE_SIZE}; intervals may be too narrow"
        )
    if overlap.effective_rewarded < MIN_EFFECTIVE_REWARDED:
        texts.append(
            f"few rewards: the log says as much about the policy as {overlap.effective_rewarded:.0f} decisions with a "
            f"reward other than 0, fewer than {MIN_EFFECTIVE_REWARDED}; intervals may be too narrow"
        )
    total = weights.sum()
    if total > 0 and overlap.max_weight / total > MAX_WEIGHT_SHARE:
        share = overlap.max_weight / total
        texts.append(f"one decision carries {share:.0%} of all weight: {overlap.max_weight:.4g} of {total:.4g}")
    spread = float(weights.std(ddof=1)) / math.sqrt(n)
    if abs(overlap.mean_weight - 1) > 4 * spread + 1e-6:
        texts.append(
            f"weights average {overlap.mean_weight:.3f}, not 1 +- {spread:.3f}: the policy plays what the log never "
            f"does, or logged propensities are wrong"
        )
    arms = _unplayed_arms(chances, table)
    if arms:
        rest = f" and {len(arms) - MAX_LISTED_ARMS} more" if len(arms) > MAX_LISTED_ARMS else ""
        texts.append(f"the policy plays arms that the log never played: {arms[:MAX_LISTED_ARMS]!r}{rest}")
    if overlap.unsupported > 1e-9:
        texts.append(
            f"{overlap.unsupported:.2%} of the policy's plays had propensity 0 in the log: they count as if they "
            f"earned nothing (IPS), or what the model says (DR). table[table.propensity < 1] leaves out "
            f"decisions without choice"
        )
    logged = table.candidates.propensities
    if logged is not None:
        share = float(chances[(logged > 0) & (logged < RARE_PROPENSITY)].sum() / n)
        if share > 0.01:
            texts.append(f"{share:.1%} of the policy's plays had a propensity below {RARE_PROPENSITY:g} in the log")
    if table.missing > MAX_MISSING_SHARE * (n + table.missing):
        texts.append(
            f"{table.missing} decisions have no reward, {table.missing / (n + table.missing):.0%} of all: if that "
            f"depends on the arm, every estimate is biased"
        )
    if n_underflows:
        texts.append(f"{n_underflows} decisions were left out: their propensity is 0 to machine precision")
    return texts


def _unplayed_arms(chances: Array, table: Table) -> list[Hashable]:
    """Return the arms that the policy plays and the log did not; none for items, which share one model."""
    if table.candidates.items is not None:
        return []
    size = len(table.arms)
    is_played = np.bincount(table.candidates.arms, chances, size) > 0
    return [table.arms[arm] for arm in np.flatnonzero(is_played & (np.bincount(table.chosen, minlength=size) == 0))]
