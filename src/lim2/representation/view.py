"""A view: the fixed map from contexts to the features of the linear posterior, replaced at a refit.

The features are the hidden layer of a network, the context itself and a constant 1. The context is scaled column by
column; where it has more columns than a covariance affords, random projections of it stand for it.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.representation.protocol import Representation
from lim2.representation.scaling import Scaling, scaled
from lim2.state import Array

MOST_COLUMNS = 256  # of the context among the features; more are projected to so many
SMALLEST_SIZE, LARGEST_SIZE = 1e-60, 1e60


class View(NamedTuple):
    """A network, the scaling of its inputs, and the projection of a context of many columns."""

    network: Any
    scaling: Scaling | None  # None where contexts are no vectors of numbers: they are not among the features then
    projection: Annotated[Array, "column linear"] | None


def linear_columns(shape: tuple[int, ...], takes_floats: bool) -> int:
    """Return the number of features taken from the context: all its columns, or projections of them."""
    return min(shape[0], MOST_COLUMNS) if takes_floats and len(shape) == 1 else 0


def projection(columns: int, linear: int, rng: np.random.Generator) -> Array | None:
    """Return a random projection that keeps squared lengths on average; None where none is needed."""
    return rng.standard_normal((columns, linear)) / math.sqrt(linear) if 0 < linear < columns else None


def inputs(view: View, contexts: NDArray[Any]) -> NDArray[Any]:
    """Return contexts as the network gets them: scaled, if they are numbers."""
    return contexts if view.scaling is None else scaled(view.scaling, contexts)


def features(
    net: Representation,
    view: View,
    contexts: NDArray[Any],
    linear: int,
    crossed: Callable[[NDArray[Any]], Array] | None = None,
) -> Array:
    """Return the features of rows of contexts: the network's hidden layer, the contexts themselves, and a 1.

    Where a row is a context and an item, ``crossed`` appends their products: they are among the own features, too.
    """
    out, hidden = np.empty((len(contexts), net.width + linear + 1)), net.width
    if not len(contexts):  # what not every network takes
        return out
    rows = inputs(view, contexts)
    out[:, :hidden] = net.features(view.network, rows)
    if linear:
        rows = rows if crossed is None else crossed(rows)
        out[:, hidden:-1] = rows if view.projection is None else np.dot(rows, view.projection)
    out[:, -1] = 1.0
    return out


def squared_lengths(rows: Array, hidden: int) -> Array:
    """Return, for every feature, the mean squared length of its group: hidden layer, context, constant.

    A group that is dead, has exploded or is not there counts as 1.

    Examples
    --------
    >>> squared_lengths(np.array([[3.0, 4.0, 0.1, 1.0]]), hidden=2).round(3).tolist()
    [25.0, 25.0, 0.01, 1.0]
    """
    squares, lengths = np.square(rows).mean(axis=0), np.ones(rows.shape[1])
    for group in (slice(hidden), slice(hidden, -1)):
        length = float(squares[group].sum())
        if SMALLEST_SIZE <= length <= LARGEST_SIZE:
            lengths[group] = length
    return lengths
