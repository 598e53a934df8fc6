"""Few rounds."""

from __future__ import annotations

from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import gaussian_contexts
from lim2.problems.worlds.truth import arm_effects, click_rates, clicks_of, tastes


@register("cold-start", summary="500 rounds, five arms, clicks of 30%.", kind="world", rounds=500)
def cold_start(rounds: int, seed: int, n_arms: int = 5, n_features: int = 5, rate: float = 0.3) -> Problem:
    """Draw a short run, in which exploring too much costs more than it earns.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("cold-start", seed=0)
    >>> round(problem.uniform_reward, 2), problem.best_rewards.mean().round(2)
    (0.32, np.float64(0.5))
    """
    contexts = gaussian_contexts(seed, rounds, n_features)
    rates = click_rates(rate, arm_effects(seed, n_arms, 0.6) + tastes(seed, contexts, n_arms, 0.8))
    settings = {"n_arms": n_arms, "n_features": n_features, "rate": rate}
    return Problem(
        "cold-start", contexts, clicks_of(seed, rates), rates, seed=seed, usual_rewards=(0.0, 1.0), settings=settings
    )
