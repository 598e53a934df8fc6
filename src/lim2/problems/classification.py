"""From a table with labels to a bandit problem: an arm a class, reward 1 for the right one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lim2.problems.cache import Table
from lim2.problems.draw import Standardize, draw_rows, one_per_right_arm, standardized
from lim2.problems.facts import LABEL
from lim2.problems.problem import Array, Problem

if TYPE_CHECKING:
    import polars as pl


def classification(
    name: str,
    table: Table,
    arm_names: Sequence[str],
    rounds: int | Literal["all"],
    seed: int,
    *,
    standardize: Standardize,
    replace: bool,
    rewards: Array | None = None,
    settings: dict[str, Any] | None = None,
) -> Problem:
    """Draw rows of a table with labels, and make a problem of them.

    The labels 0 .. n_arms - 1 are in the column `label`; every other column is a feature. `rewards` has the reward of
    each arm (column) for each class (row); None: 1 for the right arm, else 0.
    """
    rows = draw_rows(table.height, rounds, seed, replace=replace, name=name)
    drawn = table.take(rows)
    labels = drawn[LABEL].to_numpy()
    contexts, feature_names = encoded(drawn.drop(LABEL))
    return Problem(
        name,
        standardized(contexts, standardize),
        one_per_right_arm(labels, len(arm_names)) if rewards is None else rewards[labels],
        seed=seed,
        arm_names=tuple(arm_names),
        feature_names=feature_names,
        settings={"standardize": standardize, "replace": replace, **(settings or {})},
        notes=table.notes,
    )


def encoded(frame: pl.DataFrame) -> tuple[Array, tuple[str, ...]]:
    """Return a table as numbers, and what each of their columns is.

    Numeric columns stay; one of a fixed set of values becomes a column of 0 and 1 for each value of that set,
    whether or not it occurs in these rows. Missing numbers become NaN; a missing value of a set is 0 in all.

    Examples
    --------
    >>> import polars as pl
    >>> colour = pl.Series("colour", ["red", "red"], dtype=pl.Enum(["blue", "red"]))
    >>> encoded(pl.DataFrame([pl.Series("size", [3, None]), colour]))
    (array([[ 3.,  0.,  1.],
           [nan,  0.,  1.]]), ('size', 'colour=blue', 'colour=red'))
    """
    import polars as pl

    names: list[str] = []
    widths = [len(dtype.categories) if isinstance(dtype, pl.Enum) else 1 for dtype in frame.dtypes]
    X = np.zeros((frame.height, sum(widths)))
    start = 0
    for column, width in zip(frame.iter_columns(), widths, strict=True):
        if isinstance(column.dtype, pl.Enum):
            codes = column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
            X[:, start : start + width] = codes[:, None] == np.arange(width)
            names += [f"{column.name}={value}" for value in column.dtype.categories]
        else:
            X[:, start] = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
            names.append(column.name)
        start += width
    return X, tuple(names)
