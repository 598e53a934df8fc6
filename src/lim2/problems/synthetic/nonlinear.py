"""A nonlinear classification world, of any size, with classes as far apart as one likes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lim2.problems.draw import one_per_right_arm, ordered_product, stream
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import register
from lim2.problems.synthetic.linear import check_shape

REFERENCE = 4096  # contexts from which the scores' mean and spread are taken
HOPELESS = 1e-3  # the share of contexts below which a margin is refused


class Scores:
    """The scores of the classes: a random network of one hidden layer, outputs of mean 0 and variance 1.

    Rectified units, because the processor's exponentials and tangents differ in the last bit between
    machines.
    """

    def __init__(self, seed: int, n_features: int, n_arms: int, hidden: int) -> None:
        rng = stream(seed, "network")
        self.inner = rng.standard_normal((n_features, hidden)) / math.sqrt(n_features)
        self.bias = rng.uniform(-1.0, 1.0, hidden)
        self.outer = rng.standard_normal((hidden, n_arms))
        self.mean, self.std = np.zeros(n_arms), np.ones(n_arms)
        reference = self(rng.standard_normal((REFERENCE, n_features)))
        self.mean, self.std = reference.mean(axis=0), reference.std(axis=0)

    def __call__(self, contexts: Array) -> Array:
        """Return the scores, (rounds, n_arms)."""
        features = np.maximum(ordered_product(contexts, self.inner) + self.bias, 0.0)
        scores: Array = (ordered_product(features, self.outer) - self.mean) / self.std
        return scores


@register("nonlinear", summary="Classes bounded by a random network, with a margin.", kind="synthetic")
def nonlinear(
    rounds: int,
    seed: int,
    n_features: int = 10,
    n_arms: int = 5,
    margin: float = 0.1,
    noise: float = 0.0,
    hidden: int = 32,
) -> Problem:
    """Draw a nonlinear classification world.

    `margin` is by how much the best score exceeds the second at least, in standard deviations of a score; contexts
    closer to a boundary are not drawn. `noise` is the probability that another class than the right one pays.
    `hidden` is the width of the network: the wider, the more intricate the boundaries.

    A random network scores the classes, and the class with the highest score is right. The right arm pays 1,
    the others 0.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("nonlinear", rounds=5000, seed=0, noise=0.2)
    >>> problem.best_rewards.mean().round(3), problem.rewards.max(axis=1).mean()
    (np.float64(0.8), np.float64(1.0))
    """
    check_shape(n_features, n_arms, noise)
    if hidden < 1 or margin < 0 or noise > 1 or (noise > 0 and n_arms == 1):
        raise ValueError(
            f"hidden must be at least 1, margin at least 0, noise at most 1 (0 with one arm), not {hidden}, "
            f"{margin} and {noise}"
        )
    scores = Scores(seed, n_features, n_arms, hidden)
    contexts, right = apart(seed, rounds, n_features, scores, margin)
    expected = expected_of(right, n_arms, noise)
    return Problem(
        "nonlinear",
        contexts,
        one_per_right_arm(flipped(seed, right, n_arms, noise), n_arms),
        expected,
        seed=seed,
        settings={
            "n_features": n_features,
            "n_arms": n_arms,
            "margin": margin,
            "noise": noise,
            "hidden": hidden,
        },
    )


def apart(seed: int, rounds: int, n_features: int, scores: Scores, margin: float) -> tuple[Array, NDArray[np.int64]]:
    """Draw contexts whose best class is ahead by the margin; return them and those classes."""
    rng = stream(seed, "contexts")
    batch = max(rounds, 1000)
    batches: list[Array] = []
    classes: list[NDArray[np.int64]] = []
    count = drawn = 0
    while count < rounds:
        contexts = rng.standard_normal((batch, n_features))
        values = scores(contexts)
        ordered = np.sort(values, axis=1)
        far = np.ones(batch, dtype=bool)
        if values.shape[1] > 1:
            far = ordered[:, -1] - ordered[:, -2] >= margin
        batches.append(contexts[far])
        classes.append(values[far].argmax(axis=1))
        count += int(far.sum())
        drawn += batch
        if count < HOPELESS * drawn:
            raise ValueError(
                f"margin={margin} is too wide: fewer than one context in {1 / HOPELESS:.0f} is that far "
                "from a boundary; choose a smaller one"
            )
    return np.concatenate(batches)[:rounds], np.concatenate(classes)[:rounds]


def expected_of(right: NDArray[np.int64], n_arms: int, noise: float) -> Array:
    """Return the expected rewards when another class pays with the probability `noise`.

    Examples
    --------
    >>> import numpy as np
    >>> expected_of(np.array([0]), 3, 0.2)
    array([[0.8, 0.1, 0.1]])
    """
    other = noise / (n_arms - 1) if n_arms > 1 else 0.0
    expected = np.full((len(right), n_arms), other)
    expected[np.arange(len(right)), right] = 1.0 - noise
    return expected


def flipped(seed: int, right: NDArray[np.int64], n_arms: int, noise: float) -> NDArray[np.int64]:
    """Return the class that pays in each round: the right one, or with the probability `noise` another."""
    if n_arms == 1:
        return right
    rng = stream(seed, "noise")
    flip = rng.random(len(right)) < noise
    shift = rng.integers(1, n_arms, size=len(right))
    return np.where(flip, (right + shift) % n_arms, right)
