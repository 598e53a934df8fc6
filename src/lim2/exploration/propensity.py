"""Probability that each arm has the largest of independent Student-t scores, by quadrature.

With f_i and F_i the density and the distribution function of arm i's score, arm i is chosen with probability

    P_i = integral of f_i(x) prod_{j != i} F_j(x) dx.

One set of nodes serves all arms. The line is cut into panels that are as short as the arm needs whose features are
finest there: a few scales s_j around arm j's location m_j, and proportional to |x - m_j| away from it, because the
density's singularities lie at that distance. So scales of 1e-9 and 1 can stand side by side, and heavy tails need a
handful of panels more. In a panel, Gauss-Legendre nodes integrate the product, and the same nodes integrate every f_j
from one node to the next, which gives all F_j: the special function is evaluated once per arm, where the panels begin.

Rows of cases are computed together. One case alone costs some thirty NumPy calls, more than the arithmetic in them. So
its panels are found with Python numbers, and what depends on the degrees of freedom alone is kept between calls.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.special import poch, stdtr

Array = NDArray[np.float64]
Tail = tuple[float, float, float, float, float, float]

NODES = 16  # in a panel
CENTRE, NEARING, LEAVING = 6.0, 0.6, 5.0  # lengths of panels, see panels_of
CROWD = 0.15  # they are shorter by 1 + CROWD log k: a product of k distribution functions is steeper than one
REACH = 54.0  # tails are followed as far as the normal's to sqrt(54) = 7.3 deviations: 2e-13 is left out
CERTAIN = 1e-11  # a scale that is nothing against the distances between arms: the arm is where its location is
BULK = 1e4  # scales around its location that hold nearly all of a variable, whatever its tails
NORMAL = 1e12  # degrees of freedom that make a Student-t a normal, to the last digits
REACH_SHARE = (
    44.0  # a variable is left out if all it has, up to where the normal's tail is 2e-11, is below the bulk of another
)
MIN_TO_LEAVE_OUT = 12  # from so many variables on it pays to look for those that can be left out
MAX_WITHOUT_NUMPY = 128  # up to so many variables, the panels of one case are found faster without NumPy
CHUNK_NUMBERS = 2**14  # numbers in an array of many cases: it stays in the cache, and BLAS starts no threads


def _panel_rule(n: int) -> tuple[Array, Array, Array]:
    """Return three matrices for panels of n Gauss-Legendre nodes.

    From begin and length to nodes; from the same to weights; from weighted values to integrals up to each node.
    """
    nodes, weights = legendre.leggauss(n)
    # Interpolate by Legendre polynomials, and integrate these.
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, n - 1))
    antiderivatives = np.stack([legendre.legval(nodes, legendre.legint(row, lbnd=-1)) for row in np.eye(n)], axis=1)
    places, sizes = np.stack([np.ones(n), 0.5 + 0.5 * nodes]), np.stack([np.zeros(n), 0.5 * weights])
    return places, sizes, np.ascontiguousarray((antiderivatives @ to_coefficients / weights).T)


PLACES, SIZES, RUNNING = _panel_rule(NODES)
_ONES = np.ones(NODES)


def chances_of_largest(means: ArrayLike, scales: ArrayLike, freedom: ArrayLike) -> Array:
    """Return the probability that each of several independent Student-t variables is the largest.

    The absolute error is below 1e-6. Of variables that are certain, with a scale of 0 or one that vanishes against the
    mean in float64, the first of the largest counts, as ``argmax`` has it.

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
    if mu.ndim == 1:
        if len(mu) >= MIN_TO_LEAVE_OUT:
            near = _contenders(mu, scale, df)
            if 0 < len(near) < len(mu):
                out = np.zeros(len(mu))
                out[near] = chances_of_largest(mu[near], scale[near], df[near])
                return out
        out = _one_case(mu, scale, df)
        values = out.tolist()
        if min(values) >= 0.0:  # the usual case, without NumPy's overhead
            out /= sum(values)
            return out
    else:
        rows = max(1, CHUNK_NUMBERS // mu.shape[-1])
        parts = [(mu[i : i + rows], scale[i : i + rows]) for i in range(0, max(1, len(mu)), rows)]
        out = np.concatenate([_many_cases(*part, df) for part in parts])
    np.maximum(out, 0.0, out=out)  # by rounding, what is nothing may be below 0
    out /= np.add.reduce(out, axis=-1, keepdims=True)
    return out


def _contenders(mu: Array, scale: Array, df: Array) -> NDArray[np.intp]:
    """Return the places of the variables that may be the largest: the others are below the bulk of one of these."""
    freedom = np.minimum(df, NORMAL)
    extent = scale * np.sqrt(freedom * np.expm1(np.minimum(REACH_SHARE / freedom, 600.0)))
    near: NDArray[np.intp] = np.flatnonzero(mu + extent >= (mu - extent).max())
    return near


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
def _tails(freedom: bytes) -> tuple[list[Tail], Array]:
    """Return the numbers that depend only on the degrees of freedom, given as float64 bytes."""
    rows = list(map(_tail, np.frombuffer(freedom).tolist()))
    return rows, np.array(rows).T


@lru_cache(maxsize=4096)
def _tail(df: float) -> Tail:
    """Return, for a scale of 1, how far tails are followed; the same, up to BULK; a panel's width at the location.

    And then r, p and h of the density h / r (1 + (x / r)^2)^p.
    """
    df = min(df, NORMAL)
    root = math.sqrt(df)
    reach = root * math.sqrt(math.expm1(min(REACH / df, 600.0)))
    height = float(poch(0.5 * df, 0.5)) / math.sqrt(math.pi)
    return reach, min(reach, BULK), CENTRE * min(1.0, 0.5 * root), root, -0.5 * (df + 1.0), height


def _one_case(mu: Array, scale: Array, df: Array) -> Array:
    """Return the probabilities of one case as the quadrature gives them; their sum tells how far to trust them."""
    m, s = mu.tolist(), scale.tolist()
    if (
        len(m) > MAX_WITHOUT_NUMPY or not 2.0 * CERTAIN * sum(map(abs, m)) < min(s) <= sum(s) < math.inf
    ):  # or there is a NaN
        of_one: Array = _many_cases(mu[None], scale[None], df)[0] if any(s) else one_hot(mu)
        return of_one
    tails, columns = _tails(df.tobytes())
    crowd = 1.0 / (1.0 + CROWD * math.log(len(m)))
    leaving = LEAVING * crowd
    variables = list(zip(m, s, tails, strict=True))
    origin = max([a - b * tail[1] for a, b, tail in variables])
    x = begin = max([a - b * tail[0] for a, b, tail in variables]) - origin
    end = max([a + b * tail[0] for a, b, tail in variables]) - origin
    placed = [(a - origin, b * tail[2] * crowd) for a, b, tail in variables]
    bounds = [(a, w, a - w / NEARING, a + w / leaving) for a, w in placed]
    panels: list[tuple[float, float]] = []
    while x < end or not panels:  # the same panels as those of panels_of
        length = min([leaving * (x - a) if x > c else w if x > b else NEARING * (a - x) for a, w, b, c in bounds])
        if x + length > end:
            length = end - x
        panels.append((x, length))
        x += length
    mu, spread = mu - origin, scale * columns[3]
    below: Array = stdtr(df, (begin - mu) / scale)
    return _above(1, np.array(panels), mu, spread, columns[4], columns[5] / spread, below)


def _many_cases(mu: Array, scale: Array, df: Array) -> Array:
    """Return the probabilities for rows of cases, in which variables may be certain.

    What counts happens above the place where the last variable begins, and a certain one begins where it is. So all
    that are certain are put at minus infinity; the last of them counts if all others are below it.
    """
    k, (reach, bulk, width, root, power, height) = mu.shape[1], _tails(df.tobytes())[1]
    crowd = 1.0 / (1.0 + CROWD * math.log(k))
    certain, origin = _certain(mu, scale, mu - scale * bulk)
    begins = np.where(certain, mu, mu - scale * reach)
    last = begins.argmax(axis=1)[:, None]
    begin = np.take_along_axis(begins, last, axis=1) - origin
    mu, scale = np.where(certain, -np.inf, mu - origin), np.where(certain, 1.0, scale)
    end = np.maximum(begin, (mu + scale * reach).max(axis=1, keepdims=True))
    panels = panels_of(begin, end, mu, scale * (width * crowd), LEAVING * crowd)
    spread, below = scale * root, stdtr(df, (begin - mu) / scale)
    variables = np.stack([mu, spread, np.broadcast_to(power, mu.shape), height / spread, below])
    counts = np.maximum(1, np.count_nonzero(panels[:, :, 1], axis=1))
    out, order, start = np.empty(mu.shape), (-counts).argsort(), 0
    while start < len(out):  # rows with about as many panels together
        count = int(counts[order[start]])
        rows = order[start : start + max(1, CHUNK_NUMBERS // (k * count * NODES))]
        out[rows] = _above(len(rows), panels[rows, :count].reshape(-1, 2), *variables[:, rows].reshape(5, -1))
        start += len(rows)
    return np.where(certain & (np.arange(k) == last), below.prod(axis=1, keepdims=True), out)


def _certain(mu: Array, scale: Array, lowest: Array) -> tuple[NDArray[np.bool_], Array]:
    """Return which variables are certain in float64 relative to an origin, and that origin.

    Numbers have their digits where they are small. So the origin is where the bulk begins that begins last: variables
    that are narrower than rounding there are far below, or alone where they are.
    """
    certain = mu + 8.0 * scale == mu
    while True:
        origin = np.where(certain, mu, lowest).max(axis=1, keepdims=True)
        narrow = scale < CERTAIN * np.abs(mu - origin)
        if not (narrow & ~certain).any():
            return certain, origin
        certain |= narrow


def panels_of(begin: Array, end: Array, mu: Array, width: Array, leaving: float) -> Array:
    """Return begins and lengths of the panels of each row, (n, p, 2); from the end on, lengths are 0.

    A panel is as long as all variables allow. Each allows its width around its location; on the way there, the share
    NEARING of the distance; and behind it, a multiple of the distance.
    """
    edges = [begin]
    while len(edges) == 1 or (edges[-1] < end).any():
        distance = edges[-1] - mu
        allowed = np.maximum(np.maximum(leaving * distance, -NEARING * distance), width)
        edges.append(np.minimum(edges[-1] + allowed.min(axis=1, keepdims=True), end))
    joined = np.concatenate(edges, axis=1)
    return np.stack([joined[:, :-1], np.diff(joined, axis=1)], axis=2)


def _above(n: int, panels: Array, mu: Array, spread: Array, power: Array, height: Array, below: Array) -> Array:
    """Return each variable's probability to be the largest and in a panel, (n, k); (k,) if n is 1.

    Given are panels of n rows, (n p, 2); variables of n rows, (n k,); and their probabilities to be below the panels.
    """
    p = len(panels) // n
    x, weights = panels.dot(PLACES).reshape(n, 1, p * NODES), panels.dot(SIZES).reshape(n, 1, p * NODES)
    cases = x - mu.reshape(n, -1, 1)
    density = cases.reshape(-1, p * NODES)  # the same numbers; up to its last step in place
    density /= spread[:, None]
    density *= density
    np.log1p(density, out=density)
    density *= power[:, None]
    np.exp(density, out=density)
    density *= height[:, None]
    cases *= weights
    by_panel = density.reshape(-1, NODES)
    reached = np.empty((len(mu), p + 1))  # the distribution functions at the edges of panels
    reached[:, 0] = below
    reached[:, 1:] = by_panel.dot(_ONES).reshape(-1, p)
    np.add.accumulate(reached, axis=1, out=reached)
    distribution = by_panel.dot(RUNNING).reshape(-1, p, NODES)
    distribution += reached[:, :-1, None]
    distribution = distribution.reshape(density.shape)
    density /= distribution
    product: Array = np.multiply.reduce(distribution.reshape(cases.shape), axis=1)
    out: Array = (cases @ product[:, :, None])[:, :, 0] if n > 1 else density.dot(product[0])
    return out
