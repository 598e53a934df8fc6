"""Frames of polars and pandas, CSV and Parquet files, read through one small interface."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.extras import needs
from lim2.log.candidates import Array


class Frame:
    """Columns by name.

    Parameters
    ----------
    columns
        Name -> a column of polars or pandas.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    @classmethod
    def of(cls, frame: Any) -> Frame:
        """Read a frame or a file.

        Parameters
        ----------
        frame
            A frame of polars (lazy or not) or pandas, or the path of a CSV or Parquet file.
        """
        if isinstance(frame, str | Path):
            frame = _read(Path(frame))
        if hasattr(frame, "collect"):  # polars, lazy
            frame = frame.collect()
        if not hasattr(frame, "columns"):
            raise ValueError(
                f"frame must be of polars or pandas, or the path of a CSV or Parquet file; got {type(frame).__name__}"
            )
        return cls({str(name): frame[name] for name in frame.columns})

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self._columns)

    def values(self, name: str) -> list[Any]:
        """Return a column as a list of Python's values, None where one is missing.

        Parameters
        ----------
        name
            Name of the column.
        """
        values = self._column(name)
        listed = values.to_list() if hasattr(values, "to_list") else list(values)
        return [None if _is_missing(value) else value for value in listed]

    def numbers(self, name: str) -> Array:
        """Return a column of numbers; raise a ValueError if it holds other values.

        Parameters
        ----------
        name
            Name of the column.
        """
        column = self._column(name)
        array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        if array.dtype.kind not in "fiub":  # numbers with gaps, perhaps
            values = self.values(name)
            other = next((value for value in values if value is not None and not isinstance(value, int | float)), None)
            if other is not None:
                raise ValueError(f"the column {name!r} must hold numbers, got {other!r}: raw=True takes text as well")
            array = np.array([np.nan if value is None else value for value in values])
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            what = "no value" if np.isnan(array[row]) else str(array[row])
            raise ValueError(f"the column {name!r} has {what} in row {row}: leave that row out, or fill it in first")
        return array

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return columns of numbers side by side.

        Parameters
        ----------
        names
            Names of the columns.
        """
        return np.column_stack([self.numbers(name) for name in names])

    def records(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return rows as dictionaries.

        Parameters
        ----------
        names
            Names of the columns.
        """
        columns = [self.values(name) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def lists(self, name: str) -> list[list[Any]]:
        """Return a column of lists; text is read as JSON.

        Parameters
        ----------
        name
            Name of the column.
        """
        rows = []
        for row, value in enumerate(self.values(name)):
            try:
                rows.append(list(json.loads(value) if isinstance(value, str) else value))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"the column {name!r} must hold lists, or lists as JSON text; got {value!r} in row {row}"
                ) from error
        return rows

    def chosen(self, names: str | Sequence[str]) -> list[str]:
        """Return names of columns: those given, or those that begin with a string.

        Parameters
        ----------
        names
            Names, or what they begin with.
        """
        if not isinstance(names, str):
            for name in names:
                self._column(name)
            return list(names)
        found = [name for name in self.names if name.startswith(names)]
        if not found:
            raise ValueError(f"no column begins with {names!r}: there are {self.names!r}")
        return found

    def _column(self, name: str) -> Any:
        if name not in self._columns:
            raise ValueError(f"there is no column {name!r}: there are {self.names!r}")
        return self._columns[name]


def read_decisions(
    frame: Frame,
    context: str | Sequence[str],
    arm: str,
    eligible: str | None,
    propensities: str | Mapping[Any, str] | None,
    raw: bool,
) -> dict[str, Any]:
    """Return the arguments of `Table.of` from the columns of a frame.

    Parameters
    ----------
    frame
        A row per decision.
    context, arm, eligible, propensities, raw
        The same as for `Table.from_frame`.
    """
    names, played = frame.chosen(context), frame.values(arm)
    if None in played:
        raise ValueError(f"the column {arm!r} has no value in row {played.index(None)}: leave that row out")
    candidates = None if eligible is None else frame.lists(eligible)
    chances: Any = None
    if isinstance(propensities, str):
        if candidates is None:
            raise ValueError("a column of lists of propensities goes with eligible=, which names their arms")
        chances = frame.lists(propensities)
    elif propensities is not None:
        by_arm = {name: frame.numbers(column) for name, column in propensities.items()}
        candidates = _above_zero(by_arm, len(played)) if candidates is None else candidates
        chances = [[_chance(by_arm, name, row) for name in there] for row, there in enumerate(candidates)]
    contexts: Any = frame.records(names) if raw else frame.matrix(names)
    return {"contexts": contexts, "played": played, "eligible": candidates, "propensities": chances}


def read_items(frame: Frame, item: str | None, features: str | Sequence[str] | None, raw: bool) -> dict[Hashable, Any]:
    """Return the features of each arm, by its name.

    Parameters
    ----------
    frame
        A row per arm.
    item
        The column of names.
    features
        The columns of features; None: all others.
    raw
        Whether features are dictionaries.
    """
    if item is None:
        raise ValueError(f"item= must name the column of items that has the names of arms: one of {frame.names!r}")
    named = frame.values(item)
    if len(set(named)) < len(named) or None in named:
        raise ValueError(f"the column {item!r} of items must name every arm once")
    columns = [name for name in frame.names if name != item] if features is None else frame.chosen(features)
    rows: Any = frame.records(columns) if raw else frame.matrix(columns)
    return dict(zip(named, rows, strict=True))


def _above_zero(by_arm: dict[Hashable, Array], n: int) -> list[list[Hashable]]:
    return [[name for name in by_arm if by_arm[name][row] > 0] for row in range(n)]


def _chance(by_arm: dict[Hashable, Array], name: Hashable, row: int) -> float:
    if name not in by_arm:
        raise ValueError(f"propensities has no column for {name!r}, which was eligible in row {row}")
    return float(by_arm[name][row])


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in ("NaTType", "NAType") or (isinstance(value, float) and np.isnan(value))


def _read(path: Path) -> Any:
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"{path} must end in .csv or .parquet; read a file of another kind by yourself")
    with needs("reading CSV and Parquet files", "data"):
        import polars as pl  # not for everyone who imports lim2
    return pl.read_csv(path) if kind == ".csv" else pl.read_parquet(path)
