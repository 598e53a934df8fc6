"""Counts of categories in a table of fixed size, indexed by hashes.

A unique id carries no information, but adds noise to every bucket that it shares. So a category counts from its second
observation on. Between two halvings no count is too low; collisions let about one in fifty new ids count at once when
the table is full.
"""

from collections.abc import Iterable
from typing import NamedTuple

BITS = 16
CELLS = 2**BITS  # counts in the table
MAX_NEW = 2**13  # new categories after which all counts are halved
MIN_OCCURRENCES = 2  # occurrences from which on a category counts

Cells = tuple[int, int, int]  # the places of a category in the table; its count is the smallest of theirs

_HALVED = bytes(count // 2 for count in range(256))
_EMPTY = bytes(CELLS)


class CategoryCounts(NamedTuple):
    """Counts of the categories, up to 255 each; it is immutable."""

    counts: bytes = _EMPTY
    new: int = 0  # categories that were new since the counts were halved


def repeated(counts: bytes, cells: Cells) -> bool:
    """Return whether a category has occurred often enough to count."""
    a, b, c = cells
    return counts[a] >= MIN_OCCURRENCES and counts[b] >= MIN_OCCURRENCES and counts[c] >= MIN_OCCURRENCES


def add(old: CategoryCounts, categories: Iterable[Cells]) -> CategoryCounts:
    """Return the counts with one more occurrence of each category.

    Examples
    --------
    >>> categories = add(CategoryCounts(), [(1, 2, 3), (1, 4, 5)])
    >>> repeated(categories.counts, (1, 2, 3))
    False
    >>> categories = add(categories, [(1, 2, 3)])
    >>> repeated(categories.counts, (1, 2, 3)), repeated(categories.counts, (1, 4, 5))
    (True, False)
    """
    counts, new = bytearray(old.counts), old.new
    for cells in categories:
        smallest = min(counts[cell] for cell in cells)
        for cell in cells:
            counts[cell] = max(counts[cell], min(smallest + 1, 255))
        new += smallest == 0
    return CategoryCounts(bytes(counts), new) if new < MAX_NEW else CategoryCounts(bytes(counts.translate(_HALVED)), 0)
