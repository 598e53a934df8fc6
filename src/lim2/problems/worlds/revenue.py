"""Revenue: few visitors buy, for amounts of very different size."""

from __future__ import annotations

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import gaussian_contexts
from lim2.problems.worlds.truth import arm_effects, click_rates, clicks_of, odds_ratio, tastes

# An amount is odds_ratio(z)^2 / 3 times its mean, z standard normal: E[odds_ratio(z)^2] = 3, E[odds_ratio(z)^4] = 33.
MEAN_SQUARE = 3.0


@register("revenue", summary="3% buy, for skewed amounts; else the reward is 0.", kind="world", rounds=10_000)
def revenue(
    rounds: int, seed: int, n_arms: int = 5, n_features: int = 8, rate: float = 0.03, amount: float = 50.0
) -> Problem:
    """Draw visits of a shop whose reward is the revenue.

    Whether a visitor buys, and for how much on average, depends on visitor and arm. Given both, the standard deviation
    of an amount is 1.63 times its mean.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("revenue", seed=0)
    >>> (problem.rewards > 0).mean().round(3), round(problem.uniform_reward, 2), problem.rewards.max().round()
    (np.float64(0.034), 1.78, np.float64(1298.0))
    """
    contexts = gaussian_contexts(seed, rounds, n_features)
    buying, spending = (int(s) for s in stream(seed, "parts").integers(2**32, size=2))
    rates = click_rates(rate, arm_effects(buying, n_arms, 0.35) + tastes(buying, contexts, n_arms, 0.5))
    means = amount * odds_ratio(arm_effects(spending, n_arms, 0.25) + tastes(spending, contexts, n_arms, 0.4))
    sizes = odds_ratio(stream(seed, "amounts").standard_normal(rates.shape)) ** 2 / MEAN_SQUARE
    return Problem(
        "revenue",
        contexts,
        clicks_of(seed, rates) * means * sizes,
        rates * means,
        seed=seed,
        usual_rewards=(0.0, 20.0 * amount),
        settings={"n_arms": n_arms, "n_features": n_features, "rate": rate, "amount": amount},
    )
