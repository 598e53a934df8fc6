"""Thompson sampling for shares: the score of an arm is a probability, with a Beta posterior.

The chance that an arm has the largest of independent Beta variables is computed in logits x = log(p / (1 - p)). There a
Beta(a, b) has the density exp(a x) / (1 + exp(x))^(a + b) / B(a, b): one smooth hump at log(a / b), with a width of
sqrt(1 / a + 1 / b) and exponential tails. So the panels of ``propensity.py`` fit.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaln, expit

from lim2.exploration.propensity import CROWD, LEAVING, NODES, PLACES, RUNNING, SIZES, one_hot, panels_of
from lim2.exploration.scores import StudentT
from lim2.exploration.thompson import Thompson
from lim2.state import Array

CENTRE = 6.0  # length of the panel at a hump, in widths
REACH, TAIL = 8.0, 30.0  # a variable is followed for 8 widths, and then until its tail has fallen by exp(-30)


def shape_parameters(score: StudentT) -> tuple[Array, Array]:
    """Return a and b of the Beta distributions that have the means and the standard deviations of scores.

    Examples
    --------
    >>> a, b = shape_parameters(StudentT(np.array([0.25]), np.array([0.0375**0.5]), np.array([np.inf])))  # Beta(1, 3)
    >>> a.round(9).tolist(), b.round(9).tolist()
    ([1.0], [3.0])
    """
    total = score.mean * (1.0 - score.mean) / score.scale**2 - 1.0
    return score.mean * total, (1.0 - score.mean) * total


@dataclass(frozen=True)
class BetaThompson:
    """Play the arm whose sampled score is largest; scores with infinite degrees of freedom are shares.

    A share has the Beta distribution with the mean and the scale of the score; other scores are Student-t.
    """

    def scores(self, score: StudentT, rng: np.random.Generator) -> Array:
        """Draw a score for every arm."""
        if score.freedom[0] < math.inf:
            return Thompson().scores(score, rng)
        drawn: Array = rng.beta(*shape_parameters(score))
        return drawn

    def propensities(self, score: StudentT) -> Array:
        """Return the probability that each arm has the largest score, by quadrature, without drawing."""
        if score.freedom[0] < math.inf:
            return Thompson().propensities(score)
        a, b = shape_parameters(score)
        if a.ndim == 1:
            return chances_of_largest_share(a, b)
        same = (a == a[:1]).all() and (b == b[:1]).all()  # contexts do not matter
        rows = [chances_of_largest_share(*row) for row in zip(a[: 1 if same else None], b, strict=False)]
        return np.broadcast_to(np.array(rows).reshape(-1, a.shape[1]), a.shape).copy()


def chances_of_largest_share(a: Array, b: Array) -> Array:
    """Return the probability that each of several independent Beta variables is the largest.

    The absolute error is below 1e-6.

    Examples
    --------
    Beta(2, 1) exceeds Beta(1, 1), which is uniform, with the probability of its mean.

    >>> chances_of_largest_share(np.array([2.0, 1.0]), np.array([1.0, 1.0])).round(6).tolist()
    [0.666667, 0.333333]
    """
    centre, width = np.log(a / b), np.sqrt(1.0 / a + 1.0 / b)
    begin = (centre - REACH * width - TAIL / a).max()
    ends = centre + REACH * width + TAIL / b
    near = ends > begin  # the others are below an arm with all they have
    if near.sum() == 1:
        return one_hot(ends)
    out = np.zeros(len(a))
    a, b, centre, width = a[near], b[near], centre[near], width[near]
    crowd = 1.0 / (1.0 + CROWD * math.log(len(a)))
    shape = np.array([[begin]]), np.array([[ends.max()]]), centre[None], CENTRE * crowd * width[None], LEAVING * crowd
    panels = panels_of(*shape)[0]
    x, weights = panels.dot(PLACES).ravel(), panels.dot(SIZES).ravel()
    density = np.exp(np.outer(a, x) - np.outer(a + b, np.logaddexp(0.0, x)) - betaln(a, b)[:, None])
    density *= weights
    by_panel = density.reshape(-1, NODES)
    whole = by_panel.sum(axis=1).reshape(len(a), -1)
    reached = np.cumsum(np.column_stack([betainc(a, b, expit(begin)), whole]), axis=1)[:, :-1]
    distribution = (by_panel.dot(RUNNING) + reached.reshape(-1, 1)).reshape(density.shape)
    out[near] = (density / distribution).dot(distribution.prod(axis=0))
    out /= out.sum()
    return out
