"""Everything changes at once, several times."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import gaussian_contexts
from lim2.problems.worlds.truth import arm_effects, click_rates, clicks_of, tastes


@register("abrupt-changes", summary="Clicks of 40%; everything changes three times.", kind="world", rounds=10_000)
def abrupt_changes(
    rounds: int, seed: int, n_arms: int = 5, n_features: int = 5, rate: float = 0.4, changes: int = 3
) -> Problem:
    """Draw clicks whose arms and tastes are all drawn anew at every change; stages are equally long.

    Examples
    --------
    >>> import lim2.problems
    >>> lim2.problems.load("abrupt-changes", seed=0).changes
    (2500, 5000, 7500)
    """
    if not 0 <= changes < rounds:
        raise ValueError(f"changes must be from 0 to rounds - 1 = {rounds - 1}, got {changes}")
    contexts = gaussian_contexts(seed, rounds, n_features)
    starts = np.arange(changes + 1) * rounds // (changes + 1)
    seeds = stream(seed, "stages").integers(2**32, size=changes + 1).tolist()
    scores = np.vstack(
        [
            arm_effects(stage, n_arms, 0.7) + tastes(stage, part, n_arms, 1.5)
            for stage, part in zip(seeds, np.split(contexts, starts[1:]), strict=True)
        ]
    )
    rates = click_rates(rate, scores)
    return Problem(
        "abrupt-changes",
        contexts,
        clicks_of(seed, rates),
        rates,
        seed=seed,
        changes=tuple(starts[1:].tolist()),
        usual_rewards=(0.0, 1.0),
        settings={"n_arms": n_arms, "n_features": n_features, "rate": rate, "changes": changes},
    )
