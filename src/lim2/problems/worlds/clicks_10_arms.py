"""Clicks of two percent on ten arms."""

from __future__ import annotations

from dataclasses import replace

from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.worlds.clicks import clicks


@register("clicks-10-arms", summary="As `clicks`, with ten arms and clicks of 2%.", kind="world", rounds=12_000)
def clicks_10_arms(rounds: int, seed: int) -> Problem:
    """Draw visits with ten arms.

    Examples
    --------
    >>> import lim2.problems
    >>> lim2.problems.load("clicks-10-arms", seed=0)
    Problem('clicks-10-arms', rounds=12000, n_features=10, n_arms=10, seed=0)
    """
    return replace(clicks(rounds, seed, n_arms=10, rate=0.02), name="clicks-10-arms")
