"""A table with a column of classes as a problem: an arm a class, reward 1 for the right one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.classification import encoded
from lim2.problems.draw import Standardize, draw_rows, one_per_right_arm, standardized
from lim2.problems.errors import DataError
from lim2.problems.problem import Problem

if TYPE_CHECKING:
    import polars as pl

Rounds = int | Literal["all"]

MISSING = "(missing)"


def labelled(
    frame: pl.DataFrame,
    label: str | int,
    path: Path,
    *,
    name: str,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    max_categories: int = 1000,
    rounds: Rounds = "all",
    seed: int | None = None,
    standardize: Standardize = "sample",
    notes: Sequence[str] = (),
) -> Problem:
    """Make a classification problem of a table."""
    import polars as pl

    label = label_of(path, frame, label)
    _check_label(path, frame, label, categorical, drop)
    frame = frame.drop(drop)
    all_notes = list(notes)
    if unlabelled := frame[label].null_count():
        all_notes.append(f"{unlabelled} rows without a label in column {label} were left out")
        frame = frame.filter(pl.col(label).is_not_null())
    if frame.height == 0:
        raise DataError(path, "no rows with a label", line=2, column=label)
    classes = frame[label].unique().sort()
    if len(classes) > max_categories:
        raise DataError(
            path,
            f"{len(classes)} different labels, so as many arms; at most {max_categories} are taken "
            "(max_categories). Is it a number rather than a class?",
            column=label,
        )
    # Their numbers, by joining: works for text, numbers and booleans alike.
    codes = frame[label].replace_strict(classes, list(range(len(classes))), return_dtype=pl.Int64)
    features, remarks = feature_columns(path, frame.drop(label), set(categorical), max_categories)
    rows = rows_to_play(frame.height, rounds, seed, path.name)
    contexts, feature_names = encoded(features[rows])
    numeric = np.array(["=" not in n or n in features.columns for n in feature_names])
    contexts[:, numeric] = standardized(contexts[:, numeric], standardize)
    return Problem(
        name,
        contexts,
        one_per_right_arm(codes[rows].to_numpy(), len(classes)),
        seed=seed,
        arm_names=tuple(str(value) for value in classes),
        feature_names=feature_names,
        settings={"label": label, "standardize": standardize},
        notes=(*all_notes, *remarks),
    )


def label_of(path: Path, frame: pl.DataFrame, label: str | int) -> str:
    """Return the name of the column with the classes.

    A position counts from 0, or from -1 at the end.

    Examples
    --------
    >>> import polars as pl
    >>> label_of(Path("own.csv"), pl.DataFrame({"x": [1], "class": [0]}), -1)
    'class'
    """
    if isinstance(label, str):
        return label
    if not -frame.width <= label < frame.width:
        raise DataError(path, f"there is no column at position {label}; the file has {frame.width}", line=1)
    return frame.columns[label]


def check_columns(path: Path, frame: pl.DataFrame, wanted: Sequence[str]) -> None:
    """Raise a `DataError` for the first column that a table does not have."""
    for column in wanted:
        if column not in frame.columns:
            shown = ", ".join(frame.columns[:20]) + (", ..." if frame.width > 20 else "")
            raise DataError(path, f"there is no such column; the file has {shown}", line=1, column=column)


def _check_label(path: Path, frame: pl.DataFrame, label: str, categorical: Sequence[str], drop: Sequence[str]) -> None:
    check_columns(path, frame, (label, *categorical, *drop))
    if label in drop:
        raise ValueError(f"column {label!r} is the label and cannot be dropped")
    if frame.width - len(set(drop)) < 2:
        raise DataError(path, f"no column is left beside the label {label!r} to be a feature", line=1)


def feature_columns(
    path: Path, frame: pl.DataFrame, categorical: set[str], max_categories: int
) -> tuple[pl.DataFrame, list[str]]:
    """Return the columns as numbers and Enums, and what to report of them."""
    import polars as pl

    columns, notes = [], []
    for column in frame.iter_columns():
        is_number = column.dtype.is_numeric() and column.name not in categorical
        if column.dtype.is_float():
            column = column.fill_nan(None)
        missing = column.null_count()
        if missing:
            substitute = "the mean" if is_number else "a value of its own"
            notes.append(
                f"column {column.name}: {missing} missing value{'s' if missing > 1 else ''}, taken as {substitute}"
            )
        if is_number:
            infinite = column.is_infinite().arg_true() if column.dtype.is_float() else pl.Series([])
            if len(infinite):
                raise DataError(
                    path,
                    "an infinite value; expected finite numbers",
                    line=infinite[0] + 2,
                    column=column.name,
                )
            columns.append(column)
            continue
        text = column.cast(pl.String).fill_null(MISSING)
        values = text.unique().sort()
        if len(values) > max_categories:
            raise DataError(
                path,
                f"{len(values)} different values of text, more than {max_categories} (max_categories); if "
                f"it is an identifier, leave it out with drop=[{column.name!r}]",
                column=column.name,
            )
        columns.append(text.cast(pl.Enum(values)))
    return pl.DataFrame(columns), notes


def rows_to_play(available: int, rounds: Rounds, seed: int | None, name: str) -> NDArray[np.int64]:
    """Return the rows to play: drawn and shuffled by a seed, or the first ones in their order."""
    if seed is not None:
        return draw_rows(available, rounds, seed, name=name)
    n = available if rounds == "all" else rounds
    if not 1 <= n <= available:
        raise ValueError(f"{name} has {available} rows, but {n} rounds were asked for")
    return np.arange(n)
