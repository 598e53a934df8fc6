"""An arm that is the worst at first and the best later."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import gaussian_contexts
from lim2.problems.worlds.truth import arm_effects, click_rates, clicks_of, tastes

BEFORE, AFTER = 0.12, 0.8  # rates of the arm that changes


@register("late-better", summary="Half-way the worst of five arms becomes the best.", kind="world", rounds=8000)
def late_better(rounds: int, seed: int, n_arms: int = 5, n_features: int = 5, rate: float = 0.35) -> Problem:
    """Draw arms of which one changes, in the middle, from 12% to 80%: a greedy agent never notices.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("late-better", seed=0)
    >>> problem.changes, np.bincount(problem.best_arms[4000:]).argmax() == problem.settings["late_arm"]
    ((4000,), np.True_)
    """
    if rounds < 2:
        raise ValueError(f"rounds must be at least 2, got {rounds}")
    contexts, change = gaussian_contexts(seed, rounds, n_features), rounds // 2
    rates = click_rates(rate, arm_effects(seed, n_arms, 0.6) + tastes(seed, contexts, n_arms, 0.6))
    late_arm = int(stream(seed, "late arm").integers(n_arms))
    rates[:, late_arm] = np.where(np.arange(rounds) < change, BEFORE, AFTER)
    return Problem(
        "late-better",
        contexts,
        clicks_of(seed, rates),
        rates,
        seed=seed,
        changes=(change,),
        usual_rewards=(0.0, 1.0),
        settings={"n_arms": n_arms, "n_features": n_features, "rate": rate, "late_arm": late_arm},
    )
