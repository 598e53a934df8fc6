"""The wheel bandit: exploration is needed, and it is rarely rewarded."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import register


@register("wheel", summary="The wheel: the best arm differs only in a thin rim (delta).", kind="synthetic")
def wheel(
    rounds: int,
    seed: int,
    delta: float = 0.95,
    means: tuple[float, float, float] = (1.2, 1.0, 50.0),
    sigma: float = 0.01,
) -> Problem:
    """Draw a wheel bandit of Riquelme et al. (2018).

    Inside the radius `delta`, from 0 to 1, nothing is to be found: the closer to 1, the harder. `means` are those of
    the first arm, of another arm outside its rim, and of another arm in its rim; `sigma` is the standard deviation of
    all rewards.

    Contexts are uniform in the unit disc. Inside the radius `delta` the first arm is best, by a little.
    Outside of it one of the other four, by far: each has its quadrant.

    References
    ----------
    Riquelme, Tucker, Snoek: Deep Bayesian bandits showdown. ICLR 2018.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("wheel", rounds=10_000, seed=0, delta=0.5)
    >>> (problem.best_rewards == 50).mean()  # 1 - delta^2 of the disc
    np.float64(0.7534)
    """
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is a radius in the unit disc, from 0 to 1, not {delta}")
    contexts = _disc(rounds, stream(seed, "contexts"))
    first, other, rim = means
    x, y = contexts.T
    outside = x**2 + y**2 > delta**2
    expected = np.full((rounds, 5), other)
    expected[:, 0] = first
    # Arms 1 to 4 own the quadrants (+, +), (+, -), (-, +), (-, -).
    quadrant = 1 + 2 * (x <= 0) + (y <= 0)
    expected[outside, quadrant[outside]] = rim
    noise = sigma * stream(seed, "noise").standard_normal(expected.shape)
    return Problem(
        "wheel",
        contexts,
        expected + noise,
        expected,
        seed=seed,
        feature_names=("x", "y"),
        settings={"delta": delta, "means": means, "sigma": sigma},
    )


def _disc(n: int, rng: np.random.Generator) -> Array:
    # Rejection, rather than a radius and an angle: sine and cosine differ in the last bit between machines.
    points = np.empty((0, 2))
    while len(points) < n:
        square = rng.uniform(-1.0, 1.0, (2 * n, 2))
        points = np.concatenate([points, square[(square**2).sum(axis=1) <= 1]])
    return points[:n]
