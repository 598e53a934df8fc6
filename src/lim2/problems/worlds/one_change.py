"""Four kinds of visitors, each with a favourite arm; half-way all favourites change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.worlds.truth import clicks_of

KINDS, NOISE_COLUMNS = 4, 3
FAVOURITE, OTHERS = 2.0, 2.0 / 3.0  # of the mean rate of a visitor over four arms, which is the rate itself


@register("one-change", summary="Clicks of 30%; half-way all visitors' favourites change.", kind="world", rounds=8000)
def one_change(rounds: int, seed: int, rate: float = 0.3) -> Problem:
    """Draw visits of four kinds of visitors, whose favourites all change in the middle.

    A favourite is clicked with twice the rate, another arm with two thirds of it. Contexts say the kind, and have three
    columns without meaning.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("one-change", seed=0)
    >>> problem.changes, round(problem.uniform_reward, 3), problem.best_rewards.mean().round(3)
    ((4000,), 0.3, np.float64(0.6))
    """
    if not 0.0 < rate <= 0.5 or rounds < 2:
        raise ValueError(f"rate must be above 0 and at most 0.5, and rounds at least 2, got {rate} and {rounds}")
    change = rounds // 2
    kinds = stream(seed, "kinds").integers(KINDS, size=rounds)
    favourites = stream(seed, "arms").permutation(KINDS)
    arms = favourites[(kinds + (np.arange(rounds) >= change)) % KINDS]
    rates = rate * np.where(np.arange(KINDS) == arms[:, None], FAVOURITE, OTHERS)
    noise = stream(seed, "contexts").standard_normal((rounds, NOISE_COLUMNS))
    return Problem(
        "one-change",
        np.hstack([np.eye(KINDS)[kinds], noise]),
        clicks_of(seed, rates),
        rates,
        seed=seed,
        changes=(change,),
        usual_rewards=(0.0, 1.0),
        settings={"rate": rate},
    )


@register("one-change-rare", summary="As `one-change`, with clicks of 5%.", kind="world", rounds=16_000)
def one_change_rare(rounds: int, seed: int) -> Problem:
    """Draw the same with clicks of 5%."""
    return replace(one_change(rounds, seed, rate=0.05), name="one-change-rare")
