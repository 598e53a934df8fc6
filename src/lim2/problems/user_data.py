"""Problems made from your own data: arrays with labels, arrays of rewards, or a table in a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.extras import needs
from lim2.problems.draw import Standardize, one_per_right_arm, standardized
from lim2.problems.errors import DataError
from lim2.problems.files import opened
from lim2.problems.labelled import Rounds, check_columns, label_of, labelled, rows_to_play
from lim2.problems.problem import Problem

if TYPE_CHECKING:
    import polars as pl

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
    """Return a classification problem made from arrays: one arm per class, reward 1 for the correct class.

    Parameters
    ----------
    X
        Contexts, (rows, n_features). A missing value (NaN) becomes the mean of its column.
    y
        Class of each row: numbers or text. The arms are the classes in ascending order.
    seed
        Seed that draws and shuffles the rows. None: keep their order.

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
        raise ValueError(f"y must have one dimension, one class per row, got shape {labels.shape}")
    _same_length(contexts, labels, "y")
    if (labels.dtype.kind == "f" and np.isnan(labels).any()) or any(label is None for label in labels.flat):
        raise ValueError("y has missing values: drop those rows first")
    classes, codes = np.unique(labels, return_inverse=True)
    rows = rows_to_play(len(contexts), rounds, seed, name)
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
    """Return a problem made from contexts and the rewards of all arms.

    Parameters
    ----------
    X
        Contexts, (rows, n_features). A missing value (NaN) becomes the mean of its column.
    expected
        Expected rewards given the context. Default: the rewards.
    seed
        Seed that draws and shuffles the rows. None: keep their order.

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
    rows = rows_to_play(len(contexts), rounds, seed, name)
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
    label: str | int,
    *,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    max_categories: int = 1000,
    separator: str = ",",
    missing: Sequence[str] = MARKS,
    header: bool = True,
    name: str | None = None,
    rounds: Rounds = "all",
    seed: int | None = None,
    standardize: Standardize = "sample",
) -> Problem:
    r"""Return a classification problem made from a table in a CSV or Parquet file.

    Numeric columns are standardised, text columns become one-hot. A missing number becomes the mean of its column,
    missing text a category, and rows without a label are left out; `problem.notes` has their number.

    Parameters
    ----------
    path
        A text file (.csv, .csv.gz, .csv.xz, or any other ending), or a .parquet file.
    label
        Column of the class labels, by name or by position (-1: the last). Every class is an arm.
    categorical
        Numeric columns whose values are categories.
    drop
        Columns to leave out, such as an identifier.
    max_categories
        Number of distinct values from which a text column is refused, because it is probably an identifier.
    missing
        Texts that stand for a missing value in a CSV file.
    header
        Whether the first line of a CSV file has the names of the columns; otherwise they are column_1, column_2, ...
    name
        Name of the problem. None: the name of the file.
    seed
        Seed that draws and shuffles the rows. None: keep their order.
    standardize
        Scaling of the numeric columns: `"sample"`, `"online"` or None.

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
    path = Path(path).expanduser()
    return labelled(
        read_table(path, separator, missing, header=header),
        label,
        path,
        name=path.name if name is None else name,
        categorical=categorical,
        drop=drop,
        max_categories=max_categories,
        rounds=rounds,
        seed=seed,
        standardize=standardize,
    )


def labelled_rows(path: str | Path, label: str | int, **settings: Any) -> int:
    """Return the number of rows of a table that have a label, which is the largest number of rounds."""
    path = Path(path).expanduser()
    reading = {"separator": settings.get("separator", ","), "missing": settings.get("missing", MARKS)}
    frame = read_table(path, **reading, header=settings.get("header", True))
    column = label_of(path, frame, label)
    check_columns(path, frame, [column])
    return int(frame[column].count())


def read_table(path: Path, separator: str, missing: Sequence[str], *, header: bool = True) -> pl.DataFrame:
    """Return a table in a CSV or Parquet file.

    A .parquet file, or text (.csv, .csv.gz, .csv.xz, any other ending).
    """
    with needs("reading a table", "data"):
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
            "has_header": header,
        }
        with opened(path) as file:
            frame = pl.read_csv(file.read() if path.suffix in (".gz", ".xz") else path, **options)
        if not header:
            frame.columns = [f"column_{number}" for number in range(1, frame.width + 1)]
        return _stripped(frame, missing)
    except pl.exceptions.PolarsError as error:
        if path.suffix not in (".parquet", ".pq"):
            _blame(path, separator)
        raise DataError(path, f"the file cannot be read as a table: {error}") from error


def _stripped(frame: pl.DataFrame, missing: Sequence[str]) -> pl.DataFrame:
    """Return the table with its text stripped of spaces; a column that then holds only numbers becomes numeric."""
    import polars as pl

    columns = []
    for column in frame.iter_columns():
        text = column.str.strip_chars() if column.dtype == pl.String else None
        if text is None or text.equals(column, null_equal=True):
            columns.append(column)
            continue
        text = text.set(text.is_in(list(missing)), None)
        numbers = text.cast(pl.Float64, strict=False)
        columns.append(numbers if numbers.null_count() == text.null_count() else text)
    return pl.DataFrame(columns)


def _blame(path: Path, separator: str) -> None:
    """Raise the error for the first line whose number of fields differs from that of the header."""
    with opened(path) as file:
        text = (line.decode("utf-8", errors="replace") for line in file)
        reader = csv.reader(text, delimiter=separator)
        header = next(reader)
        for fields in reader:
            if fields and len(fields) != len(header):
                raise DataError(
                    path,
                    f"{len(fields)} fields, but the first line has {len(header)}; quote fields that hold "
                    f"{separator!r}, or give the file's separator",
                    line=reader.line_num,
                )


def _matrix(array: ArrayLike, name: str) -> NDArray[np.float64]:
    matrix = np.asarray(array, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, one row per round, got shape {matrix.shape}")
    if np.isinf(matrix).any():
        row, column = np.argwhere(np.isinf(matrix))[0]
        raise ValueError(f"{name}[{row}, {column}] is infinite; expected finite numbers")
    return matrix


def _same_length(contexts: NDArray[np.float64], other: NDArray[Any], name: str) -> None:
    if len(contexts) != len(other):
        raise ValueError(f"X has {len(contexts)} rows but {name} has {len(other)}; give one for each round")


def _missing_notes(contexts: NDArray[np.float64]) -> tuple[str, ...]:
    missing = np.isnan(contexts).sum(axis=0)
    return tuple(
        f"column {column}: {count} missing value{'s' if count > 1 else ''}, taken as the mean"
        for column, count in enumerate(missing.tolist())
        if count
    )
