"""Clicks that are known soon, and zeros that are known when a window closes."""

from __future__ import annotations

from dataclasses import replace

from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.worlds import truth
from lim2.problems.worlds.clicks import clicks


@register(
    "late-zeros",
    summary="As `clicks`; a click is known after 1 to 60 decisions, that there was none after 360.",
    kind="world",
    rounds=10_000,
)
def late_zeros(
    rounds: int,
    seed: int,
    n_arms: int = 4,
    rate: float = 0.03,
    first: int = truth.FIRST_CLICK,
    last: int = truth.LAST_CLICK,
    window: int = truth.WINDOW,
) -> Problem:
    """Draw visits with late zeros: the order of arrival says more about an arm than its rewards do.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("late-zeros", seed=0)
    >>> set(problem.delays[problem.rewards == 0].tolist()), problem.delays[problem.rewards == 1].max()
    ({360}, np.int64(60))
    """
    problem = clicks(rounds, seed, n_arms=n_arms, rate=rate)
    return replace(
        problem,
        name="late-zeros",
        delays=truth.late_zeros(seed, problem.rewards, first, last, window),
        settings={"n_arms": n_arms, "rate": rate, "first": first, "last": last, "window": window},
    )
