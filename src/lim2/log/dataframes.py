"""Decisions of other systems in arrays, dictionaries, data frames and files, converted to the columns of a table."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import is_range
from lim2.checks import real_numbers
from lim2.extras import needs
from lim2.log.candidates import Array, Candidates, Ints
from lim2.log.serialization import as_json

if TYPE_CHECKING:
    import narwhals as nw

    Frame = nw.DataFrame[Any]


# Data frames and files


def read_frame(source: Any) -> Frame:
    """Return a data frame of polars or pandas, or a CSV or Parquet file, behind the interface of narwhals."""
    is_file = isinstance(source, str | Path)
    with needs("reading CSV and Parquet files" if is_file else "reading a data frame", "data"):
        import narwhals as nw
    if is_file:
        kind = Path(source).suffix.lower()
        if kind not in (".csv", ".parquet"):
            raise ValueError(f"{source} must end in .csv or .parquet; read a file of another kind by yourself")
        with needs("reading CSV and Parquet files", "data"):
            import polars as pl
        source = pl.read_csv(source) if kind == ".csv" else pl.read_parquet(source)
    try:
        frame = nw.from_native(source)
    except TypeError as error:
        raise ValueError(
            f"frame must be of polars or pandas, or the path of a CSV or Parquet file; got {type(source).__name__}"
        ) from error
    frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return frame.rename({name: str(name) for name in frame.columns})


def read_decisions(
    frame: Frame,
    context: str | Sequence[str],
    arm: str,
    eligible: str | None,
    propensities: str | Mapping[Any, str] | None,
    raw: bool,
) -> dict[str, Any]:
    """Return the arguments of `Table.of` from a frame with a row per decision; see `Table.from_frame`."""
    names, played = _selected(frame, context), _values(frame, arm)
    if None in played:
        raise ValueError(f"the column {arm!r} has no value in row {played.index(None)}: leave that row out")
    candidates = None if eligible is None else _lists(frame, eligible)
    shares: Any = None
    if isinstance(propensities, str):
        if candidates is None:
            raise ValueError("a column of lists of propensities goes with eligible=, which names their arms")
        shares = _lists(frame, propensities)
    elif propensities is not None:
        by_arm = {name: numbers(frame, column) for name, column in propensities.items()}
        if candidates is None:
            candidates = [[name for name in by_arm if by_arm[name][row] > 0] for row in range(len(played))]
        shares = [[_propensity(by_arm, name, row) for name in arms] for row, arms in enumerate(candidates)]
    contexts: Any = _records(frame, names) if raw else _matrix(frame, names)
    return {"contexts": contexts, "played": played, "eligible": candidates, "propensities": shares}


def read_items(frame: Frame, item: str | None, features: str | Sequence[str] | None, raw: bool) -> dict[Hashable, Any]:
    """Return the features of each arm by name, from a frame with a row per arm; see `Table.from_frame`."""
    if item is None:
        raise ValueError(f"item= must name the column of items that has the names of arms: one of {frame.columns!r}")
    names = _values(frame, item)
    if len(set(names)) < len(names) or None in names:
        raise ValueError(f"the column {item!r} of items must name every arm once")
    columns = [name for name in frame.columns if name != item] if features is None else _selected(frame, features)
    rows: Any = _records(frame, columns) if raw else _matrix(frame, columns)
    return dict(zip(names, rows, strict=True))


def numbers(frame: Frame, name: str) -> Array:
    """Return a column of finite numbers; raise a ValueError if it holds other values."""
    import narwhals as nw

    column = _column(frame, name)
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        array = column.cast(nw.Float64).to_numpy().astype(np.float64)
    else:
        values = _values(frame, name)
        other = next((value for value in values if value is not None and not isinstance(value, int | float)), None)
        if other is not None:
            raise ValueError(f"the column {name!r} must hold numbers, got {other!r}: raw=True takes text as well")
        array = np.array([np.nan if value is None else float(value) for value in values])
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        value = "no value" if np.isnan(array[row]) else str(array[row])
        raise ValueError(f"the column {name!r} has {value} in row {row}: leave that row out, or fill it in first")
    return array


def _column(frame: Frame, name: str) -> nw.Series[Any]:
    if name not in frame.columns:
        raise ValueError(f"there is no column {name!r}: there are {frame.columns!r}")
    return frame[name]


def _values(frame: Frame, name: str) -> list[Any]:
    """Return a column as a list of Python's values, None where one is missing."""
    column = _column(frame, name)
    pairs = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return [None if null or (isinstance(value, float) and np.isnan(value)) else value for value, null in pairs]


def _matrix(frame: Frame, names: Sequence[str]) -> NDArray[np.float64]:
    return np.column_stack([numbers(frame, name) for name in names])


def _records(frame: Frame, names: Sequence[str]) -> list[dict[str, Any]]:
    columns = [_values(frame, name) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _lists(frame: Frame, name: str) -> list[list[Any]]:
    """Return a column of lists; text is read as JSON."""
    rows = []
    for row, value in enumerate(_values(frame, name)):
        try:
            rows.append(list(json.loads(value) if isinstance(value, str) else value))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the column {name!r} must hold lists, or lists as JSON text; got {value!r} in row {row}"
            ) from error
    return rows


def _selected(frame: Frame, names: str | Sequence[str]) -> list[str]:
    """Return the columns in a list, or those whose names begin with a string."""
    if not isinstance(names, str):
        for name in names:
            _column(frame, name)
        return list(names)
    selected = [name for name in frame.columns if name.startswith(names)]
    if not selected:
        raise ValueError(f"no column begins with {names!r}: there are {frame.columns!r}")
    return selected


def _propensity(by_arm: dict[Hashable, Array], name: Hashable, row: int) -> float:
    if name not in by_arm:
        raise ValueError(f"propensities has no column for {name!r}, which was eligible in row {row}")
    return float(by_arm[name][row])


# Arrays and lists


def checked_column(values: ArrayLike, name: str, n: int) -> Array:
    """Return n finite numbers; raise a ValueError that names the row of an invalid one."""
    array = real_numbers(values, name).astype(np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have the shape {(n,)}, got {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[row]} in row {row}: leave out rows without a value")
    return array


def read_contexts(contexts: Any, n: int) -> NDArray[Any]:
    """Return n contexts: (n, ...) vectors, or (n,) raw contexts."""
    array = read_raw(contexts)
    if array is None:
        array = real_numbers(contexts, "contexts")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(
                f"contexts must be finite, got {array[tuple(place)]} in row {place[0]}, column {place[1:].tolist()}: "
                f"replace missing values, or give raw contexts, which may lack them"
            )
    if len(array) != n:
        raise ValueError(f"contexts must have the shape {(n, *array.shape[1:])}, got {array.shape}")
    return array


def read_raw(contexts: Any) -> NDArray[Any] | None:
    """Return raw contexts as JSON, (n,); None if these are vectors."""
    if isinstance(contexts, np.ndarray) and contexts.dtype != object:
        return None
    return as_raw(contexts) if len(contexts) and _is_raw(contexts[0]) else None


def as_raw(contexts: Sequence[Any]) -> NDArray[Any]:
    """Return dictionaries, dataclasses or rows as JSON, (n,)."""
    return objects([as_json(context, f"the raw context of row {row}") for row, context in enumerate(contexts)])


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return a 1-D array of any objects."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _is_raw(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "__dataclass_fields__")


# Candidates


class Choices(NamedTuple):
    """Eligible arms of each row, and the arm played."""

    arms: tuple[Hashable, ...]
    chosen: Ints
    candidates: Candidates


def read_candidates(
    played: Sequence[Hashable],
    arms: Sequence[Hashable] | None,
    eligible: Any,
    propensities: Any,
    means: Any,
    items: Any,
) -> Choices:
    """Return the eligible arms from any of the forms that `Table.of` takes."""
    n = len(played)
    per_row = items is not None and not isinstance(items, Mapping)
    if per_row and len(items) != n:
        raise ValueError(f"items must be one mapping, or one per row: {n}, got {len(items)}")
    rows_of_names = _eligible_names(eligible, items if per_row else None)
    if rows_of_names is not None and len(rows_of_names) != n:
        raise ValueError(f"eligible must have {n} rows, got {len(rows_of_names)}")
    names = _names(played, rows_of_names) if arms is None else tuple(arms)
    if any(name != name for name in names if isinstance(name, float)):
        raise ValueError("NaN cannot be the name of an arm: leave out rows in which the arm is missing, or name it")
    index = {name: place for place, name in enumerate(names)}
    unknown = [name for name in dict.fromkeys(played) if name not in index]
    if unknown:
        raise ValueError(f"played arms that are not among arms: {unknown!r}")
    chosen = np.array([index[name] for name in played], dtype=np.intp)
    candidates = Candidates.of(_indices(rows_of_names, eligible, propensities, index, chosen, n))
    by_name = rows_of_names is not None
    candidates = Candidates(
        candidates.starts,
        candidates.arms,
        _flat(propensities, candidates, len(names), "propensities", by_name),
        _flat(means, candidates, len(names), "means", by_name),
        *_features(items, per_row, candidates, names),
    )
    return Choices(names, chosen, candidates)


def _names(played: Sequence[Hashable], rows: list[tuple[Hashable, ...]] | None) -> tuple[Hashable, ...]:
    """Return all names in order of first appearance; items without names are numbered."""
    if rows and all(is_range(row) for row in rows):
        return max(rows, key=len)
    return tuple(dict.fromkeys([*played, *(arm for row in rows or () for arm in row)]))


def _eligible_names(eligible: Any, items: Any) -> list[tuple[Hashable, ...]] | None:
    """Return the names of each row's candidates; None if the arguments have no names."""
    if eligible is None and items is not None:
        return [tuple(row) if isinstance(row, Mapping) else tuple(range(len(row))) for row in items]
    if eligible is None or (isinstance(eligible, np.ndarray) and eligible.dtype == bool):
        return None
    rows = [tuple(row) for row in eligible]
    for number, row in enumerate(rows):
        if len(set(row)) < len(row):
            raise ValueError(f"eligible names an arm twice in row {number}: {row!r}")
    return rows


def _indices(
    rows_of_names: list[tuple[Hashable, ...]] | None,
    eligible: Any,
    propensities: Any,
    index: dict[Hashable, int],
    chosen: Ints,
    n: int,
) -> list[Any]:
    """Return the indices of each row's candidates."""
    if rows_of_names is not None:
        unknown = next((arm for row in rows_of_names for arm in row if arm not in index), None)
        if unknown is not None:
            raise ValueError(f"eligible names {unknown!r}, which is not among arms")
        return [[index[arm] for arm in row] for row in rows_of_names]
    shape = (n, len(index))
    if eligible is not None:
        mask = np.array(eligible)
    elif propensities is not None:
        dense = np.asarray(propensities, dtype=np.float64)
        if dense.shape != shape:
            raise ValueError(f"propensities must have the shape {shape}, got {dense.shape}")
        mask = ~(dense <= 0)  # NaN is reported below
        mask[np.arange(n), chosen] = True
    else:
        return [np.arange(len(index))] * n
    if mask.shape != shape:
        raise ValueError(f"eligible must have the shape {shape}, got {mask.shape}")
    return [np.flatnonzero(row) for row in mask]


def _flat(values: Any, candidates: Candidates, n_arms: int, name: str, by_name: bool) -> Array | None:
    """Return (m,) values of the candidates: from sequences in their order if these have names, else from (n, K)."""
    if values is None:
        return None
    if by_name:
        sizes = np.array([len(row) for row in values])
        if len(sizes) != len(candidates) or (sizes != candidates.sizes).any():
            raise ValueError(f"{name} must have a number for each of the row's candidates, in their order")
        flat = np.concatenate([np.asarray(row, dtype=np.float64) for row in values])
    else:
        dense, shape = np.asarray(values, dtype=np.float64), (len(candidates), n_arms)
        if dense.shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {dense.shape}")
        flat = dense[candidates.rows, candidates.arms]
    invalid = ~np.isfinite(flat) if name == "means" else ~((flat >= 0) & (flat <= 1 + 1e-9))
    if invalid.any():
        bounds = "finite" if name == "means" else "between 0 and 1"
        place = int(invalid.argmax())
        raise ValueError(f"{name} must be {bounds}, got {flat[place]} in row {candidates.rows[place]}")
    return flat


def _features(
    items: Any, per_row: bool, candidates: Candidates, names: tuple[Hashable, ...]
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the candidates' features as vectors and as raw values; None for missing ones."""
    if items is None:
        return None, None
    if not per_row:
        used = sorted(set(candidates.arms.tolist()))
        missing = [names[arm] for arm in used if names[arm] not in items]
        if missing:
            raise ValueError(f"items has no features of {missing[:10]!r}")
        features, is_raw = _converted([items[names[arm]] for arm in used], [f"the item {names[arm]!r}" for arm in used])
        flat = features[np.searchsorted(used, candidates.arms)]
        return flat, flat if is_raw else None
    parts: list[Any] = []
    for row, (first, last) in enumerate(zip(candidates.starts[:-1], candidates.starts[1:], strict=True)):
        entry, arms = items[row], [names[arm] for arm in candidates.arms[first:last]]
        if not isinstance(entry, Mapping) and len(entry) != len(arms):
            raise ValueError(f"items of row {row} must be {len(arms)}, one per candidate, got {len(entry)}")
        if isinstance(entry, Mapping) and any(arm not in entry for arm in arms):
            raise ValueError(f"items of row {row} has no {next(arm for arm in arms if arm not in entry)!r}")
        parts += [entry[arm] for arm in arms] if isinstance(entry, Mapping) else list(entry)
    flat, is_raw = _converted(parts, [f"an item of row {row}" for row in candidates.rows])
    return flat, flat if is_raw else None


def _converted(features: list[Any], names: list[str]) -> tuple[NDArray[Any], bool]:
    """Return features as vectors (m, e) if they are vectors, else as JSON (m,), and whether they are JSON."""
    if not features:
        return np.empty((0, 0)), False
    if _is_raw(features[0]):
        return objects([as_json(item, name) for item, name in zip(features, names, strict=True)]), True
    shapes = {np.shape(item) for item in features}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1:
        raise ValueError(f"items must be dictionaries, or vectors of one length; got the shapes {sorted(shapes)[:5]}")
    vectors = real_numbers(np.array(features), "items").astype(np.float64)
    invalid = ~np.isfinite(vectors).all(axis=1)
    if invalid.any():
        raise ValueError(f"items must be finite, but {names[int(invalid.argmax())]} is {vectors[invalid.argmax()]}")
    return vectors, False
