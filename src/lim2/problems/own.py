"""Your own data as a problem: arrays with labels, arrays of rewards, or a table in a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.problems.classification import encoded
from lim2.problems.draw import Standardize, draw_rows, one_per_right_arm, standardized
from lim2.problems.errors import DataError
from lim2.problems.files import opened
from lim2.problems.problem import Problem

if TYPE_CHECKING:
    import polars as pl

Rounds = int | Literal["all"]

MISSING = "(missing)"
MARKS = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")


def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    name: str = "own",
    rounds: Rounds = "all",
    seed: int | None = None,
    standardize: Standardize = "sample",
) -> Problem:
    """Make a classification problem of arrays: an arm a class, reward 1 for the right one.

    Parameters
    ----------
    X
        The contexts, (rows, n_features). A missing value (NaN) becomes the mean of its column.
    y
        The class of each row: numbers or text. Arms are the classes in ascending order.
    name
        What to call it.
    rounds
        How many rows to play.
    seed
        Draws and shuffles the rows; None plays them in their order.
    standardize
        `"sample"`, `"online"` or None.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.from_arrays([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> problem.arm_names, problem.rewards
    (('no', 'yes'), array([[1., 0.],
           [0., 1.],
           [1., 0.]]))
    """
    contexts = _matrix(X, "X")
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must have one dimension, one class a row, not shape {labels.shape}")
    _same_length(contexts, labels, "y")
    if (labels.dtype.kind == "f" and np.isnan(labels).any()) or any(label is None for label in labels.flat):
        raise ValueError("y has missing values; drop those rows")
    classes, codes = np.unique(labels, return_inverse=True)
    rows = _rows(len(contexts), rounds, seed, name)
    return Problem(
        name,
        standardized(contexts[rows], standardize),
        one_per_right_arm(codes[rows], len(classes)),
        seed=seed,
        arm_names=tuple(str(label) for label in classes),
        settings={"standardize": standardize},
        notes=_missing_notes(contexts),
    )


def from_rewards(
    X: ArrayLike,
    R: ArrayLike,
    *,
    expected: ArrayLike | None = None,
    name: str = "own",
    rounds: Rounds = "all",
    seed: int | None = None,
    standardize: Standardize = "sample",
) -> Problem:
    """Make a problem of contexts and of what each arm pays.

    Parameters
    ----------
    X
        The contexts, (rows, n_features). A missing value (NaN) becomes the mean of its column.
    R
        The rewards, (rows, n_arms).
    expected
        Their means given the context; the rewards themselves when left out.
    name
        What to call it.
    rounds
        How many rows to play.
    seed
        Draws and shuffles the rows; None plays them in their order.
    standardize
        `"sample"`, `"online"` or None.

    Examples
    --------
    >>> import lim2.problems
    >>> lim2.problems.from_rewards([[0.0], [1.0]], [[1.0, 0.5], [0.0, 0.5]]).best_rewards
    array([1. , 0.5])
    """
    contexts, rewards = _matrix(X, "X"), _matrix(R, "R")
    means = rewards if expected is None else _matrix(expected, "expected")
    for array, label in ((rewards, "R"), (means, "expected")):
        _same_length(contexts, array, label)
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            row, arm = bad[0]
            raise ValueError(
                f"{label}[{row}, {arm}] is {array[row, arm]}; every arm needs a finite reward in every round"
            )
    rows = _rows(len(contexts), rounds, seed, name)
    return Problem(
        name,
        standardized(contexts[rows], standardize),
        rewards[rows],
        means[rows],
        seed=seed,
        settings={"standardize": standardize},
        notes=_missing_notes(contexts),
    )


def from_csv(
    path: str | Path,
    label: str,
    *,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    max_categories: int = 1000,
    separator: str = ",",
    missing: Sequence[str] = MARKS,
    name: str | None = None,
    rounds: Rounds = "all",
    seed: int | None = None,
    standardize: Standardize = "sample",
) -> Problem:
    r"""Make a classification problem of a table in a CSV or Parquet file.

    Columns of numbers are standardised, columns of text become a column of 0 and 1 for each of their values.
    A missing number becomes the mean of its column, missing text a value of its own, and a row without a
    label is left out; `problem.notes` tells how many there were.

    Parameters
    ----------
    path
        A .csv (also .csv.gz, .csv.xz) with a header, or a .parquet file.
    label
        The column with the classes; every class is an arm.
    categorical
        Columns of numbers whose values are names rather than amounts.
    drop
        Columns to leave out, such as an identifier.
    max_categories
        The number of values from which on a column of text is refused, as it is probably an identifier.
    separator
        What stands between the fields of a CSV file.
    missing
        What stands for a missing value in a CSV file.
    name
        What to call it; None for the file's name.
    rounds
        How many rows to play.
    seed
        Draws and shuffles the rows; None plays them in their order.
    standardize
        For the columns of numbers: `"sample"`, `"online"` or None.

    Examples
    --------
    >>> import lim2.problems, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "shop.csv")
    >>> _ = path.write_text("age,city,bought\n30,Rome,tea\n50,,coffee\n,Oslo,tea\n")
    >>> problem = lim2.problems.from_csv(path, label="bought")
    >>> problem.arm_names, problem.feature_names
    (('coffee', 'tea'), ('age', 'city=(missing)', 'city=Oslo', 'city=Rome'))
    >>> problem.contexts
    array([[-1.,  0.,  0.,  1.],
           [ 1.,  1.,  0.,  0.],
           [ 0.,  0.,  1.,  0.]])
    >>> for note in problem.notes:
    ...     print(note)
    column age: 1 missing value, taken as the mean
    column city: 1 missing value, taken as a value of its own
    """
    import polars as pl

    path = Path(path).expanduser()
    frame = read_table(path, separator, missing)
    _check_label(path, frame, label, categorical, drop)
    frame = frame.drop(drop)
    notes = []
    if unlabelled := frame[label].null_count():
        notes.append(f"{unlabelled} rows without a label in column {label} were left out")
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
    rows = _rows(frame.height, rounds, seed, path.name)
    contexts, feature_names = encoded(features[rows])
    numeric = np.array(["=" not in n or n in features.columns for n in feature_names])
    contexts[:, numeric] = standardized(contexts[:, numeric], standardize)
    return Problem(
        path.name if name is None else name,
        contexts,
        one_per_right_arm(codes[rows].to_numpy(), len(classes)),
        seed=seed,
        arm_names=tuple(str(value) for value in classes),
        feature_names=feature_names,
        settings={"label": label, "standardize": standardize},
        notes=(*notes, *remarks),
    )


def read_table(path: Path, separator: str, missing: Sequence[str]) -> pl.DataFrame:
    """Return a table in a CSV or Parquet file.

    Parameters
    ----------
    path
        A .csv (also .csv.gz, .csv.xz) with a header, or a .parquet file.
    separator
        What stands between the fields of a CSV file.
    missing
        What stands for a missing value in a CSV file.
    """
    import polars as pl

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise DataError(path, "the file is empty; expected a header and rows", line=1)
    try:
        if path.suffix in (".parquet", ".pq"):
            return pl.read_parquet(path)
        # All rows decide what type a column has: a word in the last row makes it text.
        options: dict[str, Any] = {
            "separator": separator,
            "null_values": list(missing),
            "infer_schema_length": None,
        }
        if path.suffix in (".gz", ".xz"):
            with opened(path) as file:
                return pl.read_csv(file.read(), **options)
        return pl.read_csv(path, **options)
    except pl.exceptions.PolarsError as error:
        if path.suffix not in (".parquet", ".pq"):
            _blame(path, separator)
        raise DataError(path, f"the file cannot be read as a table: {error}") from error


def _blame(path: Path, separator: str) -> None:
    """Raise the error for the first line that has not as many fields as the header."""
    with opened(path) as file:
        text = (line.decode("utf-8", errors="replace") for line in file)
        reader = csv.reader(text, delimiter=separator)
        header = next(reader)
        for fields in reader:
            if fields and len(fields) != len(header):
                raise DataError(
                    path,
                    f"{len(fields)} fields, but the header has {len(header)}; quote fields that hold "
                    f"{separator!r}, or say which separator the file has",
                    line=reader.line_num,
                )


def check_columns(path: Path, frame: pl.DataFrame, wanted: Sequence[str]) -> None:
    """Raise a `DataError` for the first column that a table does not have.

    Parameters
    ----------
    path
        The file to name.
    frame
        The table.
    wanted
        The names of columns.
    """
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
    """Return the columns as numbers and Enums, and what to report of them.

    Parameters
    ----------
    path
        The file to name in errors.
    frame
        The columns as they were read.
    categorical
        Columns of numbers whose values are names.
    max_categories
        How many values a column of text may have.
    """
    import polars as pl

    columns, notes = [], []
    for column in frame.iter_columns():
        is_number = column.dtype.is_numeric() and column.name not in categorical
        if column.dtype.is_float():
            column = column.fill_nan(None)
        missing = column.null_count()
        if missing:
            how = "the mean" if is_number else "a value of its own"
            notes.append(f"column {column.name}: {missing} missing value{'s' if missing > 1 else ''}, taken as {how}")
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


def _matrix(array: ArrayLike, name: str) -> NDArray[np.float64]:
    matrix = np.asarray(array, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, one row per round, not shape {matrix.shape}")
    if np.isinf(matrix).any():
        row, column = np.argwhere(np.isinf(matrix))[0]
        raise ValueError(f"{name}[{row}, {column}] is infinite; expected finite numbers")
    return matrix


def _same_length(contexts: NDArray[np.float64], other: NDArray[Any], name: str) -> None:
    if len(contexts) != len(other):
        raise ValueError(f"X has {len(contexts)} rows but {name} has {len(other)}; give one for each round")


def _rows(available: int, rounds: Rounds, seed: int | None, name: str) -> NDArray[np.int64]:
    if seed is not None:
        return draw_rows(available, rounds, seed, name=name)
    n = available if rounds == "all" else rounds
    if not 1 <= n <= available:
        raise ValueError(f"{name} has {available} rows, but {n} rounds were asked for")
    return np.arange(n)


def _missing_notes(contexts: NDArray[np.float64]) -> tuple[str, ...]:
    missing = np.isnan(contexts).sum(axis=0)
    return tuple(
        f"column {column}: {count} missing value{'s' if count > 1 else ''}, taken as the mean"
        for column, count in enumerate(missing.tolist())
        if count
    )
