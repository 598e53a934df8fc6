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

NODES = 12  # in a panel
CENTRE, NEARING, LEAVING = 2.5, 0.5, 3.0  # lengths of panels, see _panels
REACH = 60.0  # tails are followed as far as the normal's to sqrt(60) = 7.7 deviations: 5e-15 is left out
CERTAIN = 1e-11  # a scale that is nothing against the distances between arms: the arm is where its location is
BULK = 1e4  # scales around its location that hold nearly all of a variable, whatever its tails
ROOT_PI = float(np.sqrt(np.pi))
TINY = 1e-300  # a distribution function that may be divided by
NORMAL = 1e12  # degrees of freedom that make a Student-t a normal, to the last digits


def _panel_rule(n: int) -> tuple[Array, Array, Array]:
    """Return nodes and weights of Gauss-Legendre on [0, 1], and the matrix that integrates from 0 to each node."""
    nodes, weights = legendre.leggauss(n)
    # Interpolate by Legendre polynomials, and integrate these.
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, n - 1))
    antiderivatives = np.stack([legendre.legval(nodes, legendre.legint(row, lbnd=-1)) for row in np.eye(n)], axis=1)
    return 0.5 + 0.5 * nodes, 0.5 * weights, np.ascontiguousarray(0.5 * (antiderivatives @ to_coefficients).T)


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
    df = np.minimum(freedom, NORMAL)
    if not df.ndim:
        df = np.full(mu.shape[-1], df)
    if mu.ndim == 1:
        chances: Array = _chances(mu, scale, df)
    else:
        chances = np.empty(mu.shape)
        for row, (m, s) in enumerate(zip(mu, scale, strict=True)):
            chances[row] = _chances(m, s, df)
    chances /= chances.sum(axis=-1, keepdims=True)
    return chances


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
    """Return the chances of one case as the quadrature gives them; their sum tells how far it can be trusted."""
    reach = scale * np.sqrt(df * np.expm1(np.minimum(REACH / df, 600.0)))  # how far the tails are followed
    bulk = np.minimum(reach, BULK * scale)
    if scale.min() > 2.0 * CERTAIN * np.abs(mu).max():
        origin = mu[(mu - bulk).argmax()]
        return _above(float((mu - reach).max() - origin), mu - origin, scale, df, reach)[0]
    certain, origin = _certain(mu, scale, bulk)
    begin = np.where(certain, mu, mu - reach)
    last, uncertain = int(begin.argmax()), ~certain
    out, below = np.zeros(len(mu)), np.ones(1)
    if uncertain.any():
        parts = (part[uncertain] for part in (mu - origin, scale, df, reach))
        out[uncertain], below = _above(float(begin[last] - origin), *parts)
    if certain[last]:
        out[last] = below.prod()
    return out


def _certain(mu: Array, scale: Array, bulk: Array) -> tuple[NDArray[np.bool_], float]:
    """Tell which variables are certain, to float64, as seen from an origin; and that origin.

    Numbers have their digits where they are small. So the origin is the location of the variable whose bulk begins
    last: variables that are narrower than rounding there are far below, or alone where they are.
    """
    certain = mu + 8.0 * scale == mu
    while True:
        origin = float(mu[np.where(certain, mu, mu - bulk).argmax()])
        narrow = scale < CERTAIN * np.abs(mu - origin)
        if not (narrow & ~certain).any():
            return certain, origin
        certain |= narrow


def _above(start: float, mu: Array, scale: Array, df: Array, reach: Array) -> tuple[Array, Array]:
    """Return each variable's chance to be the largest and above ``start``, and its chance to be below."""
    spread = scale * np.sqrt(df)
    below = stdtr(df, (start - mu) / scale)
    edges = _panels(start, float((mu + reach).max()), mu, np.minimum(scale, spread))
    length = (edges[1:] - edges[:-1])[:, None]
    x = edges[:-1, None] + length * _NODES  # (panels, nodes)
    density = x - mu[:, None, None]  # (arms, panels, nodes), up to its last step in place
    density /= spread[:, None, None]
    density *= density
    np.log1p(density, out=density)
    density *= (-0.5 * (df + 1.0))[:, None, None]
    np.exp(density, out=density)
    density *= (poch(0.5 * df, 0.5) / (ROOT_PI * spread))[:, None, None] * length
    mass = density @ _WEIGHTS  # (arms, panels)
    reached = mass.cumsum(axis=1)
    reached -= mass
    reached += below[:, None]
    distribution = density @ _RUNNING
    distribution += reached[:, :, None]
    np.maximum(distribution, TINY, out=distribution)
    density *= distribution.prod(axis=0)
    density /= distribution
    return (density @ _WEIGHTS).sum(axis=1), below


def _panels(start: float, end: float, mu: Array, scale: Array) -> Array:
    """Return the edges of panels from start to end, CENTRE scales long around an arm, longer with the distance."""
    centre = CENTRE * scale
    columns = (mu, centre, mu - centre / NEARING, mu + centre / LEAVING)
    arms = list(zip(*(column.tolist() for column in columns), strict=True))
    x, edges = start, [start]
    while x < end or len(edges) == 1:
        x += min(
            [
                width if near < x < left else NEARING * (m - x) if x <= near else LEAVING * (x - m)
                for m, width, near, left in arms
            ]
        )
        edges.append(x)
    return np.array(edges)
