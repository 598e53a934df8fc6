"""Worlds that change under way, at once or little by little."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from lim2.problems.draw import ordered_product, stream
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import find, register
from lim2.problems.synthetic.linear import gaussian_contexts, weights
from lim2.problems.synthetic.nonlinear import Scores, expected_of

WORLDS = ("linear", "sparse-linear", "nonlinear", "wheel")


@register("drifting", summary="A synthetic world that changes, abruptly or gradually.", kind="synthetic")
def drifting(
    rounds: int,
    seed: int,
    world: Literal["linear", "sparse-linear", "nonlinear", "wheel"] = "linear",
    change: Literal["abrupt", "gradual"] = "abrupt",
    changes: int = 3,
    noise: float = 0.1,
    options: dict[str, Any] | None = None,
) -> Problem:
    """Draw a world whose expected rewards change under way, while the contexts stay of one kind.

    In a changed wheel the arms have swapped places. In the nonlinear world rewards are 0 or 1 with the expected
    reward as the probability, and `noise` is that of `nonlinear`. `options` are further settings of the world, such
    as `{"n_features": 5}`.

    `changes + 1` worlds are drawn. With abrupt changes each rules for an equal share of the rounds. With
    gradual ones the expected rewards pass from each to the next in a straight line, over the whole time.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("drifting", rounds=4000, seed=0, changes=1)
    >>> first, second = problem.best_arms[:2000], problem.best_arms[2000:]
    >>> problem.settings["starts"]
    [0, 2000]
    """
    if world not in WORLDS or change not in ("abrupt", "gradual"):
        raise ValueError(
            f"world must be one of {', '.join(WORLDS)} and change 'abrupt' or 'gradual', not {world!r} and {change!r}"
        )
    if not 1 <= changes < rounds:
        raise ValueError(f"changes must be from 1 to rounds - 1 = {rounds - 1}, not {changes}")
    options = dict(options or {})
    contexts, stages = _stages(world, rounds, seed, changes + 1, noise, options)
    starts = np.arange(changes + 1) * rounds // (changes + 1)
    mix = _abrupt(rounds, starts) if change == "abrupt" else _gradual(rounds, changes)
    expected = np.zeros_like(stages[0])
    for share, stage in zip(mix.T, stages, strict=True):
        expected += share[:, None] * stage
    rewards = _realised(world, expected, seed, noise)
    settings = {
        "world": world,
        "change": change,
        "changes": changes,
        "noise": noise,
        "options": options,
        "starts": starts.tolist(),
    }
    changed = starts[1:].tolist() if change == "abrupt" else range(1, rounds)  # gradually: in every round
    return Problem("drifting", contexts, rewards, expected, seed=seed, changes=tuple(changed), settings=settings)


def _abrupt(rounds: int, starts: Any) -> Array:
    stage = np.searchsorted(starts, np.arange(rounds), side="right") - 1
    return np.eye(len(starts))[stage]


def _gradual(rounds: int, changes: int) -> Array:
    """Return the share of each stage in each round: all the first at the start, all the last at the end."""
    place = np.arange(rounds) * changes / max(rounds - 1, 1)
    return np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(changes + 1)))


def _stages(
    world: str, rounds: int, seed: int, n: int, noise: float, options: dict[str, Any]
) -> tuple[Array, list[Array]]:
    """Return contexts, and their expected rewards in each of n worlds."""
    loader = find(world).loader
    if world == "wheel":
        base = loader(rounds=rounds, seed=seed, **options)
        rng = stream(seed, "places")
        places = [np.arange(5), *(rng.permutation(5) for _ in range(n - 1))]
        return base.contexts, [base.expected_rewards[:, place] for place in places]
    if world == "nonlinear":
        return _nonlinear_stages(rounds, seed, n, noise, options)
    base = loader(rounds=rounds, seed=seed, **options)
    assert isinstance(base, Problem)
    nonzero = base.settings.get("nonzero")
    seeds = [seed, *stream(seed, "stages").integers(2**32, size=n - 1).tolist()]
    stages = [ordered_product(base.contexts, weights(s, base.n_features, base.n_arms, nonzero)) for s in seeds]
    return base.contexts, stages


def _nonlinear_stages(
    rounds: int, seed: int, n: int, noise: float, options: dict[str, Any]
) -> tuple[Array, list[Array]]:
    # The margin would have to hold in all stages at once, so contexts are drawn without one.
    sizes = {"n_features": 10, "n_arms": 5, "hidden": 32}
    unknown = sorted(set(options) - set(sizes))
    if unknown:
        raise ValueError(
            f"the drifting nonlinear world has no option {unknown[0]!r}; its options and defaults: {sizes}"
        )
    sizes.update(options)
    contexts = gaussian_contexts(seed, rounds, sizes["n_features"])
    seeds = [seed, *stream(seed, "stages").integers(2**32, size=n - 1).tolist()]
    stages = [expected_of(Scores(s, **sizes)(contexts).argmax(axis=1), sizes["n_arms"], noise) for s in seeds]
    return contexts, stages


def _realised(world: str, expected: Array, seed: int, noise: float) -> Array:
    rng = stream(seed, "noise")
    if world == "nonlinear":
        return (rng.random(expected.shape) < expected).astype(np.float64)
    return expected + noise * rng.standard_normal(expected.shape)
