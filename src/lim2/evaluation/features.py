"""Choose the regression that predicts the rewards of a table, given its contexts and candidates."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.encoding import Encoder
from lim2.evaluation.models import Array, Splits, by_arm, over_items
from lim2.log.table import Table


def regressed(table: Table, splits: Splits) -> Array:
    """Return the predicted rewards of all candidates, (m,).

    Parameters
    ----------
    table
        The logged decisions.
    splits
        Pairs (rows to fit on, rows to predict).
    """
    contexts, items = as_columns(table)
    if items is not None:
        return over_items(contexts, items, table.played, table.rewards, table.candidates, splits)
    return by_arm(contexts, table.chosen, table.rewards, table.candidates, splits)


def as_columns(table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return contexts (n, d) and the candidates' features (m, e) as numbers; None for items without features.

    Raw values are encoded, with numbers scaled by the moments of the whole table.

    Parameters
    ----------
    table
        The logged decisions.
    """
    items = table.candidates.items
    contexts = _encoded(table.contexts) if table.is_raw else table.contexts.reshape(len(table), -1).astype(np.float64)
    if items is None:
        return contexts, None
    return contexts, _encoded(items) if items.dtype == object else items.astype(np.float64)


def _encoded(raws: NDArray[Any]) -> NDArray[np.float64]:
    encoder = Encoder()
    known = functools.reduce(encoder.observe, raws, encoder.init())
    return encoder.encode_many(known, raws)
