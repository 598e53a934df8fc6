"""A risky arm, as a problem: half of what may be eaten is good, the rest is poisonous, and only eating tells which."""

import numpy as np

from lim2.problems import Problem

KINDS, COLUMNS, VALUES = 12, 20, 5
TYPICAL = 0.6  # how often a column has the value that is typical of the kind


def risky(rounds: int | None = None, seed: int = 0) -> Problem:
    """Twelve kinds of things, known by categories: six are good to eat, 5; of the others every second one costs 35.

    The first arm leaves them, which earns nothing.
    """
    rounds = 5000 if rounds is None else rounds
    rng = np.random.default_rng(seed)
    typical = rng.integers(VALUES, size=(KINDS, COLUMNS))
    kind = rng.integers(KINDS, size=rounds)
    shown = rng.random((rounds, COLUMNS)) < TYPICAL
    values = np.where(shown, typical[kind], rng.integers(VALUES, size=(rounds, COLUMNS)))
    poisoned = (kind % 2 == 1) & (rng.random(rounds) < 0.5)
    eaten = np.where(poisoned, -35.0, 5.0)
    contexts = np.eye(VALUES)[values].reshape(rounds, -1)
    return Problem("risky", contexts, np.stack([np.zeros(rounds), eaten], axis=1), seed=seed)
