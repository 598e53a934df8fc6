"""Clicks of some percent: arms differ a little, and visitors have tastes."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import register
from lim2.problems.worlds.truth import arm_effects, click_rates, clicks_of, tastes

FLAG_SHARE = 0.3  # of visits on which a 0/1 column is 1


def visitors(seed: int, rounds: int, n_features: int) -> Array:
    """Draw contexts: the first half of the columns is standard normal, the second half 0/1."""
    contexts = stream(seed, "contexts").standard_normal((rounds, n_features))
    flags = n_features - n_features // 2
    contexts[:, flags:] = stream(seed, "flags").random((rounds, n_features - flags)) < FLAG_SHARE
    return contexts


@register("clicks", summary="Clicks of about 3%: arms differ, visitors have tastes.", kind="world", rounds=10_000)
def clicks(
    rounds: int,
    seed: int,
    n_arms: int = 4,
    rate: float = 0.03,
    n_features: int = 10,
    gap: float = 0.4,
    taste: float = 0.6,
) -> Problem:
    """Draw visits with rare clicks.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("clicks", seed=0)
    >>> round(problem.uniform_reward, 3), problem.best_rewards.mean().round(3)
    (0.033, np.float64(0.053))
    """
    contexts = visitors(seed, rounds, n_features)
    centred = contexts - np.where(np.arange(n_features) < n_features - n_features // 2, 0.0, FLAG_SHARE)
    scores = arm_effects(seed, n_arms, gap) + tastes(seed, centred, n_arms, taste)
    rates = click_rates(rate, scores)
    settings = {"n_arms": n_arms, "rate": rate, "n_features": n_features, "gap": gap, "taste": taste}
    return Problem(
        "clicks", contexts, clicks_of(seed, rates), rates, seed=seed, usual_rewards=(0.0, 1.0), settings=settings
    )
