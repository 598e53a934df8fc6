"""Choice data as problems with items: one row per alternative, reward 1 for the one that was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.extras import needs
from lim2.problems.classification import encoded
from lim2.problems.draw import draw_rows, standardized
from lim2.problems.errors import DataError
from lim2.problems.item_problem import ItemProblem
from lim2.problems.labelled import check_columns, feature_columns
from lim2.problems.problem import Array, Raw
from lim2.problems.user_data import MARKS, read_table

if TYPE_CHECKING:
    import polars as pl

YES, NO = ("1", "true", "yes", "1.0"), ("0", "false", "no", "0.0")
CONSTANT = "(constant)"
MOST_VALUES = 1000  # of a column of text: with more of them it is an identifier


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
    r"""Return a problem made from choice data in long format, with one row per alternative of each choice situation.

    A round is a choice situation, and its candidates are the alternatives. The chosen one has reward 1, the others 0.
    Numbers are not scaled, because agents do that; text columns become one-hot. A missing number becomes the mean of
    its column, and missing text is a separate category. Situations without a choice, or with a single alternative, are
    left out; `problem.notes` has their number.

    Parameters
    ----------
    table
        A .csv (also .csv.gz, .csv.xz) with a header, a .parquet file, or a Polars or pandas frame.
    situation
        Column that identifies the situation: rows with the same value are the candidates of one round.
    alternative
        Column with the name of the alternative. List it in `item` as well if the name has a meaning: "train" has one,
        "option 1" has not.
    chosen
        Column that says whether the alternative was chosen: booleans, 0 and 1, or yes and no.
    context
        Columns that describe the situation and the person who chooses. They must be equal in all rows of a situation.
        Without any, the context is a constant.
    item
        Columns that describe the alternative.
    categorical
        Numeric columns whose values are categories.
    missing
        Texts that stand for a missing value in a CSV file.
    name
        Name of the problem. None: the name of the file.
    seed
        Seed that draws and shuffles the situations. None: keep their order.

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
    """Make a problem of a table in long format whose columns are known to be there."""
    import polars as pl

    if not item:
        raise ValueError("item names no column; the alternatives need at least one feature")
    about_choosers, about_items = _Side.of(frame, context, categorical, path), _Side.of(frame, item, categorical, path)
    frame = frame.with_columns(_chosen(frame[chosen], path), frame[alternative].cast(pl.String))
    groups, left_out = _situations(frame, situation, alternative, chosen, context, path)
    sizes = np.array([len(rows) for rows in groups])
    n = len(groups) if rounds == "all" else rounds
    if seed is not None:
        drawn = draw_rows(len(groups), rounds, seed, replace=replace, name=name)
    elif 1 <= n <= len(groups):
        drawn = np.arange(n)
    else:
        raise ValueError(f"{name} has {len(groups)} choice situations, but {n} rounds were asked for")
    rows = np.concatenate([groups[i] for i in drawn.tolist()])
    offsets = np.concatenate([[0], np.cumsum(sizes[drawn])])
    choosers = rows[offsets[:-1]]
    return ItemProblem(
        name,
        about_choosers.vectors[choosers],
        about_items.vectors[rows],
        offsets,
        frame[chosen].to_numpy()[rows].astype(np.float64),
        seed=seed,
        item_names=tuple(frame[alternative][rows].to_list()),
        feature_names=about_choosers.names,
        item_feature_names=about_items.names,
        raw_contexts=about_choosers.dictionaries(choosers),
        raw_items=about_items.dictionaries(rows),
        settings={"context": tuple(context), "item": tuple(item), "replace": replace},
        notes=(*notes, *left_out, *about_choosers.notes, *about_items.notes),
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
    """Convert choice data from wide format, with one row per situation, to long format, with one per alternative.

    The columns `situation` (numbers from 0), `alternative` and `chosen` are added. The columns of the alternatives are
    replaced by one column for each of `item`. All other columns stay.

    Parameters
    ----------
    frame
        One row per situation.
    chosen
        Column with the alternative that was chosen.
    alternatives
        Names of the alternatives, as they occur in the names of columns, mapped to their values in `chosen`.
    item
        Features of the alternatives. A feature without a column for an alternative is missing.
    pattern
        Pattern of the names of columns, such as `"{alternative}_{item}"`.
    available
        Feature that says whether an alternative was available (1 or 0), named as in `item`; None: all were.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [30], "choice": ["b"], "cost1": [2.0], "cost2": [3.0]})
    >>> long = wide_to_long(frame, chosen="choice", alternatives={"1": "a", "2": "b"}, item=["cost"])
    >>> long.rows(named=True)[1]
    {'age': 30, 'situation': 0, 'alternative': '2', 'chosen': True, 'cost': 3.0}
    """
    import polars as pl

    for key in item:
        if not any(pattern.format(item=key, alternative=name) in frame.columns for name in alternatives):
            wanted = pattern.format(item=key, alternative=next(iter(alternatives), ""))
            raise ValueError(
                f"no alternative has a column for {key!r}: there is no {wanted!r}, by the pattern {pattern!r}"
            )
    described = {
        alternative: {key: pattern.format(item=key, alternative=alternative) for key in item}
        for alternative in alternatives
    }
    flags = {
        alternative: pattern.format(item=available, alternative=alternative)
        for alternative in (alternatives if available is not None else ())
    }
    replaced = {column for columns in described.values() for column in columns.values()} | set(flags.values())
    frame = frame.with_row_index("situation")
    parts = []
    for alternative, value in alternatives.items():
        there = frame.filter(pl.col(flags[alternative]) == 1) if flags else frame
        parts.append(
            there.select(
                *(column for column in frame.columns if column not in replaced and column not in (chosen, "situation")),
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
    with needs("a problem made of a table", "data"):
        import polars as pl

    if isinstance(table, pl.DataFrame):
        return table
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        # Value by value: pandas marks what is missing in a way of its own in each type of column.
        present = table.astype(object).where(table.notna(), None)
        return pl.DataFrame({str(column): present[column].tolist() for column in table.columns}, strict=False)
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


def _situations(
    frame: pl.DataFrame, situation: str, alternative: str, chosen: str, context: Sequence[str], path: Path
) -> tuple[list[NDArray[np.int64]], list[str]]:
    """Return the rows of each situation in which one of several alternatives was chosen; what to say of the others."""
    import polars as pl

    for column in (situation, alternative):
        absent = frame[column].is_null().arg_true()
        if len(absent):
            raise DataError(path, "a missing value; every row needs one", line=absent[0] + 2, column=column)
    groups = frame.with_row_index("(row)").group_by(situation, maintain_order=True)
    found = groups.agg(
        pl.col("(row)").alias("(rows)"),
        pl.col(chosen).sum().alias("(chosen)"),
        (pl.col(alternative).n_unique() < pl.len()).alias("(twice)"),
        *((pl.col(column).n_unique() > 1).alias(f"(differs) {column}") for column in context),
    )
    _refuse(found, situation, pl.col("(chosen)") > 1, "several alternatives were chosen, expected one", chosen, path)
    _refuse(found, situation, pl.col("(twice)"), "an alternative occurs twice", alternative, path)
    for column in context:
        what = "the values differ, but a context is the same for all alternatives"
        _refuse(found, situation, pl.col(f"(differs) {column}"), what, column, path)
    none, single = pl.col("(chosen)") == 0, pl.col("(rows)").list.len() == 1
    notes = []
    for which, what in ((none, "in which nothing was chosen"), (~none & single, "with one alternative only")):
        if count := found.filter(which).height:
            notes.append(f"{count} choice situations {what} were left out")
    rows = found.filter(~none & ~single)["(rows)"]
    if not len(rows):
        raise DataError(path, "no choice situation has several alternatives of which one was chosen", column=situation)
    return [group.to_numpy().astype(np.int64) for group in rows], notes


def _refuse(found: pl.DataFrame, situation: str, wrong: pl.Expr, what: str, column: str, path: Path) -> None:
    """Raise a `DataError` for the first situation of which something is true that must not be."""
    first = found.filter(wrong)[situation]
    if len(first):
        raise DataError(path, f"choice situation {first[0]!r}: {what}", column=column)


class _Side(NamedTuple):
    """Features of choosers or alternatives: a vector and a dictionary per row."""

    vectors: Array
    names: tuple[str, ...]
    frame: pl.DataFrame | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, columns: Sequence[str], categorical: Sequence[str], path: Path) -> _Side:
        if not columns:
            return cls(np.ones((frame.height, 1)), (CONSTANT,), None, ())
        import polars as pl

        raw = frame.select(columns)
        features, notes = feature_columns(path, raw, set(categorical), MOST_VALUES)
        vectors, names = encoded(features)
        words = [column for column in columns if column in categorical]
        # A missing number is the mean of its column; in dictionaries it stays missing.
        return cls(standardized(vectors, None), names, raw.cast(dict.fromkeys(words, pl.String)), tuple(notes))

    def dictionaries(self, rows: NDArray[np.int64]) -> tuple[Raw, ...]:
        return ({},) * len(rows) if self.frame is None else tuple(self.frame[rows].to_dicts())
