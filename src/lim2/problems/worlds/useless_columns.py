"""Contexts that mean nothing: many of them, and those of a plain A/B test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import gaussian_contexts
from lim2.problems.worlds.truth import clicks_of


@register("useless-columns", summary="100 columns that mean nothing; arms of 20 to 60%.", kind="world", rounds=4000)
def useless_columns(
    rounds: int, seed: int, n_features: int = 100, rates: Sequence[float] = (0.2, 0.3, 0.4, 0.5, 0.6)
) -> Problem:
    """Draw arms whose rates do not depend on the context.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("useless-columns", seed=0)
    >>> sorted(problem.expected_rewards[0].tolist()), len(set(problem.best_arms.tolist()))
    ([0.2, 0.3, 0.4, 0.5, 0.6], 1)
    """
    if not len(rates) or not 0.0 <= min(rates) <= max(rates) <= 1.0:
        raise ValueError(f"rates must be from 0 to 1, at least one of them, got {rates!r}")
    order = stream(seed, "arms").permutation(np.array(rates, dtype=np.float64))
    means = np.tile(order, (rounds, 1))
    return Problem(
        "useless-columns",
        gaussian_contexts(seed, rounds, n_features),
        clicks_of(seed, means),
        means,
        seed=seed,
        usual_rewards=(0.0, 1.0),
        settings={"n_features": n_features, "rates": tuple(rates)},
    )


@register(
    "ab-test",
    summary="A plain A/B/C/D test of 50, 45, 42 and 40%; four columns that mean nothing.",
    kind="world",
    rounds=5000,
)
def ab_test(rounds: int, seed: int) -> Problem:
    """Draw a test of four arms with small gaps."""
    return replace(useless_columns(rounds, seed, n_features=4, rates=(0.5, 0.45, 0.42, 0.4)), name="ab-test")
