"""Reward models for the doubly robust estimate: ridge regressions, never fitted on the rows that they predict."""

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.encoding import Encoder
from lim2.log.candidates import Candidates
from lim2.log.table import Table

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Splits = list[tuple[Rows, Rows]]  # rows to fit on, rows to predict

MAX_PRODUCT_COLUMNS = 256  # of context and item; with more, only the columns themselves are used
ROWS_PER_CHUNK = 8192


def regressed(table: Table, splits: Splits) -> Array:
    """Return the predicted rewards of all candidates, (m,)."""
    contexts, items = as_columns(table)
    if items is not None:
        return over_items(contexts, items, table.played, table.rewards, table.candidates, splits)
    return by_arm(contexts, table.chosen, table.rewards, table.candidates, splits)


def as_columns(table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return contexts (n, d) and the candidates' features (m, e) as numbers; None for items without features.

    Raw values are encoded, with numbers scaled by the moments of the whole table.
    """
    items = table.candidates.items
    contexts = _encoded(table.contexts) if table.is_raw else table.contexts.reshape(len(table), -1).astype(np.float64)
    if items is None:
        return contexts, None
    return contexts, _encoded(items) if items.dtype == object else items.astype(np.float64)


def _encoded(raws: NDArray[Any]) -> NDArray[np.float64]:
    encoder = Encoder()
    state = functools.reduce(encoder.observe, raws, encoder.init())
    return encoder.encode_many(state, raws)


def ridge(contexts: Array, rewards: Array, penalty: float = 1.0) -> Array:
    """Return the weights (d + 1,), one per column and the constant, which is not penalised.

    Examples
    --------
    >>> xs = np.array([[-1.0], [1.0]] * 500)
    >>> ridge(xs, 3 + 2 * xs[:, 0]).round(2)
    array([2., 3.])
    """
    centre, level = contexts.mean(axis=0), rewards.mean()
    X = contexts - centre
    gram = X.T @ X
    gram[np.diag_indices_from(gram)] += penalty
    slope = np.linalg.solve(gram, X.T @ (rewards - level))
    return np.append(slope, level - centre @ slope)


def by_past(n: int, blocks: int) -> Splits:
    """Return pairs (rows to fit on, rows to predict) of growing blocks: each is predicted from all earlier ones.

    Examples
    --------
    >>> [(len(past), len(block)) for past, block in by_past(1000, 5)]
    [(0, 40), (40, 120), (160, 200), (360, 280), (640, 360)]
    """
    rows = np.arange(n)
    edges = (n * np.linspace(0, 1, blocks + 1) ** 2).astype(int).tolist()
    return [(rows[:start], rows[start:end]) for start, end in pairwise(edges)]


def by_folds(n: int, folds: int) -> Splits:
    """Return pairs (rows to fit on, rows to predict) for folds of every k-th row: each is predicted from all others.

    Examples
    --------
    >>> [(rest.tolist(), fold.tolist()) for rest, fold in by_folds(5, 2)]
    [([1, 3], [0, 2, 4]), ([0, 2, 4], [1, 3])]
    """
    fold = np.arange(n) % folds
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(min(folds, n))]


def by_arm(
    contexts: Array, chosen: Rows, rewards: Array, candidates: Candidates, splits: Splits, penalty: float = 1.0
) -> Array:
    """Return the predicted rewards of candidates, (m,), by one regression per arm, not fitted on the predicted row.

    The prediction for an arm without data is the mean over all arms; without any data it is 0.
    """
    predicted, rows = np.zeros(len(candidates.arms)), candidates.rows
    for fit, apply in splits:
        if not len(fit):
            continue
        X = Scale.of(contexts[fit])(contexts)
        places = _places_of(apply, candidates)
        predicted[places] = rewards[fit].mean()
        fits, needed = _grouped(fit, chosen[fit]), _grouped(places, candidates.arms[places])
        for arm in fits.keys() & needed.keys():
            weights = ridge(X[fits[arm]], rewards[fits[arm]], penalty)
            predicted[needed[arm]] = X[rows[needed[arm]]] @ weights[:-1] + weights[-1]
    return predicted


def over_items(
    contexts: Array, items: Array, played: Rows, rewards: Array, candidates: Candidates, splits: Splits,
    penalty: float = 1.0,
) -> Array:  # fmt: skip
    """Return the predicted rewards of candidates, (m,), by one regression over context, item and, if few, products."""
    predicted, rows = np.zeros(len(items)), candidates.rows
    for fit, apply in splits:
        if not len(fit):
            continue
        of_context, of_item = Scale.of(contexts[fit]), Scale.of(items[played[fit]])

        def joined(rows: Rows, places: Rows, x: Scale = of_context, z: Scale = of_item) -> Array:
            return _joined(x(contexts[rows]), z(items[places]))

        weights = _ridge_in_parts(joined, fit, played[fit], rewards[fit], penalty)
        places = _places_of(apply, candidates)
        for part in _parts(places):
            predicted[part] = joined(rows[part], part) @ weights[:-1] + weights[-1]
    return predicted


class Scale(NamedTuple):
    """Shift and divisor of each column."""

    centre: Array
    spread: Array

    @classmethod
    def of(cls, values: Array) -> "Scale":
        """Return the scale that gives these columns mean 0 and standard deviation 1."""
        spread = values.std(axis=0)
        return cls(values.mean(axis=0), np.where(spread > 0, spread, 1.0))

    def __call__(self, values: Array) -> Array:
        """Return the scaled columns."""
        scaled: Array = (values - self.centre) / self.spread
        return scaled


def _ridge_in_parts(
    joined: Callable[[Rows, Rows], Array], rows: Rows, places: Rows, rewards: Array, penalty: float
) -> Array:
    """Return the result of `ridge` without holding the features of all rows at once."""
    width = joined(rows[:1], places[:1]).shape[1] + 1
    gram, target = np.zeros((width, width)), np.zeros(width)
    for part in _parts(np.arange(len(rows))):
        F = np.ones((len(part), width))
        F[:, :-1] = joined(rows[part], places[part])
        gram += F.T @ F
        target += F.T @ rewards[part]
    gram[np.diag_indices(len(gram) - 1)] += penalty
    weights: Array = np.linalg.solve(gram, target)
    return weights


def _parts(rows: Rows) -> list[Rows]:
    return np.array_split(rows, 1 + len(rows) // ROWS_PER_CHUNK)


def _joined(X: Array, Z: Array) -> Array:
    """Return context and item side by side, with all products of their columns if these are few."""
    if X.shape[1] * Z.shape[1] > MAX_PRODUCT_COLUMNS:
        return np.hstack([X, Z])
    return np.hstack([X, Z, (X[:, :, None] * Z[:, None, :]).reshape(len(X), -1)])


def _places_of(rows: Rows, candidates: Candidates) -> Rows:
    """Return the indices of the candidates of some rows."""
    sizes = candidates.sizes[rows]
    offsets = np.repeat(candidates.starts[:-1][rows] - np.cumsum(sizes) + sizes, sizes)
    places: Rows = offsets + np.arange(sizes.sum())
    return places


def _grouped(values: Rows, keys: Rows) -> dict[int, Rows]:
    """Return the values of each key, in order."""
    order = np.argsort(keys, kind="stable")
    unique, starts = np.unique(keys[order], return_index=True)
    if not len(unique):  # np.split returns at least one part
        return {}
    return dict(zip(unique.tolist(), np.split(values[order], starts[1:]), strict=True))
