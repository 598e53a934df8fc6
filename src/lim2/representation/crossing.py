"""Products of the columns of a context with those of an item: what lets a linear belief tell tastes apart.

Without them a linear score is one part for the context and one for the item, and every context prefers the same item.
Up to ``MOST_PRODUCTS`` there is one column per product. Beyond that, products are hashed with signs into so many
columns (a count sketch): sums of products, of which inner products are right on average.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lim2.state import Array

MOST_PRODUCTS = 128
_MULTIPLIER, _BITS = 0x9E3779B97F4A7C15, 64  # Fibonacci hashing: the same buckets on every machine


@dataclass(frozen=True)
class Crossing:
    """Rows of [context, item] become rows of [context, item, products].

    Parameters
    ----------
    context, item
        Number of columns of a context and of an item.

    Examples
    --------
    >>> Crossing(context=2, item=2)(np.array([[1.0, 2.0, 5.0, 7.0]])).tolist()
    [[1.0, 2.0, 5.0, 7.0, 5.0, 7.0, 10.0, 14.0]]
    >>> Crossing(context=100, item=100).width
    328
    """

    context: int
    item: int

    @property
    def products(self) -> int:
        """How many columns the products have."""
        return min(self.context * self.item, MOST_PRODUCTS)

    @property
    def width(self) -> int:
        """The number of columns of a row with products."""
        return self.context + self.item + self.products

    @cached_property
    def _sketch(self) -> sparse.csr_array | None:
        """The signed bucket of every product, (context * item, products); None where each has a column of its own."""
        count = self.context * self.item
        if count <= MOST_PRODUCTS:
            return None
        numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_MULTIPLIER)
        buckets = ((numbers >> np.uint64(_BITS - 32)) % np.uint64(MOST_PRODUCTS)).astype(np.intp)
        signs = 1.0 - 2.0 * ((numbers >> np.uint64(20)) & np.uint64(1)).astype(np.float64)
        return sparse.csr_array((signs, (np.arange(count), buckets)), shape=(count, MOST_PRODUCTS))

    def __call__(self, rows: NDArray[Any]) -> Array:
        """Return rows, or one row, with the products of its columns appended."""
        single = rows.ndim == 1
        rows = rows[None] if single else rows
        split = self.context + self.item
        out = np.empty((len(rows), self.width))
        out[:, :split] = rows
        products = rows[:, : self.context, None] * rows[:, None, self.context :]
        flat = products.reshape(len(rows), -1)
        out[:, split:] = flat if self._sketch is None else flat @ self._sketch
        return out[0] if single else out

    def mapping(self, columns: Array) -> Array:
        """Return what a linear change of the columns does to rows with products and a constant 1.

        A product of two columns that are scaled and moved is a sum of the product, the columns and 1. Where products
        share columns, their scales cannot change apart, and the mean of the changes is taken.

        Parameters
        ----------
        columns
            T with (z, 1) = T (z', 1) for rows of context and item, (d + 1, d + 1); diagonal but for its last column.

        Examples
        --------
        >>> change = np.array([[2.0, 0.0, 1.0], [0.0, 5.0, 3.0], [0.0, 0.0, 1.0]])
        >>> Crossing(context=1, item=1).mapping(change) @ np.array([1.0, 1.0, 1.0, 1.0])  # 1 -> 3, 1 -> 8, so 1 -> 24
        array([ 3.,  8., 24.,  1.])
        """
        split, end = self.context + self.item, self.width
        slope, offset = columns.diagonal()[:-1], columns[:-1, -1]
        (a, c), (b, e) = (np.split(part, [self.context]) for part in (slope, offset))
        into = self._sketch.T if self._sketch is not None else np.eye(self.products)
        out = np.zeros((end + 1, end + 1))
        out[:split, :split], out[:split, -1], out[-1, -1] = columns[:-1, :-1], offset, 1.0
        out[split:end, : self.context] = into @ np.kron(np.diag(a), e[:, None])
        out[split:end, self.context : split] = into @ np.kron(b[:, None], np.diag(c))
        out[split:end, -1] = into @ np.kron(b, e)
        size = abs(into)
        out[split:end, split:end] = np.diag(size @ np.kron(a, c) / size.sum(axis=1))
        return out
