"""A declared schema: exact columns for known keys, and errors for everything else."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lim2.checks import positive_int
from lim2.encoding.reading import Leaves, Raw, check_path, leaves_of, rows_of, shown
from lim2.encoding.states import (
    ColumnInfo,
    Contribution,
    EncoderState,
    add_measured,
    column_info,
    contributions,
    count_value,
    fits,
    new_column,
    updated_column,
)
from lim2.encoding.times import SIZE
from lim2.encoding.values import CATEGORY, EMBEDDING, LIST, MAX_LIST_VALUES, MEASURED, MISSING, NUMBER, TIME, read
from lim2.state import Array

MAX_COLUMNS = 2**16


@dataclass(frozen=True)
class Number:
    """A number, standardised by the mean and standard deviation of its first values; 0 while it only grows or falls."""

    optional: bool = False  # whether it may be missing; a column of its own says so, here and below

    @property
    def size(self) -> int:
        """Number of columns, without the one for missing values."""
        return 1


@dataclass(frozen=True)
class Time:
    """A date or time: sine and cosine of hour and weekday, and its standardised age in days; 0 while it only grows."""

    optional: bool = False

    @property
    def size(self) -> int:
        """Number of columns, without the one for missing values."""
        return SIZE


@dataclass(frozen=True)
class Embedding:
    """A list of ``size`` numbers, used without scaling."""

    size: int
    optional: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", positive_int("the size of an Embedding", self.size, most=MAX_LIST_VALUES))


@dataclass(frozen=True)
class _Listed:
    """A kind with one column for each of several values."""

    types: ClassVar[tuple[type, ...]]

    values: Sequence[Any]
    optional: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _distinct(self.values, self.types))

    @property
    def size(self) -> int:
        """Number of columns, without the one for missing values."""
        return len(self.values)

    @cached_property
    def places(self) -> dict[tuple[type, str | int], int]:
        """Column of every value, by type and value: True is not 1."""
        return {(type(value), value): place for place, value in enumerate(self.values)}


@dataclass(frozen=True)
class Category(_Listed):
    """One of several strings, integers or booleans, with one column for each.

    Examples
    --------
    >>> Category(["AT", "DE"]).size
    2
    """

    types = (str, int, bool)


@dataclass(frozen=True)
class Tags(_Listed):
    """A list of strings, with one column for each: 1 if the list contains it, else 0. The list may be empty."""

    types = (str,)


Declared = Number | Time | Embedding | Category | Tags

_KINDS = {Number: NUMBER, Time: TIME, Embedding: EMBEDDING, Category: CATEGORY, Tags: LIST}
_EXPECTED = {Number: "a number", Time: "a date or a time", Embedding: "a list of numbers", Tags: "a list of strings"}


@dataclass(frozen=True, init=False)
class Columns:
    """Encoder with declared keys; a key or category that is not declared raises a ValueError.

    It has the methods of :class:`Encoder` but no buckets. Columns are in the order of the declaration. Declare a value
    that may be missing as ``Number(optional=True)``; it has one more column, which is 1 if the value is missing.

    Parameters
    ----------
    declared
        Pairs of path and kind, for nested keys and for names that are not valid Python keywords.
    **kinds
        Kinds by name of the key.

    Examples
    --------
    >>> columns = Columns([("basket.total", Number())], country=Category(["AT", "DE"]), age=Number(optional=True))
    >>> columns.width
    5
    >>> state = columns.init()
    >>> for total in (10.0, 30.0) * 4:
    ...     state = columns.observe(state, {"basket": {"total": total}, "country": "AT", "age": None})
    >>> columns.encode(state, {"basket": {"total": 30.0}, "country": "DE"}).tolist()
    [1.0, 0.0, 1.0, 0.0, 1.0]
    >>> columns.encode(state, {"basket": {"total": 30.0}, "country": "FR"})
    Traceback (most recent call last):
    ValueError: country is 'FR': expected one of 'AT', 'DE'
    """

    declared: tuple[tuple[str, Declared], ...]

    def __init__(self, declared: Iterable[tuple[str, Declared]] | Declared = (), **kinds: Declared) -> None:
        if isinstance(declared, Declared):  # a key of that name
            kinds, declared = {"declared": declared, **kinds}, ()
        pairs = (*(tuple(pair) for pair in declared), *kinds.items())
        object.__setattr__(self, "declared", pairs)
        self.__post_init__()

    def __post_init__(self) -> None:
        for path, kind in self.declared:
            check_path(path)
            if not isinstance(kind, Declared):
                raise ValueError(f"{path} must be declared as Number(), Category([...]) or another kind, got {kind!r}")
            if not isinstance(kind.optional, bool):
                raise ValueError(f"optional must be True or False, got {kind.optional!r} for {path}")
        if len(self._layout) != len(self.declared):
            raise ValueError("a path is declared twice: declare each path once")
        if not 0 < self.width <= MAX_COLUMNS:
            raise ValueError(f"the declared keys must have 1 to {MAX_COLUMNS} columns in total, got {self.width}")

    @cached_property
    def width(self) -> int:
        """Number of columns of a vector."""
        return sum(kind.size + kind.optional for _, kind in self.declared)

    def init(self, *, trusted: bool = False) -> EncoderState:
        """Return the initial state.

        Parameters
        ----------
        trusted
            The same as for :meth:`Encoder.init`. Declared categories are always used from the first on.
        """
        measured = {path: (_KINDS[type(kind)], at, kind.size) for path, (kind, at) in self._layout.items()}
        columns = {path: new_column(*place) for path, place in measured.items() if place[0] in MEASURED}
        return EncoderState(columns, self.width, 0, 0, {}, None, trusted)

    def encode(self, state: EncoderState, raw: Raw) -> Array:
        """Return the vector of a context, (width,); raise a ValueError that names the path of an undeclared value."""
        out = array("d", bytes(8 * self.width))
        self._fill(state, self._values(raw), out, 0)
        return np.frombuffer(out)

    def encode_many(self, state: EncoderState, raws: Iterable[Raw]) -> Array:
        """Return the vectors of contexts, or of the rows of a data frame, (n, width)."""
        rows = [self._values(raw) for raw in rows_of(raws)]
        out = array("d", bytes(8 * self.width * len(rows)))
        for place, row in enumerate(rows):
            self._fill(state, row, out, place * self.width)
        return np.frombuffer(out).reshape(len(rows), self.width)

    def observe(self, state: EncoderState, raw: Raw) -> EncoderState:
        """Return the state after observing one more context; the old state does not change."""
        values = self._values(raw)
        self._fill(state, values, array("d", bytes(8 * self.width)), 0)  # says what is wrong, if anything is
        columns, keys, update = dict(state.columns), dict(state.keys), state.updates + 1
        for path, value in values.items():
            kind = MISSING if value is None else _KINDS[type(self._layout[path][0])]
            if kind in MEASURED:
                columns[path] = updated_column(columns[path], read(path, value)[1], state.trusted)
            count_value(keys, path, kind, update)
        return state._replace(columns=columns, updates=update, keys=keys)

    def explain(self, state: EncoderState, raw: Raw) -> tuple[Contribution, ...]:
        """Return the contribution of each value of a context to each column, sorted by path."""
        return contributions(state, self._values(raw), self.width, self._add)

    def columns(self, state: EncoderState) -> tuple[ColumnInfo, ...]:
        """Return a summary of each declared key."""
        return tuple(
            column_info(state, path, _KINDS[type(kind)], range(at, at + kind.size + kind.optional))
            for path, (kind, at) in self._layout.items()
        )

    def check(self, state: EncoderState) -> None:
        """Raise a ValueError unless the state is possible for this schema."""
        expected = self.init()
        layout = [(path, column.kind, column.at, column.size) for path, column in expected.columns.items()]
        if layout != [(path, column.kind, column.at, column.size) for path, column in state.columns.items()]:
            raise ValueError("the state has other columns than those declared")
        if state.categories is not None:
            raise ValueError("the state counts categories, but declared ones all count")
        if state.used != expected.used or state.overflow:
            raise ValueError(
                f"{state.used} columns are in use and {state.overflow} hashed, expected {expected.used} and 0"
            )

    @cached_property
    def _layout(self) -> dict[str, tuple[Declared, int]]:
        at, layout = 0, {}
        for path, kind in self.declared:
            layout[path] = kind, at
            at += kind.size + kind.optional
        return layout

    def _values(self, raw: Raw) -> Leaves:
        """Return the values of all declared paths, None for missing ones."""
        leaves = leaves_of(raw)
        if not leaves.keys() <= self._layout.keys():
            unknown = min(map(str, leaves.keys() - self._layout.keys()))
            declared = ", ".join(list(self._layout)[:20])
            raise ValueError(f"{unknown[:250]} is not a declared key: declared are {declared}")
        return {path: leaves.get(path) for path in self._layout}

    def _fill(self, state: EncoderState, values: Leaves, out: "array[float]", start: int) -> None:
        for path, value in values.items():
            self._add(state, path, value, out, start)

    def _add(self, state: EncoderState, path: str, value: Any, out: "array[float]", start: int) -> str:
        kind, at = self._layout[path]
        if value is None:
            if not kind.optional:
                raise ValueError(f"{path} is missing: give a value, or declare it with optional=True")
            out[start + at + kind.size] += 1.0
            return MISSING
        if isinstance(kind, Category):
            out[start + at + _place(path, value, kind)] += 1.0
            return CATEGORY
        actual, content = (LIST, []) if value == [] and isinstance(kind, Tags) else read(path, value)
        expected = _KINDS[type(kind)]
        if actual != expected or (actual in MEASURED and not fits(state.columns[path], actual, content)):
            many = f"{kind.size} of them" if isinstance(kind, Embedding) else ""
            raise ValueError(f"{path} is {shown(value)}: expected {_EXPECTED[type(kind)]}{many and ', '}{many}")
        if isinstance(kind, Tags):
            for place in {_place(path, tag, kind) for tag in content}:
                out[start + at + place] += 1.0
        else:
            add_measured(state.columns[path], content, out, start)
        return actual


def _place(path: str, value: Any, kind: Category | Tags) -> int:
    """Return the index of a declared value."""
    place = kind.places.get((type(value), value)) if isinstance(value, str | int) else None
    if place is not None:
        return place
    raise ValueError(f"{path} is {shown(value)}: expected one of {', '.join(map(repr, kind.values[:20]))}")


def _distinct(values: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"values must be a sequence, got {values!r}")
    out = tuple(values)
    if not out or any(type(value) not in kinds for value in out):
        raise ValueError(f"values must be {' or '.join(kind.__name__ for kind in kinds)}, at least one, got {out!r}")
    if len({(type(value), value) for value in out}) != len(out):
        raise ValueError(f"values must differ, got {out!r}")
    return out
