"""scikit-learn's handwritten digits as a problem: 64 pixels, ten arms, 1 for the right one."""

import numpy as np

from lim2.problems import Problem


def digits(rounds: int | None = None, seed: int = 0) -> Problem:
    """Shuffle the 1,797 images; play them again, in another order, for as many rounds as are asked for.

    Parameters
    ----------
    rounds
        How many rounds; None for 5,000.
    seed
        The same seed gives the same arrays.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rounds = 5000 if rounds is None else rounds
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(len(labels)) for _ in range(-(-rounds // len(labels)))])[:rounds]
    spread = images.std(axis=0)
    contexts = (images - images.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return Problem("digits", contexts[order], np.eye(10)[labels[order]], seed=seed)
