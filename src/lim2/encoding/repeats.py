"""Which categories have been seen before: counts in a table of fixed size, indexed by hashes.

An id that never comes again cannot tell anything, but its weight would be noise in every bucket that it shares. So a
category counts from its second learned occurrence on. Counts are never too low between two halvings. One that is too
high lets a new category count at once, as happens to about one in fifty ids when the table is fullest.
"""

from collections.abc import Iterable
from typing import NamedTuple

BITS = 16
TABLE = 2**BITS  # counts in the table
ROOM = 2**13  # new categories after which all counts are halved
REPEATED = 2  # occurrences from which on a category counts

Cells = tuple[int, int, int]  # the places of a category in the table; its count is the smallest of theirs

_HALVED = bytes(count // 2 for count in range(256))
_NONE = bytes(TABLE)


class Seen(NamedTuple):
    """Counts of the categories, up to 255 each; it is immutable."""

    counts: bytes = _NONE
    new: int = 0  # categories that were new since the counts were halved


def repeated(counts: bytes, cells: Cells) -> bool:
    """Return whether a category has been seen often enough to count."""
    a, b, c = cells
    return counts[a] >= REPEATED and counts[b] >= REPEATED and counts[c] >= REPEATED


def add(seen: Seen, categories: Iterable[Cells]) -> Seen:
    """Return the counts with one more occurrence of each category.

    Examples
    --------
    >>> seen = add(Seen(), [(1, 2, 3), (1, 4, 5)])
    >>> repeated(seen.counts, (1, 2, 3))
    False
    >>> seen = add(seen, [(1, 2, 3)])
    >>> repeated(seen.counts, (1, 2, 3)), repeated(seen.counts, (1, 4, 5))
    (True, False)
    """
    counts, new = bytearray(seen.counts), seen.new
    for cells in categories:
        least = min(counts[cell] for cell in cells)
        for cell in cells:
            counts[cell] = max(counts[cell], min(least + 1, 255))
        new += least == 0
    return Seen(bytes(counts), new) if new < ROOM else Seen(bytes(counts.translate(_HALVED)), 0)
