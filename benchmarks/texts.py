"""Texts to choose settings on that are not Amazon's: made-up reviews, and rows of Covertype as sentences."""

import numpy as np

from lim2 import problems
from lim2.problems import Problem

LENGTH = 60  # tokens; 0 is padding
WORDS = 3000
STARS = np.array([0.2, 0.08, 0.08, 0.14, 0.5])  # how often a review gives one to five of them
TENTHS = np.linspace(0.0, 1.0, 11)[1:-1]


def reviews(rounds: int | None = None, seed: int = 0) -> Problem:
    """Reviews of words drawn by frequency and by what was felt; every fifth word has a mood. The arms are the stars.

    Parameters
    ----------
    rounds
        How many rounds; None for 5,000.
    seed
        The same seed gives the same arrays.
    """
    rounds = 5000 if rounds is None else rounds
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(3, WORDS + 3)
    mood = rng.normal(size=WORDS) * (rng.random(WORDS) < 0.2)
    stars = rng.choice(len(STARS), size=rounds, p=STARS)
    felt = np.linspace(-1.0, 1.0, len(STARS))[stars] + rng.normal(0.0, 0.4, rounds)
    lengths = np.clip(rng.lognormal(2.6, 1.0, rounds).astype(int), 1, LENGTH)
    contexts = np.zeros((rounds, LENGTH), np.int32)
    for row, feeling, length in zip(contexts, felt, lengths, strict=True):
        weights = frequency * np.exp(feeling * mood)
        row[:length] = 1 + rng.choice(WORDS, size=length, p=weights / weights.sum())
    return Problem("reviews", contexts, np.eye(len(STARS))[stars], seed=seed, n_tokens=WORDS + 1)


def covertype(rounds: int | None = None, seed: int = 0) -> Problem:
    """Draw Covertype, every row as a sentence: a token for each column that is not 0, by tenths of the column.

    Parameters
    ----------
    rounds
        How many rounds; None for 3,000.
    seed
        The same seed gives the same arrays.
    """
    problem = problems.load("covertype", rounds=3000 if rounds is None else rounds, seed=seed)
    columns = problem.contexts
    tokens = np.zeros(columns.shape, np.int64)
    for j, column in enumerate(columns.T):
        values, first = np.unique(column), 1 + j * (len(TENTHS) + 1)
        if len(values) == 2:
            tokens[:, j] = np.where(column == values[1], first, 0)
        elif len(values) > 2:
            tokens[:, j] = first + np.searchsorted(np.unique(np.quantile(column, TENTHS)), column, side="right")
    contexts = np.zeros((len(columns), LENGTH), np.int32)
    for row, words in zip(contexts, tokens, strict=True):
        said = words[words > 0][:LENGTH]
        row[: len(said)] = said
    n_tokens = 1 + columns.shape[1] * (len(TENTHS) + 1)
    return Problem("covertype-text", contexts, problem.rewards, seed=seed, n_tokens=n_tokens)
