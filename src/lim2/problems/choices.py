"""Choice data as problems with items: one row per alternative, reward 1 for the one that was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.classification import encoded
from lim2.problems.draw import draw_rows, standardized
from lim2.problems.errors import DataError
from lim2.problems.item_problem import ItemProblem, Raw
from lim2.problems.own import MARKS, check_columns, feature_columns, read_table
from lim2.problems.problem import Array

if TYPE_CHECKING:
    import polars as pl

YES, NO = ("1", "true", "yes", "1.0"), ("0", "false", "no", "0.0")
CONSTANT = "(constant)"


def from_choices(
    table: str | Path | Any,
    *,
    situation: str,
    alternative: str,
    chosen: str,
    context: Sequence[str] = (),
    item: Sequence[str],
    categorical: Sequence[str] = (),
    separator: str = ",",
    missing: Sequence[str] = MARKS,
    name: str | None = None,
    rounds: int | Literal["all"] = "all",
    seed: int | None = None,
) -> ItemProblem:
    r"""Make a problem of choice data in long format: a row per alternative of each choice situation.

    A round is a choice situation, its candidates are the alternatives. The one that was chosen pays 1, the others 0.
    Numbers stay as they are (agents scale by themselves), columns of text become a column of 0 and 1 for each of their
    values. A missing number becomes the mean of its column, missing text a value of its own. Situations in which
    nothing was chosen, or that have one alternative only, are left out; `problem.notes` tells how many.

    Parameters
    ----------
    table
        A .csv (also .csv.gz, .csv.xz) with a header, a .parquet file, or a Polars or pandas frame.
    situation
        The column that says which rows belong together.
    alternative
        The column that names the alternative. List it in `item` too if the name means something, as "train" does and
        "option 1" does not.
    chosen
        The column that says whether the alternative was chosen: booleans, 0 and 1, or yes and no.
    context
        The columns that describe the situation and who chooses: the same in all rows of a situation. Without any, the
        context is a constant.
    item
        The columns that describe the alternative.
    categorical
        Columns of numbers whose values are names rather than amounts.
    separator
        What stands between the fields of a CSV file.
    missing
        What stands for a missing value in a CSV file.
    name
        What to call it; None for the file's name.
    rounds
        How many situations to play.
    seed
        Draws and shuffles the situations; None plays them in their order.

    Examples
    --------
    >>> import lim2.problems, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "trips.csv")
    >>> _ = path.write_text("trip,mode,taken,cost,income\n1,bus,0,2.5,30\n1,car,1,6,30\n2,bus,1,3,20\n2,car,0,7,20\n")
    >>> problem = lim2.problems.from_choices(
    ...     path, situation="trip", alternative="mode", chosen="taken", context=["income"], item=["mode", "cost"]
    ... )
    >>> problem.item_feature_names, problem.items(1).tolist()
    (('mode=bus', 'mode=car', 'cost'), [[1.0, 0.0, 3.0], [0.0, 1.0, 7.0]])
    >>> problem.rewards, problem.raw(0)
    (array([0., 1., 1., 0.]),
     ({'income': 30}, {'bus': {'mode': 'bus', 'cost': 2.5}, 'car': {'mode': 'car', 'cost': 6.0}}))
    """
    if isinstance(table, str | Path):
        path = Path(table).expanduser()
        frame = read_table(path, separator, missing)
    else:
        path, frame = Path(name or "the table"), _polars(table)
    check_columns(path, frame, [situation, alternative, chosen, *context, *item, *categorical])
    return choice_problem(
        path.name if name is None else name,
        frame,
        path,
        situation=situation,
        alternative=alternative,
        chosen=chosen,
        context=context,
        item=item,
        categorical=categorical,
        rounds=rounds,
        seed=seed,
    )


def choice_problem(
    name: str,
    frame: pl.DataFrame,
    path: Path,
    *,
    situation: str,
    alternative: str,
    chosen: str,
    context: Sequence[str],
    item: Sequence[str],
    categorical: Sequence[str] = (),
    rounds: int | Literal["all"] = "all",
    seed: int | None = None,
    replace: bool = False,
    notes: Sequence[str] = (),
) -> ItemProblem:
    """Make a problem of a table in long format whose columns are known to be there.

    Parameters
    ----------
    name
        What to call it.
    frame
        One row per alternative.
    path
        What to name in errors.
    situation, alternative, chosen, context, item, categorical, rounds, seed
        As of `from_choices`.
    replace
        Whether a situation may come again.
    notes
        What is to be said of the source.
    """
    import polars as pl

    if not item:
        raise ValueError("item names no column; the alternatives need at least one feature")
    frame = frame.with_columns(_chosen(frame[chosen], path), frame[alternative].cast(pl.String))
    frame, remarks = _complete(frame, situation, chosen, path)
    _check_situations(frame, situation, alternative, chosen, context, path)
    # The rows of a situation next to one another, situations in the order in which they first occur.
    frame = frame.select(pl.all(), pl.first().cum_count().first().over(situation).alias("(first)"))
    frame = frame.sort("(first)", maintain_order=True)
    sizes = frame.group_by(situation, maintain_order=True).len()["len"].to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    n = len(sizes) if rounds == "all" else rounds
    if seed is not None:
        drawn = draw_rows(len(sizes), rounds, seed, replace=replace, name=name)
    elif 1 <= n <= len(sizes):
        drawn = np.arange(n)
    else:
        raise ValueError(f"{name} has {len(sizes)} choice situations, but {n} rounds were asked for")
    offsets = np.concatenate([[0], np.cumsum(sizes[drawn])])
    rows = np.repeat(starts[drawn] - offsets[:-1], sizes[drawn]) + np.arange(offsets[-1])
    contexts, context_names, raw_contexts, about_context = _side(frame, context, categorical, starts[drawn], path)
    items, item_names, raw_items, about_items = _side(frame, item, categorical, rows, path)
    return ItemProblem(
        name,
        contexts,
        items,
        offsets,
        frame[chosen].to_numpy()[rows].astype(np.float64),
        seed=seed,
        item_names=tuple(frame[alternative][rows].to_list()),
        feature_names=context_names,
        item_feature_names=item_names,
        raw_contexts=raw_contexts,
        raw_items=raw_items,
        settings={"context": tuple(context), "item": tuple(item), "replace": replace},
        notes=(*notes, *remarks, *about_context, *about_items),
    )


def wide_to_long(
    frame: pl.DataFrame,
    *,
    chosen: str,
    alternatives: Mapping[str, Any],
    item: Sequence[str],
    pattern: str = "{item}{alternative}",
    available: str | None = None,
) -> pl.DataFrame:
    """Return choice data in long format that has one row per situation, and columns for each alternative.

    The columns `situation` (numbers from 0), `alternative` and `chosen` are added, those of single alternatives are
    replaced by one for each of `item`, and all others stay.

    Parameters
    ----------
    frame
        One row per situation.
    chosen
        The column that says which alternative was chosen.
    alternatives
        The alternatives' names, as they occur in the names of columns, and what `chosen` holds for each.
    item
        What is said of the alternatives. Where there is no such column for one of them it is missing.
    pattern
        How the name of a column is made of the two, such as `"{alternative}_{item}"`.
    available
        What says whether an alternative could be chosen (1 or 0), named as of `item`; None: all could.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [30], "choice": ["b"], "cost1": [2.0], "cost2": [3.0]})
    >>> long = wide_to_long(frame, chosen="choice", alternatives={"1": "a", "2": "b"}, item=["cost"])
    >>> long.rows(named=True)[1]
    {'age': 30, 'situation': 0, 'alternative': '2', 'chosen': True, 'cost': 3.0}
    """
    import polars as pl

    described = {
        alternative: {key: pattern.format(item=key, alternative=alternative) for key in item}
        for alternative in alternatives
    }
    if available is not None:
        flags = {alternative: pattern.format(item=available, alternative=alternative) for alternative in alternatives}
    else:
        flags = {}
    own = {column for columns in described.values() for column in columns.values()} | set(flags.values())
    frame = frame.with_row_index("situation")
    parts = []
    for alternative, value in alternatives.items():
        there = frame.filter(pl.col(flags[alternative]) == 1) if flags else frame
        parts.append(
            there.select(
                *(column for column in frame.columns if column not in own and column not in (chosen, "situation")),
                pl.col("situation").cast(pl.Int64),
                pl.lit(alternative).alias("alternative"),
                (pl.col(chosen) == value).fill_null(value=False).alias("chosen"),
                *(
                    (pl.col(column) if column in frame.columns else pl.lit(None)).alias(key)
                    for key, column in described[alternative].items()
                ),
            )
        )
    return pl.concat(parts, how="vertical_relaxed").sort("situation", maintain_order=True)


def _polars(table: Any) -> pl.DataFrame:
    import polars as pl

    if isinstance(table, pl.DataFrame):
        return table
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        return pl.DataFrame({str(column): table[column].tolist() for column in table.columns}, strict=False)
    raise TypeError(f"table must be a path, or a Polars or pandas frame, not {type(table).__name__}")


def _chosen(column: pl.Series, path: Path) -> pl.Series:
    """Return a column of yes and no as booleans."""
    import polars as pl

    text = column.cast(pl.String).str.to_lowercase()
    odd = (~text.is_in(YES + NO)).fill_null(value=True).arg_true()
    if len(odd):
        raise DataError(
            path,
            f"{column[odd[0]]!r} does not say whether the alternative was chosen; expected 0 or 1, true or false",
            line=odd[0] + 2,
            column=column.name,
        )
    return text.is_in(YES).alias(column.name)


def _complete(frame: pl.DataFrame, situation: str, chosen: str, path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Return the situations in which one of several alternatives was chosen, and what to say of the others."""
    import polars as pl

    none = ~pl.col(chosen).any().over(situation)
    single = pl.len().over(situation) == 1
    notes = []
    for which, what in ((none, "in which nothing was chosen"), (~none & single, "with one alternative only")):
        if count := frame.filter(which)[situation].n_unique():
            notes.append(f"{count} choice situations {what} were left out")
    frame = frame.filter(~none & ~single)
    if frame.height == 0:
        raise DataError(path, "no choice situation has several alternatives of which one was chosen", column=situation)
    return frame, notes


def _check_situations(
    frame: pl.DataFrame, situation: str, alternative: str, chosen: str, context: Sequence[str], path: Path
) -> None:
    """Raise a `DataError` for the first situation that does not hang together."""
    import polars as pl

    checks = {
        chosen: (pl.col(chosen).sum() > 1, "two alternatives were chosen; expected one"),
        alternative: (pl.col(alternative).n_unique() < pl.len(), "an alternative occurs twice"),
        **{
            column: (pl.col(column).n_unique() > 1, "the values differ, but it describes the situation")
            for column in context
        },
    }
    for column, (wrong, what) in checks.items():
        found = frame.group_by(situation, maintain_order=True).agg(wrong.alias("(wrong)")).filter("(wrong)")
        if found.height:
            raise DataError(path, f"in choice situation {found[situation][0]!r} {what}", column=column)


def _side(
    frame: pl.DataFrame, columns: Sequence[str], categorical: Sequence[str], rows: NDArray[np.int64], path: Path
) -> tuple[Array, tuple[str, ...], tuple[Raw, ...], list[str]]:
    """Return vectors of some rows, the names of their columns, dictionaries, and what to say of them."""
    if not columns:
        return np.ones((len(rows), 1)), (CONSTANT,), ({},) * len(rows), []
    chosen = frame.select(columns)
    features, notes = feature_columns(path, chosen, set(categorical), 1000)
    vectors, names = encoded(features)
    vectors = standardized(vectors, None)[rows]  # the mean of the whole column where a number is missing
    names_of = [column for column in categorical if column in columns]
    dictionaries = chosen.with_columns(features.select(names_of)) if names_of else chosen
    return vectors, names, tuple(dictionaries[rows].to_dicts()), notes
