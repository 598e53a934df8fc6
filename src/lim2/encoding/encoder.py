"""Encode raw contexts as vectors of fixed width: numbers in separate columns, everything else hashed into buckets."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lim2.checks import LARGEST, positive_int
from lim2.encoding.categories import CategoryCounts, add, repeated
from lim2.encoding.reading import Leaves, Raw, leaves_of, rows_of
from lim2.encoding.states import (
    ColumnInfo,
    Contribution,
    EncoderState,
    add_measured,
    column_block,
    column_infos,
    contributions,
    count_value,
    fits,
    new_column,
    updated_column,
)
from lim2.encoding.tokens import Hashed, Tokens, rounded, strings
from lim2.encoding.values import EMBEDDING, LIST, MEASURED, NUMBER, TIME, read, size_of
from lim2.state import Array

MAX_NUMBERS, MAX_BUCKETS, MAX_HASHES = 2**16, 2**20, 8
MIN_ROWS_TOGETHER = 32  # from so many contexts with the same keys on, encoding them together is faster
ASINH_WEIGHT = 0.1  # of asinh(x) of a number that has no column: 1e9 is about 2


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Encoder of raw contexts with any keys into vectors of ``numbers + buckets`` columns.

    It holds settings only. The learned state is a separate value, an :class:`EncoderState`.

    - A **number** gets its own column at the first update with its key, as long as a column is free. It is
      standardised by the mean and standard deviation of its first values. It is encoded as 0 until its key has been
      observed with two different values, and while it only grows or falls, as a counter does. If no column is free,
      numbers are hashed and counted in ``state.overflow``.
    - A **string** or boolean is a category: it is hashed together with its key, with signs, into a few buckets. It
      counts from its second observation on, so an id that never comes again adds nothing.
    - **None** is a category, too. An empty list, and an absent key that has columns, count as None.
    - A **list of strings** is a bag of categories, divided by the square root of their number.
    - A **list of numbers** is an embedding, used without scaling. The first update sets its length; a list of another
      length is hashed.
    - A **date or time**, as an object or a string in ISO format, has five columns: sine and cosine of the hour and of
      the weekday, and the standardised age in days. It is used like a number: while it goes up and down. So nothing
      of the time of the visit is used. If the hour matters, give it as a string under its own key. Hour and weekday
      are in the time's own offset; a time without an offset is UTC.

    What a context is encoded as depends on the context and on few facts that change rarely: which keys have columns,
    how these are scaled, and which categories have been observed before. It does not depend on when a reward arrives.

    Keys are strings. Nested keys form a path such as ``basket.total``; a key with a dot is the same path. NaN in a row
    of pandas means missing; elsewhere it is an error. Acceptance depends on the context alone: a context that can be
    encoded can also be learned from. The order of keys does not change a single bit of the vector.

    Parameters
    ----------
    numbers
        Number of columns for numbers, times and embeddings.
    buckets
        Number of columns for hashed values.
    hashes
        Number of buckets per category. With two or more, categories that share one bucket can still be distinguished.
    seed
        Seed of the hash. The same seed gives the same buckets in every process and on every machine.
    times
        Whether strings in ISO format are dates or times. False: they are categories.

    Examples
    --------
    >>> encoder = Encoder(numbers=2, buckets=4, hashes=1)
    >>> state = encoder.init()
    >>> for t in range(8):
    ...     price, session = (999, 2999)[t % 2], f"a{t}"
    ...     state = encoder.observe(state, {"price": price, "country": "AT", "session": session})
    >>> encoder.encode(state, {"price": 2999, "country": "AT"}).round(3).tolist()
    [1.0, 0.0, 0.0, -1.0, 0.0, 0.0]
    >>> for part in encoder.explain(state, {"country": "AT", "session": "b1"}):
    ...     print(*part)
    country AT category 3 -1.0
    price None new missing None 0.0
    session b1 new category None 0.0
    >>> for info in encoder.columns(state):
    ...     print(info.name, info.kind, info.mean, info.count, info.note)
    price number 1999.0 8
    country category None 8
    session category None 8 most values do not repeat, only repeated ones are used
    """

    numbers: int = 16
    buckets: int = 64
    hashes: int = 2
    seed: int = 0
    times: bool = True

    def __post_init__(self) -> None:
        bounds = {"numbers": (0, MAX_NUMBERS), "hashes": (1, MAX_HASHES), "seed": (0, 2**63 - 1)}
        for name, (least, most) in bounds.items():
            object.__setattr__(self, name, positive_int(name, getattr(self, name), least, most))
        if not isinstance(self.times, bool):
            raise ValueError(f"times must be True or False, got {self.times!r}")
        object.__setattr__(self, "buckets", positive_int("buckets", self.buckets, self.hashes, MAX_BUCKETS))

    @property
    def width(self) -> int:
        """Number of columns of a vector."""
        return self.numbers + self.buckets

    def init(self, *, trusted: bool = False) -> EncoderState:
        """Return the initial state.

        Parameters
        ----------
        trusted
            Whether every number and category is used from the first observation on, as is right for items: an item that
            was not chosen yet is worth exploring, and the price of those that are chosen may stop varying.
        """
        return EncoderState({}, 0, 0, 0, {}, None if trusted else CategoryCounts(), trusted)

    def encode(self, state: EncoderState, raw: Raw) -> Array:
        """Return the vector of a context, (width,); raise a ValueError that names the path of an invalid value."""
        out = array("d", self._zeros)
        self._fill(state, leaves_of(raw), out, 0)
        return np.frombuffer(out)

    def encode_many(self, state: EncoderState, raws: Iterable[Raw]) -> Array:
        """Return the vectors of contexts, or of the rows of a data frame, (n, width).

        They equal those of :meth:`encode` bit for bit. Encoding many contexts with the same keys together is faster.
        """
        rows = [leaves_of(raw) for raw in rows_of(raws)]
        out = array("d", self._zeros * len(rows))
        if len(rows) >= MIN_ROWS_TOGETHER and all(row.keys() == rows[0].keys() for row in rows):
            self._fill_together(state, rows, out)
        else:
            for place, row in enumerate(rows):
                self._fill(state, row, out, place * self.width)
        return np.frombuffer(out).reshape(len(rows), self.width)

    def observe(self, state: EncoderState, raw: Raw) -> EncoderState:
        """Return the state after observing one more context; the old state does not change."""
        columns, used, overflow = dict(state.columns), state.used, state.overflow
        leaves, keys, update = leaves_of(raw), dict(state.keys), state.updates + 1
        values = [(path, *read(path, value, self.times)) for path, value in leaves.items()]
        values.sort(key=lambda entry: entry[0])  # the order of keys does not matter
        categories, new = self._count_categories(state, leaves, values)
        for path, kind, content in values:
            column, fitting = columns.get(path), True
            if kind in MEASURED:
                if column is None and used + (size := size_of(kind, content)) <= self.numbers:
                    column = new_column(kind, used, size)
                    used += size
                fitting = column is None or fits(column, kind, content)
                if column is not None and fitting:
                    columns[path] = updated_column(column, content, state.trusted)
                else:
                    overflow += 1
            count_value(keys, path, kind, update, fitting, new.get(path, 0))
        return EncoderState(columns, used, overflow, update, keys, categories, state.trusted)

    def _count_categories(
        self, state: EncoderState, leaves: Leaves, values: list[tuple[str, str, Any]]
    ) -> tuple[CategoryCounts | None, dict[str, int]]:
        """Return the counts of categories with those of one more context, and how many of each key do not count yet."""
        if state.categories is None:
            return None, {}
        hashes = {path: self._hashes(path, kind, content) for path, kind, content in values if kind not in MEASURED}
        absent = {path: self._tokens.of(path, None) for path in state.columns if path not in leaves}
        cells = {cells for hashed in (*hashes.values(), *absent.values()) for cells, _ in hashed}
        categories = add(state.categories, sorted(cells))
        return categories, {
            path: sum(not repeated(categories.counts, cells) for cells, _ in hashed) for path, hashed in hashes.items()
        }

    def _hashes(self, path: str, kind: str, content: Any) -> tuple[Hashed, ...]:
        """Return the hashes of a category, a list of categories or a missing value."""
        return self._tokens.bag(path, content) if kind == LIST else self._tokens.of(path, content)

    def explain(self, state: EncoderState, raw: Raw) -> tuple[Contribution, ...]:
        """Return the contribution of each value of a context to each column, sorted by path.

        The contributions to a column add up to that column of the encoded vector, bit for bit.
        """
        values = {**dict.fromkeys(state.columns), **leaves_of(raw)}
        return contributions(state, values, self.width, self._add)

    def check(self, state: EncoderState) -> None:
        """Raise a ValueError unless the state is possible for this encoder."""
        used = 0
        for column in sorted(state.columns.values(), key=lambda each: each.at):
            if column.at != used:
                raise ValueError(f"the columns of a {column.kind} start at {column.at}, expected {used}")
            used += column.size
        if state.used != used or used > self.numbers:
            raise ValueError(f"{state.used} columns are in use, expected {used}, and at most {self.numbers}")
        if any(column.kind == NUMBER and not column.measure.moments.weight for column in state.columns.values()):
            raise ValueError("a column has no observations")

    def columns(self, state: EncoderState) -> tuple[ColumnInfo, ...]:
        """Return a summary of each key that has been observed, also of those that are not used."""
        return column_infos(state)

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(self.seed, self.buckets, self.hashes, self.numbers)

    @cached_property
    def _zeros(self) -> bytes:
        return bytes(8 * self.width)

    def _fill(self, state: EncoderState, leaves: Leaves, out: "array[float]", start: int) -> None:
        """Add a context to the vector that starts at ``start``. The most frequent cases are inlined."""
        columns, cache = state.columns, self._tokens.cache
        for path, value in leaves.items():
            kind = type(value)
            if kind is float or kind is int:
                column = columns.get(path)
                if column is not None and column.kind == NUMBER and -LARGEST < value < LARGEST:
                    center, factor, limit = column.map
                    z = (value - center) * factor
                    out[start + column.at] += z if -limit <= z <= limit else math.copysign(limit, z)
                    continue
            elif (tokens := cache.get(path)) is not None:
                hashed = tokens.get(value if kind is not list else strings(value))
                if hashed is not None:
                    _put(state.categories, hashed, out, start)
                    continue
            self._add(state, path, value, out, start)
        for path in columns:
            if path not in leaves:
                _put(state.categories, self._tokens.of(path, None), out, start)

    def _fill_together(self, state: EncoderState, rows: list[Leaves], out: "array[float]") -> None:
        """Add contexts that all have the same paths, path by path."""
        matrix = np.frombuffer(out).reshape(len(rows), self.width)
        starts = range(0, len(out), self.width)
        for path in rows[0]:
            values = [row[path] for row in rows]
            column = state.columns.get(path)
            if column is not None and (block := column_block(column, values)) is not None:
                matrix[:, column.at : column.at + column.size] += block
                continue
            tokens = self._tokens.cache.get(path, {})
            for start, value in zip(starts, values, strict=True):
                kind = type(value)
                hashed = tokens.get(value) if kind is str else tokens.get(strings(value)) if kind is list else None
                if hashed is None:
                    self._add(state, path, value, out, start)
                else:
                    _put(state.categories, hashed, out, start)
        for path in state.columns.keys() - rows[0].keys():
            hashed = self._tokens.of(path, None)
            for start in starts:
                _put(state.categories, hashed, out, start)

    def _add(self, state: EncoderState, path: str, value: Any, out: "array[float]", start: int) -> str:
        """Add one value to a vector, and return its kind."""
        kind, content = read(path, value, self.times)
        if kind not in MEASURED:
            counts = _put(state.categories, self._hashes(path, kind, content), out, start)
            return kind if counts else f"new {kind}"
        column = state.columns.get(path)
        if column is not None and fits(column, kind, content):
            add_measured(column, content, out, start)
            return kind
        if column is None and state.used + size_of(kind, content) <= self.numbers:
            return f"new {kind}"
        if kind != EMBEDDING:
            content = content.circles if kind == TIME else (ASINH_WEIGHT * math.asinh(content),)
        for (at, sign), x in zip(self._tokens.vector(path, kind, len(content)), content, strict=True):
            out[start + at] += rounded(sign * x)
        return f"hashed {kind}"


def _put(categories: CategoryCounts | None, hashed: tuple[Hashed, ...], out: "array[float]", start: int) -> bool:
    """Add those categories to a vector that count, and return whether any does."""
    counts = False
    for cells, places in hashed:
        if categories is None or repeated(categories.counts, cells):
            counts = True
            for at, weight in places:
                out[start + at] += weight
    return counts
