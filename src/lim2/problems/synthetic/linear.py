"""Linear worlds: the expected reward of each arm is a linear function of the context."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import ordered_product, stream
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import register


def weights(seed: int, n_features: int, n_arms: int, nonzero: int | None = None) -> Array:
    """Draw the weights of the arms, (n_features, n_arms), each arm's of norm 1.

    Each arm has `nonzero` weights that are not 0; None: all.
    """
    rng = stream(seed, "weights")
    W = rng.standard_normal((n_features, n_arms))
    if nonzero is not None:
        # The features with the largest of n_features random numbers, arm by arm.
        rank = rng.random((n_features, n_arms)).argsort(axis=0).argsort(axis=0)
        W[rank >= nonzero] = 0.0
    W /= np.sqrt((W**2).sum(axis=0))
    return W


def gaussian_contexts(seed: int, rounds: int, n_features: int) -> Array:
    """Draw standard normal contexts."""
    return stream(seed, "contexts").standard_normal((rounds, n_features))


def check_shape(n_features: int, n_arms: int, noise: float) -> None:
    """Raise a ValueError for a world that cannot be."""
    if n_features < 1 or n_arms < 1:
        raise ValueError(f"n_features and n_arms must be at least 1, not {n_features} and {n_arms}")
    if not noise >= 0:
        raise ValueError(f"noise must be at least 0, not {noise}")


@register("linear", summary="Rewards linear in the context, plus noise.", kind="synthetic")
def linear(rounds: int, seed: int, n_features: int = 20, n_arms: int = 5, noise: float = 0.1) -> Problem:
    """Draw a linear world.

    `noise` is the standard deviation of the rewards given the context.

    Contexts are standard normal, the weights of each arm have norm 1, so expected rewards have variance 1.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("linear", rounds=10_000, seed=0)
    >>> problem.best_rewards.mean().round(2), round(problem.uniform_reward, 2)
    (np.float64(1.13), 0.0)
    """
    check_shape(n_features, n_arms, noise)
    contexts = gaussian_contexts(seed, rounds, n_features)
    expected = ordered_product(contexts, weights(seed, n_features, n_arms))
    return Problem(
        "linear",
        contexts,
        expected + noise * stream(seed, "noise").standard_normal(expected.shape),
        expected,
        seed=seed,
        settings={"n_features": n_features, "n_arms": n_arms, "noise": noise},
    )
