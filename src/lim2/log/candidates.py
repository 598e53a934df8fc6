"""Candidates of many decisions in flat arrays, so that no array has the length of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of each row of a table; row i has the entries ``starts[i]`` to ``starts[i + 1]``.

    Parameters
    ----------
    starts
        Start of each row's entries, and the end, (n + 1,).
    arms
        (m,) each candidate, as an index of the table's arms; m is the number of candidates of all rows.
    propensities
        (m,) None if they are unknown.
    means
        (m,) what the deciding agent expected; None if it had no expectations.
    items
        Their features: (m, e) vectors, or (m,) raw ones; None if arms have no features.
    raw_items
        (m,) raw features; None if they were not kept.

    Examples
    --------
    >>> two = Candidates.of([[0, 1, 2], [2, 0]])
    >>> len(two), two.sizes.tolist(), two.rows.tolist(), two.arms.tolist()
    (2, [3, 2], [0, 0, 0, 1, 1], [0, 1, 2, 2, 0])
    >>> two.take(np.array([1])).arms.tolist()
    [2, 0]
    """

    starts: Ints
    arms: Ints
    propensities: Array | None = None
    means: Array | None = None
    items: NDArray[Any] | None = None
    raw_items: NDArray[Any] | None = None

    @classmethod
    def of(cls, arms: list[Any], **fields: Any) -> Candidates:
        """Return candidates from one sequence of indices per row, and their other fields."""
        starts = np.zeros(len(arms) + 1, dtype=np.intp)
        np.cumsum([len(row) for row in arms], out=starts[1:])
        flat = np.concatenate([np.asarray(row, dtype=np.intp) for row in arms]) if arms else np.empty(0, np.intp)
        return cls(starts, flat, **fields)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Ints:
        """Number of candidates of each row, (n,)."""
        return np.diff(self.starts)

    @property
    def rows(self) -> Ints:
        """Row of each candidate, (m,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def take(self, rows: Ints) -> Candidates:
        """Return the candidates of some rows."""
        sizes = self.sizes[rows]
        starts = np.zeros(len(rows) + 1, dtype=np.intp)
        np.cumsum(sizes, out=starts[1:])
        index = np.repeat(self.starts[:-1][rows] - starts[:-1], sizes) + np.arange(starts[-1])
        parts = (self.propensities, self.means, self.items, self.raw_items)
        return Candidates(starts, self.arms[index], *(None if part is None else part[index] for part in parts))

    def dense(self, values: NDArray[Any], n_arms: int, fill: Any) -> NDArray[Any]:
        """Return values (m,) as an array (n, n_arms), with ``fill`` for arms that are not candidates."""
        table = np.full((len(self), n_arms), fill, dtype=values.dtype)
        table[self.rows, self.arms] = values
        return table
