"""Raw contexts as vectors of one width: numbers in columns of their own, everything else hashed into buckets."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lim2.checks import LARGEST, positive_int
from lim2.encoding.known import (
    ColumnInfo,
    Contribution,
    Known,
    add_own,
    column,
    explained,
    fits,
    infos,
    learned,
    together,
)
from lim2.encoding.reading import Leaves, Raw, leaves_of, rows_of
from lim2.encoding.tokens import Tokens, rounded, strings
from lim2.encoding.values import EMBEDDING, LIST, MEASURED, NUMBER, TIME, read, size_of
from lim2.state import Array

MOST_NUMBERS, MOST_BUCKETS, MOST_HASHES = 2**16, 2**20, 8
_SQUASH = 0.1  # of asinh(x) of a number that has no column: 1e9 is about 2


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Turn raw contexts into vectors of ``numbers + buckets`` columns, whatever keys they have.

    These are the settings. What is learned is a value of its own, :class:`Known`, that the methods take and return.

    - A **number** gets a column of its own at the first update that has its key, while columns are free. It is
      standardised by the running mean and deviation of the updates. Until the key is learned from, and until it has
      varied, it encodes as 0. When no column is free, numbers are hashed, and counted in ``known.overflow``.
    - A **string** or truth value is a category: with its key it is hashed, with signs, into a few of the buckets.
    - **None** is a category, too. A key whose columns are known, but that is absent, is as one that is None, and so is
      an empty list.
    - A **list of strings** is a bag of categories, divided by the square root of their number.
    - A **list of numbers** is an embedding, taken as it is. Its length is that of the first update; one of another
      length is hashed.
    - A **date or time**, as an object or as a string in ISO format, has five columns: the hour and the weekday as
      places on circles, and its age in days, against the newest time learned from under its key, standardised. Hour
      and weekday are those of the clock that wrote the time; a time without an offset is UTC.

    Keys are strings. A key of a key has a path, as in ``basket.total``; a key with a dot is the same path. In a row of
    pandas NaN stands for missing, as it does there; elsewhere NaN is an error. Whether a context is accepted depends on
    the context only: what can be encoded now can be learned from later. The order of its keys does not matter: vectors
    are the same in every bit.

    Parameters
    ----------
    numbers
        Columns for numbers, times and embeddings.
    buckets
        Columns for everything that is hashed.
    hashes
        Buckets of each category. With two or more, categories that share a bucket can still be distinguished.
    seed
        Key of the hash. The same seed gives the same buckets in every process and on every machine.

    Examples
    --------
    >>> encoder = Encoder(numbers=2, buckets=4, hashes=1)
    >>> known = encoder.init()
    >>> for cents in (999, 1999, 2999):
    ...     known = encoder.observe(known, {"price": cents, "country": "AT"})
    >>> encoder.encode(known, {"price": 2999, "country": "AT"}).round(3).tolist()
    [1.225, 0.0, 0.0, -1.0, 0.0, 0.0]
    >>> for part in encoder.explain(known, {"country": "AT", "device": None}):
    ...     print(*part)
    country AT category 3 -1.0
    device None missing 2 -1.0
    price None missing 3 -1.0
    >>> [(info.name, info.mean, info.count) for info in encoder.columns(known)]
    [('price', 1999.0, 3)]
    """

    numbers: int = 16
    buckets: int = 64
    hashes: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = {"numbers": (0, MOST_NUMBERS), "hashes": (1, MOST_HASHES), "seed": (0, 2**63 - 1)}
        for name, (least, most) in bounds.items():
            object.__setattr__(self, name, positive_int(name, getattr(self, name), least, most))
        object.__setattr__(self, "buckets", positive_int("buckets", self.buckets, self.hashes, MOST_BUCKETS))

    @property
    def width(self) -> int:
        """The number of columns of a vector."""
        return self.numbers + self.buckets

    def init(self) -> Known:
        """Return what is known before any update."""
        return Known({}, 0, 0, 0)

    def encode(self, known: Known, raw: Raw) -> Array:
        """Return the vector of a context: (width,). A ValueError names the path of what cannot be encoded."""
        out = array("d", self._zeros)
        self._fill(known, leaves_of(raw), out, 0)
        return np.frombuffer(out)

    def encode_many(self, known: Known, raws: Iterable[Raw]) -> Array:
        """Return the vectors of contexts, or of the rows of a data frame: (n, width).

        They are those of :meth:`encode`, in every bit; contexts that have the same keys take less time together.
        """
        rows = [leaves_of(raw) for raw in rows_of(raws)]
        out = array("d", self._zeros * len(rows))
        if rows and all(row.keys() == rows[0].keys() for row in rows):
            self._fill_together(known, rows, out)
        else:
            for place, row in enumerate(rows):
                self._fill(known, row, out, place * self.width)
        return np.frombuffer(out).reshape(len(rows), self.width)

    def observe(self, known: Known, raw: Raw) -> Known:
        """Return what is known after learning from one more context; the old value stays as it is."""
        columns, used, overflow = dict(known.columns), known.used, known.overflow
        fresh: list[tuple[str, str, Any]] = []
        for path, value in leaves_of(raw).items():
            kind, content = read(path, value)
            if kind not in MEASURED:
                continue
            own = columns.get(path)
            if own is None:
                fresh.append((path, kind, content))
            elif fits(own, kind, content):
                columns[path] = learned(own, content)
            else:
                overflow += 1
        for path, kind, content in sorted(fresh, key=lambda entry: entry[0]):
            size = size_of(kind, content)
            if used + size <= self.numbers:
                columns[path] = learned(column(kind, used, size), content)
                used += size
            else:
                overflow += 1
        return Known(columns, used, overflow, known.updates + 1)

    def explain(self, known: Known, raw: Raw) -> tuple[Contribution, ...]:
        """Return what every value of a context adds to which column, sorted by path.

        The sum of all contributions to a column is the column of the encoded vector, in every bit.
        """
        values = {**dict.fromkeys(known.columns), **leaves_of(raw)}
        return explained(known, values, self.width, self._add)

    def check(self, known: Known) -> None:
        """Raise a ValueError unless this is what such an encoder can have learned."""
        used = 0
        for own in sorted(known.columns.values(), key=lambda each: each.at):
            if own.at != used:
                raise ValueError(f"the columns of {own.kind}s begin at {own.at}, expected {used}")
            used += own.size
        if known.used != used or used > self.numbers:
            raise ValueError(f"{known.used} columns are used, expected {used}, and at most {self.numbers}")
        if any(own.moments.weight == 0 for own in known.columns.values()):
            raise ValueError("a column has not been learned from")

    def columns(self, known: Known) -> tuple[ColumnInfo, ...]:
        """Return what is known of the keys that have columns of their own."""
        return infos(known)

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(self.seed, self.buckets, self.hashes, self.numbers)

    @cached_property
    def _zeros(self) -> bytes:
        return bytes(8 * self.width)

    def _fill(self, known: Known, leaves: Leaves, out: "array[float]", start: int) -> None:
        """Add a context to the vector that begins at ``start``. What is most frequent is done here, without a call."""
        columns, cache = known.columns, self._tokens.cache
        for path, value in leaves.items():
            kind = type(value)
            if kind is float or kind is int:
                own = columns.get(path)
                if own is not None and own.kind == NUMBER and -LARGEST < value < LARGEST:
                    center, factor, limit = own.scale
                    z = (value - center) * factor
                    out[start + own.at] += z if -limit <= z <= limit else math.copysign(limit, z)
                    continue
            elif (tokens := cache.get(path)) is not None:
                places = tokens.get(value if kind is not list else strings(value))
                if places is not None:
                    for at, weight in places:
                        out[start + at] += weight
                    continue
            self._add(known, path, value, out, start)
        for path in columns:
            if path not in leaves:
                for at, weight in self._tokens.places(path, None):
                    out[start + at] += weight

    def _fill_together(self, known: Known, rows: list[Leaves], out: "array[float]") -> None:
        """Add contexts that all have the same paths, one path after the other."""
        matrix = np.frombuffer(out).reshape(len(rows), self.width)
        for path in rows[0]:
            values = [row[path] for row in rows]
            own = known.columns.get(path)
            if own is not None and (block := together(own, values)) is not None:
                matrix[:, own.at : own.at + own.size] += block
                continue
            tokens = self._tokens.cache.get(path, {})
            for start, value in zip(range(0, len(out), self.width), values, strict=True):
                kind = type(value)
                places = tokens.get(value) if kind is str else tokens.get(strings(value)) if kind is list else None
                if places is None:
                    self._add(known, path, value, out, start)
                else:
                    for at, weight in places:
                        out[start + at] += weight
        for path in known.columns.keys() - rows[0].keys():
            for at, weight in self._tokens.places(path, None):
                matrix[:, at] += weight

    def _add(self, known: Known, path: str, value: Any, out: "array[float]", start: int) -> str:
        """Add one value to a vector, and return as what."""
        kind, content = read(path, value)
        if kind not in MEASURED:
            places = self._tokens.bag(path, content) if kind == LIST else self._tokens.places(path, content)
            for at, weight in places:
                out[start + at] += weight
            return kind
        own = known.columns.get(path)
        if own is not None and fits(own, kind, content):
            add_own(own, content, out, start)
            return kind
        if own is None and known.used + size_of(kind, content) <= self.numbers:
            return f"new {kind}"
        if kind != EMBEDDING:
            content = content.circles if kind == TIME else (_SQUASH * math.asinh(content),)
        for (at, sign), x in zip(self._tokens.vector(path, kind, len(content)), content, strict=True):
            out[start + at] += rounded(sign * x)
        return f"hashed {kind}"
