"""Arrays, lists and dictionaries from elsewhere, checked and brought into the form of a table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import is_range
from lim2.checks import real_numbers
from lim2.log.candidates import Array, Candidates, Ints
from lim2.log.serialization import as_json


class Choices(NamedTuple):
    """Eligible arms of each row, and the arm played."""

    arms: tuple[Hashable, ...]
    chosen: Ints
    candidates: Candidates


def column(values: ArrayLike, name: str, n: int) -> Array:
    """Return n finite numbers; raise a ValueError that names the row of an invalid one.

    Parameters
    ----------
    values
        Numbers, (n,).
    name
        Description of the values, for error messages.
    n
        Required number.
    """
    array = real_numbers(values, name).astype(np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have the shape {(n,)}, got {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[row]} in row {row}: leave out rows without a value")
    return array


def read_contexts(contexts: Any, n: int) -> NDArray[Any]:
    """Return (n, ...) vectors, or (n,) raw contexts.

    Parameters
    ----------
    contexts
        Vectors, or dictionaries.
    n
        Required number.
    """
    array = read_raw(contexts)
    if array is None:
        array = real_numbers(contexts, "contexts")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            where = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(
                f"contexts must be finite, got {array[tuple(where)]} in row {where[0]}, column {where[1:].tolist()}: "
                f"replace missing values, or give raw contexts, which may lack them"
            )
    if len(array) != n:
        raise ValueError(f"contexts must have the shape {(n, *array.shape[1:])}, got {array.shape}")
    return array


def read_raw(contexts: Any) -> NDArray[Any] | None:
    """Return raw contexts as JSON, (n,); None if these are vectors.

    Parameters
    ----------
    contexts
        Vectors, or dictionaries.
    """
    if isinstance(contexts, np.ndarray) and contexts.dtype != object:
        return None
    if not len(contexts) or not (isinstance(contexts[0], Mapping) or hasattr(contexts[0], "__dataclass_fields__")):
        return None
    return as_raw(contexts)


def as_raw(contexts: Sequence[Any]) -> NDArray[Any]:
    """Return raw contexts as JSON, (n,).

    Parameters
    ----------
    contexts
        Dictionaries, dataclasses or rows.
    """
    return objects([as_json(context, f"the raw context of row {row}") for row, context in enumerate(contexts)])


def read_candidates(
    played: Sequence[Hashable],
    arms: Sequence[Hashable] | None,
    eligible: Any,
    propensities: Any,
    means: Any,
    items: Any,
) -> Choices:
    """Return the eligible arms from any of the forms that `Table.of` takes.

    Parameters
    ----------
    played, arms, eligible, propensities, means, items
        The same as for `Table.of`.
    """
    n = len(played)
    per_row = items is not None and not isinstance(items, Mapping)
    if per_row and len(items) != n:
        raise ValueError(f"items must be one mapping, or one per row: {n}, got {len(items)}")
    named_rows = _eligible_names(eligible, items if per_row else None)
    if named_rows is not None and len(named_rows) != n:
        raise ValueError(f"eligible must have {n} rows, got {len(named_rows)}")
    names = _names(played, named_rows) if arms is None else tuple(arms)
    if any(name != name for name in names if isinstance(name, float)):
        raise ValueError("NaN cannot be the name of an arm: leave out rows in which the arm is missing, or name it")
    index = {name: place for place, name in enumerate(names)}
    unknown = [name for name in dict.fromkeys(played) if name not in index]
    if unknown:
        raise ValueError(f"played arms that are not among arms: {unknown!r}")
    chosen = np.array([index[name] for name in played], dtype=np.intp)
    rows = _places(named_rows, eligible, propensities, index, chosen, n)
    candidates = Candidates.of(rows)
    candidates = Candidates(
        candidates.starts,
        candidates.arms,
        _flat(propensities, candidates, len(names), "propensities", named_rows is not None),
        _flat(means, candidates, len(names), "means", named_rows is not None),
        *_features(items, per_row, candidates, names),
    )
    return Choices(names, chosen, candidates)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return a 1-D array of any objects.

    Parameters
    ----------
    values
        Dictionaries, lists, anything.
    """
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _names(played: Sequence[Hashable], rows: list[tuple[Hashable, ...]] | None) -> tuple[Hashable, ...]:
    """Return all names in order of first appearance; items without names are numbered."""
    if rows and all(is_range(row) for row in rows):
        return max(rows, key=len)
    return tuple(dict.fromkeys([*played, *(arm for row in rows or () for arm in row)]))


def _eligible_names(eligible: Any, items: Any) -> list[tuple[Hashable, ...]] | None:
    """Return the names of each row's candidates; None if they are not given by name."""
    if eligible is None and items is not None:
        return [tuple(row) if isinstance(row, Mapping) else tuple(range(len(row))) for row in items]
    if eligible is None or (isinstance(eligible, np.ndarray) and eligible.dtype == bool):
        return None
    rows = [tuple(row) for row in eligible]
    for number, row in enumerate(rows):
        if len(set(row)) < len(row):
            raise ValueError(f"eligible names an arm twice in row {number}: {row!r}")
    return rows


def _places(
    named: list[tuple[Hashable, ...]] | None,
    eligible: Any,
    propensities: Any,
    index: dict[Hashable, int],
    chosen: Ints,
    n: int,
) -> list[Any]:
    """Return the indices of each row's candidates."""
    if named is not None:
        unknown = next((arm for row in named for arm in row if arm not in index), None)
        if unknown is not None:
            raise ValueError(f"eligible names {unknown!r}, which is not among arms")
        return [[index[arm] for arm in row] for row in named]
    shape = (n, len(index))
    if eligible is not None:
        mask = np.array(eligible)
    elif propensities is not None:
        given = np.asarray(propensities, dtype=np.float64)
        if given.shape != shape:
            raise ValueError(f"propensities must have the shape {shape}, got {given.shape}")
        mask = ~(given <= 0)  # NaN is reported below
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
    bad = ~np.isfinite(flat) if name == "means" else ~((flat >= 0) & (flat <= 1 + 1e-9))
    if bad.any():
        what = "finite" if name == "means" else "between 0 and 1"
        place = int(bad.argmax())
        raise ValueError(f"{name} must be {what}, got {flat[place]} in row {candidates.rows[place]}")
    return flat


def _features(
    items: Any, per_row: bool, candidates: Candidates, names: tuple[Hashable, ...]
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the candidates' features as vectors and as raw values; None for missing ones."""
    if items is None:
        return None, None
    if not per_row:
        used = sorted(set(candidates.arms.tolist()))
        absent = [names[arm] for arm in used if names[arm] not in items]
        if absent:
            raise ValueError(f"items has no features of {absent[:10]!r}")
        known, is_raw = _converted([items[names[arm]] for arm in used], [f"the item {names[arm]!r}" for arm in used])
        flat = known[np.searchsorted(used, candidates.arms)]
        return flat, flat if is_raw else None
    parts: list[Any] = []
    for row, (first, last) in enumerate(zip(candidates.starts[:-1], candidates.starts[1:], strict=True)):
        given = items[row]
        wanted = [names[arm] for arm in candidates.arms[first:last]]
        if not isinstance(given, Mapping) and len(given) != len(wanted):
            raise ValueError(f"items of row {row} must be {len(wanted)}, one per candidate, got {len(given)}")
        if isinstance(given, Mapping) and any(arm not in given for arm in wanted):
            raise ValueError(f"items of row {row} has no {next(arm for arm in wanted if arm not in given)!r}")
        parts += [given[arm] for arm in wanted] if isinstance(given, Mapping) else list(given)
    flat, is_raw = _converted(parts, [f"an item of row {row}" for row in candidates.rows])
    return flat, flat if is_raw else None


def _converted(features: list[Any], where: list[str]) -> tuple[NDArray[Any], bool]:
    """Return features as vectors (m, e) if they are, else as JSON (m,)."""
    if not features:
        return np.empty((0, 0)), False
    if isinstance(features[0], Mapping) or hasattr(features[0], "__dataclass_fields__"):
        return objects([as_json(item, name) for item, name in zip(features, where, strict=True)]), True
    lengths = {np.shape(item) for item in features}
    if len(lengths) > 1 or len(next(iter(lengths))) != 1:
        raise ValueError(f"items must be dictionaries, or vectors of one length; got the shapes {sorted(lengths)[:5]}")
    vectors = real_numbers(np.array(features), "items").astype(np.float64)
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise ValueError(f"items must be finite, but {where[int(bad.argmax())]} is {vectors[bad.argmax()]}")
    return vectors, False
