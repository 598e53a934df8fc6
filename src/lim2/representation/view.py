"""A view of contexts: how an algorithm turns them into features.

The features of a context are the hidden layer of a network, the scaled context itself, and a constant 1. A context of
many columns is narrowed: its most frequent columns stay, and the others are added up in groups, with signs (feature
hashing).
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import _kernels
from lim2.moments import Scaling, scaled
from lim2.representation.mlp import MLP, Network
from lim2.representation.optimizers import Descent, RMSProp, left_out, rate_of
from lim2.representation.protocol import Representation, Step
from lim2.state import Array, Ints

MOST_COLUMNS, SHARED_COLUMNS = 256, 64  # of a narrowed context, and how many of them are sums of rare columns
SMALLEST_SIZE, LARGEST_SIZE = 1e-60, 1e60


class View(NamedTuple):
    """A network, the scaling of its inputs, and the order of the columns of a context that is narrowed."""

    network: Any
    scaling: Scaling | None  # None where contexts are no vectors of numbers: they are not among the features then
    order: Annotated[Ints, "column", "count"] | None  # the most frequent columns first


def linear_columns(shape: tuple[int, ...], takes_floats: bool) -> int:
    """Return the number of features taken from the context: its columns, or those of the narrowed context."""
    return min(shape[0], MOST_COLUMNS) if takes_floats and len(shape) == 1 else 0


def by_frequency(rows: NDArray[Any]) -> Ints:
    """Return the columns by the number of rows in which they are not 0, the most frequent first.

    Examples
    --------
    >>> by_frequency(np.array([[0, 1, 1], [0, 0, 1]])).tolist()
    [2, 1, 0]
    """
    return np.argsort(-np.count_nonzero(rows, axis=0), kind="stable")


def narrowed(rows: Array, order: Ints) -> Array:
    """Return rows of ``MOST_COLUMNS`` columns: frequent ones as they are, then signed sums of the others.

    Examples
    --------
    >>> rows = np.arange(1000.0)[None]
    >>> out = narrowed(rows, np.arange(1000))
    >>> out.shape, out[0, :3].tolist(), float(out[0, 192])  # 192 - 193 + 194 - ... over 12 columns
    ((1, 256), [0.0, 1.0, 2.0], -6.0)
    """
    single = MOST_COLUMNS - SHARED_COLUMNS
    starts = np.arange(MOST_COLUMNS)
    starts[single:] = single + np.arange(SHARED_COLUMNS) * (len(order) - single) // SHARED_COLUMNS
    ordered = rows.take(order, axis=1)
    ordered[:, single + 1 :: 2] *= -1.0
    return np.add.reduceat(ordered, starts, axis=1)


def scaled_rows(view: View, contexts: NDArray[Any]) -> NDArray[Any]:
    """Return contexts scaled by the view, if they are numbers."""
    return contexts if view.scaling is None else scaled(view.scaling, contexts)


def features(
    net: Representation,
    view: View,
    contexts: NDArray[Any],
    linear: int,
    crossed: Callable[[NDArray[Any]], Array] | None = None,
) -> Array:
    """Return the features of rows of contexts: the network's hidden layer, the contexts themselves, and a 1.

    Where a row is a context and an item, ``crossed`` appends their products, which the network does not see.
    """
    by, whole = view.scaling, contexts.ndim == 2 and linear == contexts.shape[1] and view.order is None
    if _kernels.features and by is not None and whole and crossed is None and type(net) is MLP and net.is_shallow:
        return _kernels.features(view.network.parameters, net.width, by.center, by.factor, by.limit, contexts)
    out, hidden = np.empty((len(contexts), net.width + linear + 1)), net.width
    if not len(contexts):  # what not every network takes
        return out
    rows = scaled_rows(view, contexts)
    if hidden:
        out[:, :hidden] = net.features(view.network, rows)
    if linear:
        rows = rows if crossed is None else crossed(rows)
        out[:, hidden:-1] = rows if view.order is None else narrowed(rows, view.order)
    out[:, -1] = 1.0
    return out


def train(net: Representation, f: Any, inputs: NDArray[Any], arms: Ints, rewards: Array) -> tuple[Any, Step]:
    """Return the network after a training step of :meth:`Representation.train`, by the kernel where there is one.

    The paper's agents train without it: their kept results depend on the last digits.
    """
    if not (_kernels.train and type(net) is MLP and net.is_shallow and type(net.optimizer) is RMSProp):
        return net.train(f, inputs, arms, rewards)[1:]
    by, descent, clip = net.optimizer, f.descent, net.optimizer.clip
    parameters, mean_square, norm, loss = _kernels.train(
        f.parameters, descent.statistics, net.width, f.n_arms, inputs, arms, rewards,
        rate_of(by, descent), math.inf if clip is None else clip, by.keep, by.epsilon,
    )  # fmt: skip
    skipped = left_out(by, descent, norm)
    if skipped is not None:
        return f._replace(descent=skipped), Step(loss, norm)
    descent = Descent(mean_square, descent.steps + 1, descent.skipped, 0)
    return Network(parameters, descent, f.n_features, f.n_arms), Step(loss, norm)


def squared_lengths(rows: Array, hidden: int) -> Array:
    """Return, for every feature, the mean squared length of its group: hidden layer, context, constant.

    A group that is dead, has exploded or is not there counts as 1; so do all where there are no rows.

    Examples
    --------
    >>> squared_lengths(np.array([[3.0, 4.0, 0.1, 1.0]]), hidden=2).round(3).tolist()
    [25.0, 25.0, 0.01, 1.0]
    """
    squares, lengths = np.square(rows).sum(axis=0) / max(len(rows), 1), np.ones(rows.shape[1])
    for group in (slice(hidden), slice(hidden, -1)):
        length = float(squares[group].sum())
        if SMALLEST_SIZE <= length <= LARGEST_SIZE:
            lengths[group] = length
    return lengths
