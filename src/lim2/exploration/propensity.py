"""How likely each arm has the largest score, when scores are independent and Student-t: by quadrature, no simulation.

With f_i and F_i the density and the distribution function of arm i's score, arm i is chosen with probability

    P_i = integral of f_i(x) prod_{j != i} F_j(x) dx.

One set of nodes serves all arms. The line is cut into panels that are as short as the arm needs whose features are
finest there: about the scale s_j around arm j's location m_j, and proportional to |x - m_j| away from it, because the
density's singularities lie at that distance. So scales of 1e-9 and 1 can stand side by side, and heavy tails need a
handful of panels more. In a panel, Gauss-Legendre nodes integrate the product, and the same nodes integrate every f_j
from one node to the next, which gives all F_j: the special function is evaluated once an arm, where the panels begin.
"""

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.special import poch, stdtr

Array = NDArray[np.float64]

NODES = 8  # in a panel
PANEL = 1.6  # length of a panel, in units of the finest arm's hypot(scale, distance)
SPACING = 0.8  # of the points at which that length is looked up, in asinh of the distance in scales
REACH = 60.0  # tails are followed as far as the normal's to sqrt(60) = 7.7 deviations: 5e-15 is left out
NORMAL = 1e12  # degrees of freedom that make a Student-t a normal, to the last digits


def _panel_rule(n: int) -> tuple[Array, Array, Array]:
    """Return nodes and weights of Gauss-Legendre on [-1, 1], and the matrix that integrates from -1 to each node."""
    nodes, weights = legendre.leggauss(n)
    # Interpolate by Legendre polynomials, and integrate these.
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, n - 1))
    antiderivatives = np.stack([legendre.legval(nodes, legendre.legint(row, lbnd=-1)) for row in np.eye(n)], axis=1)
    return nodes, weights, antiderivatives @ to_coefficients


_NODES, _WEIGHTS, _RUNNING = _panel_rule(NODES)


def chances_of_largest(means: ArrayLike, scales: ArrayLike, freedom: ArrayLike) -> Array:
    """Return how likely each of several independent Student-t variables is the largest.

    The absolute error is below 1e-6. Of variables that are certain, with a scale of 0 or one that vanishes against the
    mean in float64, the first of the largest counts, as ``argmax`` has it.

    Parameters
    ----------
    means, scales
        Location and scale of each, (k,), or (n, k) for n cases.
    freedom
        Degrees of freedom, (k,) or one for all; infinity for normal variables.

    Examples
    --------
    Two normals: the chance is Phi(0.5 / sqrt(0.3^2 + 0.4^2)) = Phi(1).

    >>> chances_of_largest([0.5, 0.0], [0.3, 0.4], np.inf).round(6).tolist()
    [0.841345, 0.158655]
    >>> chances_of_largest([0.0, 0.0, 1.0], [1.0, 1e-9, 0.0], 12.0).round(6).tolist()
    [0.168525, 0.0, 0.831475]
    """
    mu, scale = np.asarray(means, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    df = np.minimum(np.broadcast_to(np.asarray(freedom, dtype=np.float64), mu.shape[-1:]), NORMAL)
    if mu.ndim == 1:
        return _chances(mu, scale, df)
    out = np.empty(mu.shape)
    for row, (m, s) in enumerate(zip(mu, scale, strict=True)):
        out[row] = _chances(m, s, df)
    return out


def one_hot(scores: Array) -> Array:
    """Return 1 for the largest along the last axis, the first of equals, and 0 for the others.

    Examples
    --------
    >>> one_hot(np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    out = np.zeros(scores.shape)
    np.put_along_axis(out, scores.argmax(axis=-1)[..., None], 1.0, axis=-1)
    return out


def _chances(mu: Array, scale: Array, df: Array) -> Array:
    reach = np.sqrt(df * np.expm1(np.minimum(REACH / df, 600.0)))  # how many scales the tails are followed
    certain = mu + 8.0 * scale == mu
    if len(mu) == 1 or certain.all():
        return one_hot(mu)
    if not certain.any():
        return _from(float((mu - reach * scale).max()), mu, scale, df, reach)[0]
    best = int(np.where(certain, mu, -np.inf).argmax())
    out, open_ = np.zeros(len(mu)), ~certain
    out[open_], below = _from(mu[best], mu[open_], scale[open_], df[open_], reach[open_])
    out[best] = below
    return out


def _from(start: float, mu: Array, scale: Array, df: Array, reach: Array) -> tuple[Array, float]:
    """Return each variable's chance to be the largest and above ``start``, and the chance that all are below."""
    mu = mu - start  # panels begin at 0: distances to the finest arms, which begin last, keep all their digits
    below = stdtr(df, -mu / scale)
    edges = _panels(mu, scale, reach)
    half = 0.5 * np.diff(edges)
    x = edges[:-1, None] + half[:, None] * (1.0 + _NODES)  # (panels, nodes)
    column = (slice(None), None, None)
    t = (x - mu[column]) / scale[column]  # (arms, panels, nodes)
    t *= t
    t /= df[column]
    np.log1p(t, out=t)
    t *= (-0.5 * (df + 1.0))[column]
    density = np.exp(t, out=t)
    density *= (poch(0.5 * df, 0.5) / (np.sqrt(np.pi * df) * scale))[column] * half[:, None]
    reached = np.cumsum(density @ _WEIGHTS, axis=1)
    distribution = density @ _RUNNING.T
    distribution[:, 0] += below[:, None]
    distribution[:, 1:] += (below[:, None] + reached[:, :-1])[:, :, None]
    np.maximum(distribution, 1e-300, out=distribution)
    density *= distribution.prod(axis=0)
    density /= distribution
    chances = np.maximum((density @ _WEIGHTS).sum(axis=1), 0.0)
    all_below = float(below.prod())
    return chances, all_below


def _panels(mu: Array, scale: Array, reach: Array) -> Array:
    """Return the edges of the panels, from 0 to where all tails end."""
    end = float((mu + reach * scale).max())
    if end <= 0.0:
        return np.zeros(2)
    far = np.arcsinh(reach)
    count = int(np.ceil(far.max() / SPACING))
    steps = np.arange(-count, count + 1) / count
    points = (mu[:, None] + scale[:, None] * np.sinh(far[:, None] * steps)).ravel()
    points.sort()
    points = np.concatenate(([0.0], points[points.searchsorted(0.0, "right") : points.searchsorted(end)], [end]))
    needed = np.hypot(points - mu[:, None], scale[:, None]).min(axis=0)  # length scale at every point
    np.divide(1.0, needed, out=needed)
    lengths = np.concatenate(([0.0], np.cumsum(np.diff(points) * (needed[1:] + needed[:-1]))))
    panels = int(np.ceil(lengths[-1] / (2.0 * PANEL)))
    return np.interp(np.linspace(0.0, lengths[-1], panels + 1), lengths, points)
