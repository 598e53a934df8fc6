"""How likely each arm has the largest score, when scores are independent and Student-t: by quadrature, no simulation.

With f_i and F_i the density and the distribution function of arm i's score, arm i is chosen with probability

    P_i = integral of f_i(x) prod_{j != i} F_j(x) dx.

One set of nodes serves all arms. The line is cut into panels that are as short as the arm needs whose features are
finest there: a few scales s_j around arm j's location m_j, and proportional to |x - m_j| away from it, because the
density's singularities lie at that distance. So scales of 1e-9 and 1 can stand side by side, and heavy tails need a
handful of panels more. In a panel, Gauss-Legendre nodes integrate the product, and the same nodes integrate every f_j
from one node to the next, which gives all F_j: the special function is evaluated once an arm, where the panels begin.

Many cases are computed together, chunk by chunk; cases of a chunk have about the same number of panels. The time of a
single case is that of some thirty NumPy calls, so its panels are found with plain Python numbers, and what depends on
the degrees of freedom alone is kept from call to call.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.special import poch, stdtr

Array = NDArray[np.float64]

NODES = 16  # in a panel
CENTRE, NEARING, LEAVING = 6.0, 0.6, 5.0  # lengths of panels, see _panels
CROWD = 0.15  # panels are shorter by 1 + CROWD log k: the product of k distribution functions is steeper than one
REACH = 54.0  # tails are followed as far as the normal's to sqrt(54) = 7.3 deviations: 2e-13 is left out
CERTAIN = 1e-11  # a scale that is nothing against the distances between arms: the arm is where its location is
BULK = 1e4  # scales around its location that hold nearly all of a variable, whatever its tails
NORMAL = 1e12  # degrees of freedom that make a Student-t a normal, to the last digits
FEW = 128  # up to so many variables, the panels of one case are found sooner without NumPy
AT_ONCE = 2**16  # numbers in an array of many cases: what a processor's cache holds


class _Tails(NamedTuple):
    """What the degrees of freedom of k variables determine, in units of their scales."""

    df: Array
    root: Array  # of df
    height: Array  # of the density, times root
    power: Array  # the density falls as (1 + x^2 / df) to this power; (k, 1)
    reach: Array  # how far the tails are followed
    bulk: Array  # the same, but no farther than BULK
    width: Array  # of a panel around the location
    leaving: float  # width of a panel away from it, in units of the distance


def _panel_rule(n: int) -> tuple[Array, Array]:
    """Return two matrices of Gauss-Legendre quadrature in a panel.

    The first makes nodes and weights, side by side, of a panel's begin and length. The second makes integrals from the
    begin to each node, of values that have been multiplied by the weights.
    """
    nodes, weights = legendre.leggauss(n)
    # Interpolate by Legendre polynomials, and integrate these.
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, n - 1))
    antiderivatives = np.stack([legendre.legval(nodes, legendre.legint(row, lbnd=-1)) for row in np.eye(n)], axis=1)
    places = np.block([[np.ones(n), np.zeros(n)], [0.5 + 0.5 * nodes, 0.5 * weights]])
    return places, np.ascontiguousarray((antiderivatives @ to_coefficients / weights).T)


_PLACES, _RUNNING = _panel_rule(NODES)
_ONES = np.ones(NODES)


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
    Two normals: the probability is Phi(0.5 / sqrt(0.3^2 + 0.4^2)) = Phi(1).

    >>> chances_of_largest([0.5, 0.0], [0.3, 0.4], np.inf).round(6).tolist()
    [0.841345, 0.158655]
    >>> chances_of_largest([0.0, 0.0, 1.0], [1.0, 1e-9, 0.0], 12.0).round(6).tolist()
    [0.168525, 0.0, 0.831475]
    """
    mu, scale = np.asarray(means, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    df = np.asarray(freedom, dtype=np.float64)
    if not df.ndim:
        df = np.full(mu.shape[-1], df)
    tails = _tails(df.tobytes())
    if mu.ndim == 1:
        out = _one(mu, scale, tails)
    else:
        out, rows = np.empty(mu.shape), max(1, AT_ONCE // mu.shape[-1])
        for i in range(0, len(mu), rows):
            out[i : i + rows] = _many(mu[i : i + rows], scale[i : i + rows], tails)
    np.maximum(out, 0.0, out=out)  # where rounding has left -1e-20
    out /= np.add.reduce(out, axis=-1, keepdims=True)
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


@lru_cache(maxsize=64)
def _tails(freedom: bytes) -> _Tails:
    """Return what k degrees of freedom determine, given as float64."""
    columns = np.array([_tail(df) for df in np.frombuffer(freedom).tolist()]).T
    df, root, height, power, reach = columns
    crowd = 1.0 / (1.0 + CROWD * math.log(len(df)))
    width = crowd * CENTRE * np.minimum(1.0, 0.5 * root)
    return _Tails(df, root, height, power[:, None], reach, np.minimum(reach, BULK), width, crowd * LEAVING)


@lru_cache(maxsize=4096)
def _tail(df: float) -> tuple[float, float, float, float, float]:
    df = min(df, NORMAL)
    reach = math.sqrt(df * math.expm1(min(REACH / df, 600.0)))
    return df, math.sqrt(df), float(poch(0.5 * df, 0.5)) / math.sqrt(math.pi), -0.5 * (df + 1.0), reach


def _one(mu: Array, scale: Array, tails: _Tails) -> Array:
    """Return the probabilities of one case as the quadrature gives them; their sum tells how far they can be trusted."""
    m, s = mu.tolist(), scale.tolist()
    if len(m) > FEW or not min(s) > 2.0 * CERTAIN * max(map(abs, m)):
        return _many(mu[None], scale[None], tails)[0]
    origin = max([a - b * c for a, b, c in zip(m, s, tails.bulk.tolist(), strict=True)])
    panels = _panels_of_one([a - origin for a in m], s, tails)
    return _above(panels, mu - origin, scale, tails)[0]


def _many(mu: Array, scale: Array, tails: _Tails) -> Array:
    """Return the same for n cases, (n, k), of which some may have certain variables.

    All happens above the place where the last variable begins, and a certain one begins where it is. There, others
    that are certain are as good as at minus infinity.
    """
    certain, origin = _certain(mu, scale, mu - scale * tails.bulk)
    begin = np.where(certain, mu, mu - scale * tails.reach)
    last = begin.argmax(axis=1)[:, None]
    mu, scale = np.where(certain, -np.inf, mu - origin), np.where(certain, 1.0, scale)
    panels = _panels(np.take_along_axis(begin, last, axis=1) - origin, mu, scale, tails)
    counts = np.maximum(np.count_nonzero(panels[:, :, 1], axis=1), 1)
    order, done, k = (-counts).argsort(), 0, mu.shape[1]
    out, below = np.empty(mu.shape), np.empty(mu.shape)
    while done < len(order):
        count = int(counts[order[done]])
        rows = order[done : done + max(1, AT_ONCE // (k * count * NODES))]
        out[rows], below[rows] = _above(panels[rows, :count], mu[rows], scale[rows], tails)
        done += len(rows)
    return np.where(certain & (np.arange(k) == last), below.prod(axis=1, keepdims=True), out)


def _certain(mu: Array, scale: Array, lowest: Array) -> tuple[NDArray[np.bool_], Array]:
    """Tell which variables are certain, to float64, as seen from an origin (n, 1); and that origin.

    Numbers have their digits where they are small. So the origin is where the variable begins whose bulk begins last:
    variables that are narrower than rounding there are far below, or alone where they are.
    """
    certain = mu + 8.0 * scale == mu
    while True:
        origin = np.where(certain, mu, lowest).max(axis=1, keepdims=True)
        narrow = scale < CERTAIN * np.abs(mu - origin)
        if not (narrow & ~certain).any():
            return certain, origin
        certain |= narrow


def _above(panels: Array, mu: Array, scale: Array, tails: _Tails) -> tuple[Array, Array]:
    """Return each variable's probability to be the largest and in a panel, and to be below all panels.

    Of one case, with panels (p, 2), begin and length, and variables (k,); or of n cases, with one axis more in front.
    """
    cases, p = mu.shape[:-1], panels.shape[-2]
    places, spread = panels.dot(_PLACES), scale * tails.root
    density = places[..., :NODES].reshape(*cases, 1, p * NODES) - mu[..., None]  # up to its last step in place
    density /= spread[..., None]
    density *= density
    np.log1p(density, out=density)
    density *= tails.power
    np.exp(density, out=density)
    density *= (tails.height / spread)[..., None]
    density *= places[..., NODES:].reshape(*cases, 1, p * NODES)  # from here on times the weights
    by_panel = density.reshape(-1, NODES)
    reached = np.empty((*mu.shape, p + 1))  # the distribution function at the panels' ends
    stdtr(tails.df, (panels[..., 0, :1] - mu) / scale, out=reached[..., 0])
    reached[..., 1:] = by_panel.dot(_ONES).reshape(*mu.shape, p)
    np.add.accumulate(reached, axis=-1, out=reached)
    distribution = by_panel.dot(_RUNNING).reshape(*mu.shape, p, NODES)
    distribution += reached[..., :-1, None]
    distribution = distribution.reshape(density.shape)
    density /= distribution
    product = np.multiply.reduce(distribution, axis=-2)
    return (density @ product[..., None])[..., 0], reached[..., 0]


def _panels(start: Array, mu: Array, scale: Array, tails: _Tails) -> Array:
    """Return begins and lengths of panels from start to where the tails end, (n, p, 2), of length 0 after the end.

    A panel is as long as the variable allows that allows least: a few scales around its location, and longer with the
    distance, so that NEARING leaves room between the panel and the location, and LEAVING is no more than a multiple.
    """
    x, width = start, scale * tails.width
    end = np.maximum(start, (mu + scale * tails.reach).max(axis=1, keepdims=True))
    edges = [x]
    while len(edges) == 1 or (x < end).any():
        distance = x - mu
        allowed = np.maximum(np.maximum(tails.leaving * distance, -NEARING * distance), width)
        x = np.minimum(x + allowed.min(axis=1, keepdims=True), end)
        edges.append(x)
    joined = np.concatenate(edges, axis=1)
    return np.stack([joined[:, :-1], np.diff(joined, axis=1)], axis=2)


def _panels_of_one(mu: list[float], scale: list[float], tails: _Tails) -> Array:
    """Return the same for one case, (p, 2), without NumPy."""
    reaches, leaving = [b * c for b, c in zip(scale, tails.reach.tolist(), strict=True)], tails.leaving
    x = max([a - b for a, b in zip(mu, reaches, strict=True)])
    end = max([a + b for a, b in zip(mu, reaches, strict=True)])
    widths = [b * c for b, c in zip(scale, tails.width.tolist(), strict=True)]
    arms = [(a, w, a - w / NEARING, a + w / leaving) for a, w in zip(mu, widths, strict=True)]
    panels: list[tuple[float, float]] = []
    while x < end or not panels:
        length = min([leaving * (x - a) if x > far else w if x > near else NEARING * (a - x) for a, w, near, far in arms])
        length = min(length, end - x)
        panels.append((x, length))
        x += length
    return np.array(panels)
