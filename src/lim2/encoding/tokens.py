"""Buckets of categories: a keyed hash that is the same in every process and on every machine, with a bounded cache.

A token is a path with a value. It is added with a sign to one bucket in each of several banks, so that two tokens that
share a bucket in one bank still differ in another. Every addend is a multiple of ``QUANTUM``: sums are then exact, and
therefore the same in every order.
"""

import hashlib
import math
from typing import Any

from lim2.encoding.categories import BITS, CELLS, Cells

QUANTUM = 2.0**-20
CACHED = 2**15  # tokens
LONGEST_CACHED = 100  # characters
LONGEST_BAG = 8  # tokens
CACHED_PARTS = 2**15  # of vectors

Token = str | bool | None
Places = tuple[tuple[int, float], ...]  # columns, and what is added to each
Hashed = tuple[Cells, Places]  # of one token: where it is counted, and where it is added

_STRINGS = frozenset({str})


def rounded(x: float) -> float:
    """Return the nearest multiple of ``QUANTUM``."""
    return round(x / QUANTUM) * QUANTUM


def strings(values: list[Any]) -> tuple[str, ...]:
    """Return a list of strings as a tuple; for any other list an empty tuple, which is never in a cache."""
    return tuple(values) if _STRINGS.issuperset(map(type, values)) else ()


class Tokens:
    """The buckets, which are the columns starting at ``first``.

    Examples
    --------
    >>> tokens = Tokens(seed=0, buckets=8, banks=2, first=100)
    >>> ((cells, places),) = tokens.of("country", "AT")
    >>> places
    ((100, -0.7071065902709961), (104, 0.7071065902709961))
    """

    def __init__(self, seed: int, buckets: int, banks: int, first: int) -> None:
        self._settings = seed, buckets, banks, first
        self._key = seed.to_bytes(8, "little")
        self._sizes = [buckets // banks + (bank < buckets % banks) for bank in range(banks)]
        self._starts = [first + sum(self._sizes[:bank]) for bank in range(banks)]
        self._buckets, self._first = buckets, first
        self._weight = rounded(1.0 / math.sqrt(banks))
        # By path, then by value; a tuple of strings is a bag.
        self.cache: dict[str, dict[Token | tuple[str, ...], tuple[Hashed, ...]]] = {}
        self._cached = 0
        self._vectors: dict[tuple[str, str, int], Places] = {}
        self._cached_parts = 0

    def __reduce__(self) -> Any:
        return Tokens, self._settings  # the cache stays behind

    def of(self, path: str, value: Token) -> tuple[Hashed, ...]:
        """Return the hashes of a token, and store them in ``cache``."""
        cached = self.cache.get(path)
        if cached is not None and value in cached:
            return cached[value]
        hashed = (self._hashed(path, value),)
        if not isinstance(value, str) or len(value) <= LONGEST_CACHED:
            self._keep(path, value, hashed)
        return hashed

    def bag(self, path: str, values: list[Token]) -> tuple[Hashed, ...]:
        """Return the hashes of several tokens of one path; the vector has length 1 on average.

        Lists of strings are cached as tuples, separately from single strings, which may be times instead of tokens.
        """
        bag, cached = strings(values), self.cache.get(path, {})
        if bag in cached:
            return cached[bag]
        if len(values) == 1:
            hashed: tuple[Hashed, ...] = (self._hashed(path, values[0]),)
        else:
            share = 1.0 / math.sqrt(len(values))
            ones = (self.bag(path, [value])[0] for value in values)
            hashed = tuple((cells, tuple((at, rounded(w * share)) for at, w in places)) for cells, places in ones)
        if 0 < len(bag) <= LONGEST_BAG and max(map(len, bag)) <= LONGEST_CACHED:
            self._keep(path, bag, hashed)
        return hashed

    def _keep(self, path: str, value: Token | tuple[str, ...], hashed: tuple[Hashed, ...]) -> None:
        if self._cached >= CACHED:
            self.cache.clear()
            self._cached = 0
        self.cache.setdefault(path, {})[value] = hashed
        self._cached += len(value) if isinstance(value, tuple) else 1

    def vector(self, path: str, kind: str, size: int) -> Places:
        """Return the buckets of a vector's entries: one bucket each, with a sign. This preserves lengths on average."""
        cached = self._vectors.get((path, kind, size))
        if cached is not None:
            return cached
        places: list[tuple[int, float]] = []
        for part in range(size):
            number = int.from_bytes(self._digest(path, b"%b/%d" % (kind.encode(), part), 8), "little")
            places.append((self._first + (number >> 1) % self._buckets, 1.0 if number & 1 else -1.0))
        if self._cached_parts + size + 4 > CACHED_PARTS:
            self._vectors.clear()
            self._cached_parts = 0
        self._vectors[path, kind, size] = tuple(places)
        self._cached_parts += size + 4
        return tuple(places)

    def _hashed(self, path: str, value: Token) -> Hashed:
        text = b"s" + value.encode("utf-8", "surrogatepass") if isinstance(value, str) else str(value).encode()
        digest = self._digest(path, text, 8 * len(self._sizes))
        numbers = [int.from_bytes(digest[at : at + 8], "little") for at in range(0, len(digest), 8)]
        a, b, c = (numbers[0] >> BITS * place & (CELLS - 1) for place in (1, 2, 3))
        return (a, b, c), tuple(
            (start + (number >> 1) % size, self._weight if number & 1 else -self._weight)
            for start, size, number in zip(self._starts, self._sizes, numbers, strict=True)
        )

    def _digest(self, path: str, text: bytes, size: int) -> bytes:
        name = path.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(b"%d:%b%b" % (len(name), name, text), digest_size=size, key=self._key).digest()
