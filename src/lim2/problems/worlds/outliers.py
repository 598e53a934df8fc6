"""Normal rewards, of which a few are wrong by far."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import gaussian_contexts
from lim2.problems.worlds.truth import arm_effects, tastes


@register("outliers", summary="Normal rewards; one in a thousand is off by 1,000.", kind="world", rounds=4000)
def outliers(
    rounds: int,
    seed: int,
    n_arms: int = 4,
    n_features: int = 5,
    share: float = 0.001,
    size: float = 1000.0,
) -> Problem:
    """Draw linear rewards with noise 1, of which some have an error of a broken sensor.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("outliers", seed=0)
    >>> (abs(problem.rewards) > 900).sum(), problem.best_rewards.mean().round(2)
    (np.int64(17), np.float64(1.03))
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be from 0 to 1, got {share}")
    contexts = gaussian_contexts(seed, rounds, n_features)
    means = arm_effects(seed, n_arms, 0.7) + tastes(seed, contexts, n_arms, 0.7)
    chance = stream(seed, "errors").random(means.shape)
    errors = size * ((chance < share / 2).astype(np.float64) - (chance >= 1.0 - share / 2))
    return Problem(
        "outliers",
        contexts,
        means + stream(seed, "noise").standard_normal(means.shape) + errors,
        means,
        seed=seed,
        usual_rewards=(-5.0, 5.0),
        settings={"n_arms": n_arms, "n_features": n_features, "share": share, "size": size},
    )
