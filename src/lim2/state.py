"""What a state is: a tree of named tuples, with arrays and numbers as leaves. All that is generic about state is here.

A state is a value. An algorithm returns a new one and never writes to an array of the old one, with two exceptions that
this file and ``memory.py`` hide: :class:`Writes` lets a rank-one update replace one arm's row without copying all,
and a memory writes a new tuple where the version before holds nothing.

An annotation says what an array's axes are, and what must hold of it::

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
    """What an annotation says: the type of a field, the names of its axes if it is an array, and its properties."""

    kind: Any
    axes: tuple[str, ...] | None
    properties: tuple[str, ...]
    optional: bool = False


@functools.cache
def fields_of(node: Any) -> dict[str, Field]:
    """Return what the annotations of a named tuple say."""
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
    """Yield every leaf of a state with its path, e.g. ``posterior/mu``; a part that is absent is the leaf None.

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
    """Return a tree of the same form with other leaves."""
    if is_node(tree):
        return type(tree)(*(mapped(part, change) for part in tree))  # type: ignore[attr-defined]
    if isinstance(tree, Mapping):
        return {name: mapped(part, change) for name, part in tree.items()}  # type: ignore[return-value]
    return change(tree)  # type: ignore[no-any-return]


def copied(tree: Tree) -> Tree:
    """Return a state whose arrays are its own."""
    return mapped(tree, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)


def canonical(tree: Any) -> Any:
    """Return a state of which equal ones are equal in every byte: without what its storage has to spare."""
    if hasattr(tree, "canonical"):
        return tree.canonical()
    return type(tree)(*map(canonical, tree)) if is_node(tree) else tree


def frozen(tree: Tree) -> Tree:
    """Make all arrays of a state read-only, and return it; tests do so, so that an impure function is an error."""
    for _, leaf in leaves(tree):
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    return tree


def nbytes(tree: Any) -> int:
    """Return the bytes of a state's arrays."""
    return sum(leaf.nbytes for _, leaf in leaves(tree) if isinstance(leaf, np.ndarray))


# Rows: rank-one updates in O(row), not O(arms x row)

Write = tuple[Any, Any, Any]  # an array, the arm whose row changes, and its new row


def put(writes: Iterable[Write]) -> None:
    """Write values into arrays or mappings, in one call of C: no exception comes between them."""
    deque(starmap(setitem, list(writes)), maxlen=0)


class Writes(NamedTuple):
    """A new state in which only some arms' rows of some arrays change: ``state``, once these rows are written."""

    state: Any
    rows: list[Write]


def written(new: Writes) -> Any:
    """Return a state whole, with rows written into copies: the old state stays as it is."""
    copies: dict[int, NDArray[Any]] = {}
    for array, arm, row in new.rows:
        copies.setdefault(id(array), array.copy())[arm] = row
    return mapped(new.state, lambda leaf: copies.get(id(leaf), leaf))


# Arms


def with_row(rows: NDArray[Any], row: Any) -> NDArray[Any]:
    """Return a new array with one more row; a number gives all its values.

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
    """Return a named tuple with one more arm: that of another, or the first arm of a ``fresh`` one.

    Every array whose first axis is ``arm`` gets a row; branches inside are not entered.
    """
    changed = {
        name: with_row(getattr(node, name), getattr(fresh, name)[0] if like is None else getattr(node, name)[like])
        for name in _per_arm(node)
    }
    return node._replace(**changed)  # type: ignore[attr-defined, no-any-return]


def without_arm(node: Tree, arm: int) -> Tree:
    """Return a named tuple without an arm; those after it move up. Branches inside are not entered."""
    return node._replace(**{name: without_row(getattr(node, name), arm) for name in _per_arm(node)})  # type: ignore[attr-defined, no-any-return]


def _per_arm(node: Any) -> list[str]:
    named = fields_of(type(node)).items()  # type: ignore[arg-type]
    return [name for name, field in named if field.axes and field.axes[0] == "arm" and getattr(node, name) is not None]


# From leaves back to a state: what loading needs


def rebuilt(kind: type, flat: Mapping[str, Any], kinds: Mapping[str, Any], path: str = "") -> Any:
    """Return the state of which these are the leaves; a ValueError says what does not fit.

    ``kinds`` gives, by path, the type of a part whose annotation is ``Any``, or which the settings require; None where
    they say that it is absent.
    """
    values: dict[str, Any] = {}
    for name, field in fields_of(kind).items():
        place = f"{path}/{name}" if path else name
        inner = kinds.get(place, field.kind)
        absent = flat.get(place, 0) is None
        if absent != (inner is None) and not (absent and field.optional and place not in kinds):
            raise ValueError(f"{place} is {'missing' if absent else 'there, but should not be'}")
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
        raise ValueError(f"{', '.join(unknown[:5])} is not known here")
    return state


def check(tree: Any, sizes: Mapping[str, Any], path: str = "") -> None:
    """Raise a ValueError unless all leaves of a state are as their annotations say.

    ``sizes`` gives the lengths of axes that are known, and takes up those of the others. An axis ``*name`` stands for
    several: ``sizes`` has a shape under its name. A whole number with the name of an axis is its length.
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
        raise ValueError(f"{place} is {value!r}: not finite, or too large")
    for note in field.properties:
        if not _holds(note, value):
            raise ValueError(f"{place} is {value!r}, expected a number that is {note}")
        if sizes.get(note, value) != value:
            raise ValueError(f"{place} is {value!r}, expected {sizes[note]}")


def _check_array(place: str, array: NDArray[Any], field: Field, sizes: Any) -> None:
    expected = {Array: np.dtype(np.float64), Ints: np.dtype(np.intp)}.get(field.kind)
    if expected is not None and array.dtype != expected:
        raise ValueError(f"{place} is an array of {array.dtype}, expected {expected}")
    if field.axes is not None:
        shape: list[int] = []
        for axis in field.axes:
            length = array.shape[len(shape)] if len(shape) < array.ndim else -1
            shape.extend(sizes[axis[1:]] if axis.startswith("*") else (sizes.setdefault(axis, length),))
        if array.shape != tuple(shape):
            raise ValueError(f"{place} has shape {array.shape}, expected {tuple(shape)} = ({', '.join(field.axes)})")
    if array.dtype.kind == "f" and not (np.abs(array.astype(np.float64, copy=False)) < LARGEST).all():
        raise ValueError(f"{place} has values that are not finite, or too large")
    for note in field.properties:
        if not np.all(_holds(note, array)):
            raise ValueError(f"{place} has values that are not {note}")
    if "psd" in field.properties and array.size:
        _check_psd(place, array)


def _holds(note: str, value: Any) -> Any:
    """Return whether a number, or every one of an array, has a property; other notes hold of all."""
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
