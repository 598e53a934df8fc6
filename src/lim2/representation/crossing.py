"""Products of the columns of context and item, which let a linear model personalise.

Without them a linear score is one part for the context and one for the item, and every context prefers the same item.
Up to ``MOST_PRODUCTS`` there is one column per product. Beyond that, products are hashed with signs into so many
columns: inner products of rows are then right on average. The place of a product is the sum of a place of the
context's column and one of the item's. So all products together are a circular convolution of two short vectors, and
none is ever formed (the tensor sketch of Pham and Pagh, 2013). Places are spread by the golden ratio, not drawn.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.state import Array

MOST_PRODUCTS = 128
_STEP = 79  # from the place of one column of the context to that of the next: MOST_PRODUCTS by the golden ratio
_MULTIPLIER = 0x9E3779B97F4A7C15  # of signs by Fibonacci hashing: the same on every machine


@dataclass(frozen=True)
class Crossing:
    """Rows of [context, item] become rows of [context, item, products].

    Examples
    --------
    >>> Crossing(context=2, item=2)(np.array([[1.0, 2.0, 5.0, 7.0]])).tolist()
    [[1.0, 2.0, 5.0, 7.0, 5.0, 7.0, 10.0, 14.0]]
    >>> Crossing(context=100, item=100).width
    328
    """

    context: int
    item: int

    def __reduce__(self) -> tuple[Any, ...]:  # what is computed once is not sent to other processes
        return _shared, (self.context, self.item)

    @property
    def products(self) -> int:
        """Number of columns of the products."""
        return min(self.context * self.item, MOST_PRODUCTS)

    @property
    def width(self) -> int:
        """The number of columns of a row with products."""
        return self.context + self.item + self.products

    @property
    def exact(self) -> bool:
        """Whether every product has its own column."""
        return self.context * self.item <= MOST_PRODUCTS

    @cached_property
    def _halves(self) -> tuple[Array, Array]:
        """The sketches of contexts and of items: a signed column for each of their columns, one hot."""
        return _one_hot(self.context, self.products, _STEP, 0), _one_hot(self.item, self.products, 1, self.context)

    @cached_property
    def _spectra(self) -> tuple[Array, Array]:
        """The transforms of the sketches: pairs of columns are complex numbers."""
        contexts, items = (np.fft.rfft(half).view(np.float64) for half in self._halves)
        return contexts, items

    @cached_property
    def _turns(self) -> NDArray[np.intp]:
        """Where a context's sketch, with its negative behind it, has the products of each column of items."""
        places, signs = self._halves[1].nonzero()[1], self._halves[1].sum(axis=1)
        turned = (np.arange(self.products) - places[:, None]) % self.products
        return np.asarray(turned + self.products * (signs < 0.0)[:, None])

    def __call__(self, rows: NDArray[Any]) -> Array:
        """Return rows, or one row, with the products of its columns appended."""
        if rows.ndim == 1:
            one: Array = self(rows[None])[0]
            return one
        out, split = np.empty((len(rows), self.width)), self.context + self.item
        out[:, :split] = rows
        contexts, items = rows[:, : self.context], rows[:, self.context :]
        if self.exact:
            np.multiply(
                contexts[:, :, None], items[:, None], out=out[:, split:].reshape(len(rows), self.context, self.item)
            )
        else:
            of_context, of_item = self._spectra
            crossed = (contexts @ of_context).view(complex)
            crossed *= (items @ of_item).view(complex)
            out[:, split:] = np.fft.irfft(crossed, self.products)
        return out

    def in_one_context(self, rows: NDArray[Any]) -> Array:
        """Return the products for rows that share one context, whose part is computed once."""
        if self.exact:
            return self(rows)
        out, split = np.empty((len(rows), self.width)), self.context + self.item
        out[:, :split] = rows
        sketch = np.dot(rows[0, : self.context], self._halves[0])
        turned = np.concatenate((sketch, -sketch)).take(self._turns)  # from an item to its products with the context
        np.matmul(rows[:, self.context :], turned, out=out[:, split:])
        return out

    def _convolved(self, contexts: Array, items: Array, of_context: Array, of_item: Array) -> Array:
        """Return the products of contexts and items by their sketches."""
        out: Array = np.fft.irfft(np.fft.rfft(contexts @ of_context) * np.fft.rfft(items @ of_item), self.products)
        return out

    def mapping(self, columns: Array) -> Array:
        """Return the effect of a linear change of the columns on rows with products and a constant 1.

        A product of two columns that are scaled and moved is a sum of the product, the columns and 1. Where products
        share columns, their scales cannot change apart, and the mean of the changes is taken.

        Examples
        --------
        >>> change = np.array([[2.0, 0.0, 1.0], [0.0, 5.0, 3.0], [0.0, 0.0, 1.0]])
        >>> Crossing(context=1, item=1).mapping(change) @ np.array([1.0, 1.0, 1.0, 1.0])  # 1 -> 3, 1 -> 8, so 1 -> 24
        array([ 3.,  8., 24.,  1.])
        """
        split, end = self.context + self.item, self.width
        slope, offset = columns.diagonal()[:-1], columns[:-1, -1]
        (a, c), (b, e) = (np.split(part, [self.context]) for part in (slope, offset))
        out = np.zeros((end + 1, end + 1))
        out[:split, :split], out[:split, -1], out[-1, -1] = columns[:-1, :-1], offset, 1.0
        # Each of these is what the products of some contexts and items become: one row per column that changes.
        out[split:end, : self.context] = self._crossed(np.diag(a), e)
        out[split:end, self.context : split] = self._crossed(b, np.diag(c))
        out[split:end, -1] = self._crossed(b, e)
        if self.exact:
            slopes = np.kron(a, c)
        else:
            halves = [np.abs(half) for half in self._halves]
            sums = [self._convolved(*parts, *halves) for parts in ((a, c), (a**0, c**0))]
            slopes = sums[0] / np.maximum(sums[1], 0.5)  # how many share a column is a whole number
        out[split:end, split:end] = np.diag(slopes)
        return out

    def _crossed(self, contexts: Array, items: Array) -> Array:
        """Return the products of contexts and items, one of which may be several rows, (products, rows)."""
        count = max(len(contexts) if contexts.ndim > 1 else 1, len(items) if items.ndim > 1 else 1)
        rows = np.empty((count, self.context + self.item))
        rows[:, : self.context], rows[:, self.context :] = contexts, items
        crossed = self(rows)[:, self.context + self.item :].T
        return crossed if contexts.ndim > 1 or items.ndim > 1 else crossed[:, 0]


@cache
def _shared(context: int, item: int) -> Crossing:
    return Crossing(context, item)


def _one_hot(columns: int, places: int, step: int, first: int) -> Array:
    """Return a signed place for each of several columns, (columns, places); signs are numbered from ``first`` on."""
    numbers = np.arange(first + 1, first + columns + 1, dtype=np.uint64) * np.uint64(_MULTIPLIER)
    out = np.zeros((columns, places))
    signs = 1.0 - 2.0 * ((numbers >> np.uint64(40)) & np.uint64(1)).astype(np.float64)
    out[np.arange(columns), np.arange(columns) * step % places] = signs
    return out
