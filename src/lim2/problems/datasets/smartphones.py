"""Smartphones: what a person is doing, from the motion sensors of a phone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.cache import parsed
from lim2.problems.classification import classification
from lim2.problems.draw import Standardize
from lim2.problems.errors import DataError
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, opened
from lim2.problems.problem import Problem
from lim2.problems.registry import register

if TYPE_CHECKING:
    import polars as pl

ARMS = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
FEATURES = 561
FACTS = Facts(
    title="Smartphones",
    files=tuple(
        f"UCI HAR Dataset/{part}"
        for part in ("train/X_train.txt", "train/y_train.txt", "test/X_test.txt", "test/y_test.txt")
    ),
    n_features=FEATURES,
    n_arms=6,
    paper_features="561",
    published=Rows(10_299, (1_722, 1_544, 1_406, 1_777, 1_906, 1_944)),
    preprocessing="training and test files together",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the four files.

    Parameters
    ----------
    paths
        X_train.txt, y_train.txt, X_test.txt, y_test.txt.
    """
    import polars as pl

    contexts = [_numbers(path, FEATURES) for path in paths[0::2]]
    labels = [_labels(path) for path in paths[1::2]]
    for x, y, path in zip(contexts, labels, paths[1::2], strict=True):
        if len(x) != len(y):
            raise DataError(
                path,
                f"{len(y)} labels for {len(x)} rows of features; one of the two files is truncated",
                line=min(len(x), len(y)) + 1,
            )
    frame = pl.DataFrame(np.concatenate(contexts), schema=[f"feature {i}" for i in range(1, FEATURES + 1)])
    return frame.with_columns(pl.Series(LABEL, np.concatenate(labels)).cast(pl.UInt8))


def _labels(path: Path) -> NDArray[np.int64]:
    labels = _numbers(path, 1)[:, 0]
    bad = np.flatnonzero(~np.isin(labels, np.arange(1, len(ARMS) + 1)))
    if len(bad):
        raise DataError(
            path,
            f"{labels[bad[0]]:g} is not one of 1 .. {len(ARMS)}",
            line=int(bad[0]) + 1,
            column="activity",
        )
    return labels.astype(np.int64) - 1


def _numbers(path: Path, columns: int) -> NDArray[np.float64]:
    """Return a file of numbers with any number of spaces between them, which polars does not read."""
    with opened(path) as file:
        lines = file.read().decode("ascii", errors="replace").splitlines()
    if not lines:
        raise DataError(path, f"the file is empty; expected {columns} numbers a line", line=1)
    table = np.empty((len(lines), columns))
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if len(fields) != columns:
            raise DataError(path, f"{len(fields)} fields, expected {columns}; the file is damaged", line=number)
        try:
            table[number - 1] = fields
        except ValueError as error:
            raise DataError(path, f"{error}; expected numbers", line=number) from error
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        raise DataError(path, "not a finite number", line=int(bad[0, 0]) + 1, column=int(bad[0, 1]) + 1)
    return table


@register("smartphones", summary="What a person is doing, from a phone's motion sensors.", facts=FACTS, parse=parse)
def smartphones(
    rounds: int | Literal["all"],
    seed: int,
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Smartphones.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    standardize
        `"sample"` (as in the paper), `"online"` or None.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    table = parsed("smartphones", FACTS, parse, data=data, verify=verify)
    return classification("smartphones", table, ARMS, rounds, seed, standardize=standardize, replace=replace)
