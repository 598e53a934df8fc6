"""A banner: a small JSON context, rare clicks, and zeros that are known when a window closes."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.worlds.truth import FIRST_CLICK, LAST_CLICK, click_rates, clicks_of, late_zeros

DEVICES, REGIONS = ("laptop", "phone", "tablet"), ("east", "north", "south", "west")
BANNERS = ("autumn", "classics", "outlet", "sports")
LIKED, DISLIKED = 0.9, -0.3  # scores


@register(
    "banner",
    summary="Four banners, clicks of 2 to 6%, JSON; a click is known after 1 to 60 visits, a zero after 600.",
    kind="world",
    rounds=20_000,
)
def banner(rounds: int, seed: int, rate: float = 0.025, window: int = 600, by_hand: bool = False) -> Problem:
    """Draw visits on which one of four banners is shown.

    Each banner is liked on one device, in one region or by one age group; one of them a little by everybody.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("banner", seed=0)
    >>> problem.raw_contexts[0], int(problem.delays.max())
    ({'device': 'tablet', 'region': 'east', 'age': 27, 'member': False}, 600)
    >>> round(problem.uniform_reward, 3), problem.best_rewards.mean().round(3)
    (0.036, np.float64(0.055))
    """
    rng = stream(seed, "contexts")
    device, region = rng.integers(len(DEVICES), size=rounds), rng.integers(len(REGIONS), size=rounds)
    age, member = rng.integers(18, 80, size=rounds), rng.random(rounds) < 0.4
    liked = np.column_stack([device == 1, (region == 0) | (region == 2), age >= 50, member])
    scores = np.where(liked, LIKED, DISLIKED)[:, stream(seed, "arms").permutation(len(BANNERS))]
    scores[:, int(stream(seed, "favourite").integers(len(BANNERS)))] += 0.2
    rates = click_rates(rate, scores)
    rewards = clicks_of(seed, rates)
    rows = zip(device.tolist(), region.tolist(), age.tolist(), member.tolist(), strict=True)
    return Problem(
        "banner",
        np.column_stack([np.eye(len(DEVICES))[device], np.eye(len(REGIONS))[region], (age - 48.5) / 18.0, member]),
        rewards,
        rates,
        seed=seed,
        arm_names=BANNERS,
        raw_contexts=tuple({"device": DEVICES[d], "region": REGIONS[r], "age": a, "member": m} for d, r, a, m in rows),
        form="vectors" if by_hand else "dictionaries",
        delays=late_zeros(seed, rewards, FIRST_CLICK, LAST_CLICK, window),
        usual_rewards=(0.0, 1.0),
        settings={"rate": rate, "window": window, "by_hand": by_hand},
    )
