"""Sparse linear worlds: only a few features matter to each arm."""

from __future__ import annotations

from lim2.problems.draw import ordered_product, stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import check_shape, gaussian_contexts, weights


@register("sparse-linear", summary="Linear rewards to which few features matter.", kind="synthetic")
def sparse_linear(
    rounds: int,
    seed: int,
    n_features: int = 50,
    n_arms: int = 5,
    nonzero: int = 5,
    noise: float = 0.1,
) -> Problem:
    """Draw a sparse linear world.

    `nonzero` features matter to an arm; they differ between arms. `noise` is the standard deviation of the rewards.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("sparse-linear", rounds=10_000, seed=0)
    >>> problem.n_features, problem.best_rewards.mean().round(2)
    (50, np.float64(1.16))
    """
    check_shape(n_features, n_arms, noise)
    if not 1 <= nonzero <= n_features:
        raise ValueError(f"nonzero must be from 1 to n_features={n_features}, not {nonzero}")
    contexts = gaussian_contexts(seed, rounds, n_features)
    expected = ordered_product(contexts, weights(seed, n_features, n_arms, nonzero))
    return Problem(
        "sparse-linear",
        contexts,
        expected + noise * stream(seed, "noise").standard_normal(expected.shape),
        expected,
        seed=seed,
        settings={"n_features": n_features, "n_arms": n_arms, "nonzero": nonzero, "noise": noise},
    )
