"""Which regression predicts the rewards of a table: it depends on what is known of contexts and candidates."""

import numpy as np
from numpy.typing import NDArray

from lim2.evaluation.models import Array, Splits, by_arm, by_name, over_items
from lim2.log.table import Table


def regressed(table: Table, splits: Splits) -> Array:
    """Return (m,) predicted rewards of all candidates.

    Parameters
    ----------
    table
        The logged decisions.
    splits
        (rows to fit on, rows to predict).
    """
    contexts, items = as_columns(table)
    if items is not None and contexts is not None:
        return over_items(contexts, items, table.played, table.rewards, table.candidates, splits)
    if contexts is not None:
        return by_arm(contexts, table.chosen, table.rewards, table.candidates, splits)
    return by_name(table.chosen, table.rewards, table.candidates, splits)


def as_columns(table: Table) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return contexts (n, d) and the candidates' features (m, e) as numbers; None for what is raw, or not there.

    Parameters
    ----------
    table
        The logged decisions.
    """
    items = table.candidates.items
    contexts = None if table.is_raw else table.contexts.reshape(len(table), -1).astype(np.float64)
    vectors = None if items is None or items.dtype == object else items.astype(np.float64)
    return contexts, vectors
