"""States: trees of named tuples, with arrays and numbers as leaves, and all generic functions on them.

A state is a value. An algorithm returns a new state and never modifies the old one, with two exceptions that this file
and ``memory.py`` hide: :class:`Writes` lets a rank-one update replace one arm's row without copying the rest, and a
memory writes a new tuple into a row that the previous version does not use.

An annotation gives an array's axes and properties::

    mu: Annotated[Array, "arm g"]           # one row per arm
    cov: Annotated[Array, "arm g g", "psd"]

Axes of one name have one length within a state. Loading checks it, and changes of arms use the axis ``arm``.
"""

import functools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap
from operator import setitem
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Count = Annotated[int, "count"]

Tree = TypeVar("Tree")

# Beyond this a number of a state is no statistic of contexts and rewards below 1e30: products of it would overflow.
LARGEST = 1e105
MODERATE = 1e20  # beyond this a network's parameter has exploded
LARGEST_COUNT = 2**62
_ROUNDING = 1e-7  # how far below 0 an eigenvalue may lie, relative to the largest entry


class Field(NamedTuple):
    """Content of an annotation: type of the field, names of the axes of an array, and properties."""

    kind: Any
    axes: tuple[str, ...] | None
    properties: tuple[str, ...]
    optional: bool = False


@functools.cache
def fields_of(node: Any) -> dict[str, Field]:
    """Return the annotations of a named tuple."""
    return {name: _field(hint) for name, hint in get_type_hints(node, include_extras=True).items()}


def _field(hint: Any) -> Field:
    if get_origin(hint) in (Union, types.UnionType):  # X | None
        (hint,) = (part for part in get_args(hint) if part is not type(None))
        return _field(hint)._replace(optional=True)
    if get_origin(hint) is not Annotated:
        return Field(hint, None, ())
    kind, *notes = get_args(hint)
    if kind is int:
        return Field(int, None, tuple(notes))
    return Field(kind, tuple(notes[0].split()), tuple(notes[1:]))


def is_node(value: Any) -> bool:
    """Return whether a value, or a type, is a branch of a tree: a named tuple."""
    return hasattr(value, "_fields")


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a state with its path, e.g. ``posterior/mu``; an absent part is the leaf None.

    Examples
    --------
    >>> class Tally(NamedTuple):
    ...     sums: Annotated[Array, "arm"]
    ...     count: Count
    >>> dict(leaves(Tally(np.zeros(2), 3)))
    {'sums': array([0., 0.]), 'count': 3}
    """
    if is_node(tree):
        for name in tree._fields:
            yield from leaves(getattr(tree, name), f"{path}/{name}" if path else name)
    elif isinstance(tree, Mapping):
        for name, part in tree.items():
            yield from leaves(part, f"{path}/{name}" if path else name)
    else:
        yield path, tree


def mapped(tree: Tree, change: Callable[[Any], Any]) -> Tree:
    """Return a tree of the same form, with a function applied to each leaf."""
    if is_node(tree):
        return type(tree)(*(mapped(part, change) for part in tree))  # type: ignore[attr-defined]
    if isinstance(tree, Mapping):
        return {name: mapped(part, change) for name, part in tree.items()}  # type: ignore[return-value]
    return change(tree)  # type: ignore[no-any-return]


def copied(tree: Tree) -> Tree:
    """Return a deep copy of a state."""
    return mapped(tree, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)


def canonical(tree: Any) -> Any:
    """Return the canonical form of a state, without spare storage: equal states are then equal in every byte."""
    if hasattr(tree, "canonical"):
        return tree.canonical()
    return type(tree)(*map(canonical, tree)) if is_node(tree) else tree


def frozen(tree: Tree) -> Tree:
    """Make all arrays of a state read-only and return it; in tests, an impure function then fails."""
    for _, leaf in leaves(tree):
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    return tree


def nbytes(tree: Any) -> int:
    """Return the size of a state's arrays in bytes."""
    return sum(leaf.nbytes for _, leaf in leaves(tree) if isinstance(leaf, np.ndarray))


# Rows: rank-one updates in O(row), not O(arms x row)

Write = tuple[Any, Any, Any]  # an array, the arm whose row changes, and its new row


def put(writes: Iterable[Write]) -> None:
    """Assign values in arrays or mappings in one C call, so that no exception interrupts them."""
    deque(starmap(setitem, list(writes)), maxlen=0)


class Writes(NamedTuple):
    """A new state that differs only in a few rows: it is ``state`` once these rows are written."""

    state: Any
    rows: list[Write]


def written(new: Writes) -> Any:
    """Return the new state with the rows written into copies; the old state does not change."""
    copies: dict[int, NDArray[Any]] = {}
    for array, arm, row in new.rows:
        copies.setdefault(id(array), array.copy())[arm] = row
    return mapped(new.state, lambda leaf: copies.get(id(leaf), leaf))


# Arms


def with_row(rows: NDArray[Any], row: Any) -> NDArray[Any]:
    """Return a new array with one more row; a number fills the row.

    Examples
    --------
    >>> with_row(np.array([[1.0, 2.0]]), 0.0).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    out = np.empty((len(rows) + 1, *rows.shape[1:]), dtype=rows.dtype)
    out[:-1] = rows
    out[-1] = row
    return out


def without_row(rows: NDArray[Any], row: int) -> NDArray[Any]:
    """Return a new array without one row.

    Examples
    --------
    >>> without_row(np.array([[1.0, 2.0], [3.0, 4.0]]), 0).tolist()
    [[3.0, 4.0]]
    """
    return np.concatenate((rows[:row], rows[row + 1 :]))


def with_arm(node: Tree, like: int | None, fresh: Any) -> Tree:
    """Return a named tuple with one more arm: a copy of arm ``like``, or the first arm of ``fresh``.

    Every array whose first axis is ``arm`` gets a row; nested named tuples are not changed.
    """
    changed = {
        name: with_row(getattr(node, name), getattr(fresh, name)[0] if like is None else getattr(node, name)[like])
        for name in _per_arm(node)
    }
    return node._replace(**changed)  # type: ignore[attr-defined, no-any-return]


def without_arm(node: Tree, arm: int) -> Tree:
    """Return a named tuple without an arm; later arms move up. Nested named tuples are not changed."""
    return node._replace(**{name: without_row(getattr(node, name), arm) for name in _per_arm(node)})  # type: ignore[attr-defined, no-any-return]


def _per_arm(node: Any) -> list[str]:
    named = fields_of(type(node)).items()  # type: ignore[arg-type]
    return [name for name, field in named if field.axes and field.axes[0] == "arm" and getattr(node, name) is not None]


# From leaves back to a state: what loading needs


def rebuilt(kind: type, flat: Mapping[str, Any], kinds: Mapping[str, Any], path: str = "") -> Any:
    """Return the state with these leaves; raise a ValueError if they do not fit.

    ``kinds`` gives, by path, the type of a part whose annotation is ``Any`` or that depends on the settings; None if
    the part is absent.
    """
    values: dict[str, Any] = {}
    for name, field in fields_of(kind).items():
        place = f"{path}/{name}" if path else name
        inner = kinds.get(place, field.kind)
        absent = flat.get(place, 0) is None
        if absent != (inner is None) and not (absent and field.optional and place not in kinds):
            raise ValueError(f"{place} is {'missing' if absent else 'present, but must be absent'}")
        if absent:
            values[name] = None
        elif is_node(inner):
            values[name] = rebuilt(inner, flat, kinds, place)
        elif inner is dict:
            values[name] = {key.removeprefix(f"{place}/"): v for key, v in flat.items() if key.startswith(f"{place}/")}
        elif place in flat:
            values[name] = flat[place]
        else:
            raise ValueError(f"{place} is missing")
    state = kind(**values)
    if not path and (unknown := sorted(set(flat) - {place for place, _ in leaves(state)})):
        raise ValueError(f"unknown parts: {', '.join(unknown[:5])}")
    return state


def check(tree: Any, sizes: Mapping[str, Any], path: str = "") -> None:
    """Raise a ValueError unless all leaves of a state fit their annotations.

    ``sizes`` has the known lengths of axes, and the others are added to it. An axis ``*name`` stands for several:
    ``sizes`` has a shape under its name. An integer field with the name of an axis is its length.
    """
    known = dict(sizes) if not path else sizes
    for name, field in fields_of(type(tree)).items():  # type: ignore[arg-type]
        place, value = f"{path}/{name}" if path else name, getattr(tree, name)
        if is_node(value):
            check(value, known, place)
        elif isinstance(value, Mapping):
            if not all(isinstance(part, np.ndarray) for part in value.values()):  # their owner knows what they must be
                raise ValueError(f"{place} must hold arrays only")
        elif value is not None:
            _check_leaf(place, value, field, known)


def _check_leaf(place: str, value: Any, field: Field, sizes: Any) -> None:
    if field.kind in (int, float, bool, str):
        if type(value) is not field.kind:
            raise ValueError(f"{place} is {str(value)[:50]}, expected {field.kind.__name__}")
        _check_number(place, value, field, sizes)
    elif isinstance(value, np.ndarray):
        _check_array(place, value, field, sizes)
    else:
        raise ValueError(f"{place} is {str(value)[:50]}, expected an array")


def _check_number(place: str, value: Any, field: Field, sizes: Mapping[str, Any]) -> None:
    if field.kind is float and not abs(value) < LARGEST:
        raise ValueError(f"{place} is {value!r}, which is not finite or too large")
    for note in field.properties:
        if not _holds(note, value):
            raise ValueError(f"{place} is {value!r}, expected a number that is {note}")
        if sizes.get(note, value) != value:
            raise ValueError(f"{place} is {value!r}, expected {sizes[note]}")


def _check_array(place: str, array: NDArray[Any], field: Field, sizes: Any) -> None:
    expected = {Array: np.dtype(np.float64), Ints: np.dtype(np.intp)}.get(field.kind)
    if expected is not None and array.dtype != expected:
        raise ValueError(f"{place} has dtype {array.dtype}, expected {expected}")
    if field.axes is not None:
        shape: list[int] = []
        for axis in field.axes:
            length = array.shape[len(shape)] if len(shape) < array.ndim else -1
            shape.extend(sizes[axis[1:]] if axis.startswith("*") else (sizes.setdefault(axis, length),))
        if array.shape != tuple(shape):
            raise ValueError(f"{place} has shape {array.shape}, expected {tuple(shape)} = ({', '.join(field.axes)})")
    if array.dtype.kind == "f" and not (np.abs(array.astype(np.float64, copy=False)) < LARGEST).all():
        raise ValueError(f"{place} has values that are not finite or too large")
    for note in field.properties:
        if not np.all(_holds(note, array)):
            raise ValueError(f"{place} has values that are not {note}")
    if "psd" in field.properties and array.size:
        _check_psd(place, array)


def _holds(note: str, value: Any) -> Any:
    """Return whether a number, or every element of an array, has a property; True for unknown properties."""
    if note == "count":
        return (value >= 0) & (value < LARGEST_COUNT)
    if note == "moderate":
        return abs(value) < MODERATE
    return value > 0 if note == "positive" else value >= 0 if note == "nonnegative" else True


def _check_psd(place: str, array: Array) -> None:
    size = np.abs(array).max()
    if np.abs(array - array.swapaxes(-1, -2)).max() > _ROUNDING * size:
        raise ValueError(f"{place} is not symmetric")
    if np.linalg.eigvalsh(array).min() < -_ROUNDING * size:
        raise ValueError(f"{place} is not positive semi-definite")
