"""How well a direction of parameter space is known: U = lambda I + the sum of g g' over the gradients seen.

NeuralUCB and NeuralTS take a network's gradient g at (context, arm) as the features of a linear bandit over all
parameters. :class:`Diagonal` keeps the diagonal of U, :class:`Full` its inverse. A gradient is never written out: it
comes as the factors ``gates`` and ``hidden`` (last axis: the hidden layer), and is ``outer(context, gates)`` for the
weights of its own arm's block, 0 for the other blocks, and (gates, hidden, 1) for the parameters shared by all arms.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

from lim2._arrays import with_row, without_row
from lim2._state import Stateful

Array = NDArray[np.float64]

# Parameters of the largest network with a full matrix: 2 GiB.
LARGEST_FULL = 16384


class Diagonal(Stateful):
    """The diagonal of U, held as its inverse.

    Examples
    --------
    >>> known = Diagonal(n_arms=2, n_features=1, hidden=1, start=0.5)
    >>> context, gate, hidden = np.array([2.0]), np.array([1.0]), np.array([3.0])
    >>> known.observe(context, 0, gate, hidden)
    >>> known.blocks.ravel().tolist(), known.shared.round(3).tolist()  # 1 / (0.5 + 2^2) for the arm played
    ([0.2222222222222222, 2.0], [0.667, 0.105, 0.667])
    """

    _kept: ClassVar[tuple[str, ...]] = ("blocks", "shared")

    def __init__(self, n_arms: int, n_features: int, hidden: int, start: float) -> None:
        self.start = start
        self.blocks = np.full((n_arms, n_features, hidden), 1.0 / start)
        self.shared = np.full(2 * hidden + 1, 1.0 / start)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.blocks.nbytes + self.shared.nbytes

    def spreads(self, contexts: Array, gates: Array, hidden: Array) -> Array:
        """Return g' U^-1 g (arms, n) for (n, n_features) contexts and (arms, n, hidden) factors."""
        width = hidden.shape[-1]
        per_unit = np.matmul(contexts * contexts, self.blocks)
        per_unit += self.shared[:width]
        spreads: Array = np.vecdot(per_unit, gates * gates)
        spreads += (hidden * hidden) @ self.shared[width:-1]
        spreads += self.shared[-1]
        return spreads

    def observe(self, context: Array, arm: int, gates: Array, hidden: Array) -> None:
        """Add the square of a gradient to U."""
        block = self.blocks[arm]
        shared = np.concatenate((gates, hidden, [1.0]))
        shrink = 1.0 + block * np.outer(context * context, gates * gates)
        shrink_shared = 1.0 + self.shared * shared * shared
        block /= shrink
        self.shared /= shrink_shared

    def add_arm(self, like: int | None = None) -> None:
        """Add a block: unknown, or known as well as another arm's."""
        self.blocks = with_row(self.blocks, 1.0 / self.start if like is None else self.blocks[like])

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's block; those after it move up."""
        self.blocks = without_row(self.blocks, arm)


class Full(Stateful):
    """The inverse of U, updated by the formula of Sherman and Morrison; for small networks.

    The update costs the square of the number of parameters, a spread that of one arm's block and the shared ones.

    Examples
    --------
    >>> known = Full(n_arms=2, n_features=1, hidden=1, start=0.5)
    >>> context, gate, hidden = np.array([2.0]), np.array([1.0]), np.array([3.0])
    >>> known.observe(context, 0, gate, hidden)
    >>> gradient = np.array([2.0, 0.0, 1.0, 3.0, 1.0])  # blocks of arms 0 and 1; bias, head, head's bias
    >>> np.allclose(known.inverse @ (0.5 * np.eye(5) + np.outer(gradient, gradient)), np.eye(5))
    True
    """

    _kept: ClassVar[tuple[str, ...]] = ("inverse",)

    def __init__(self, n_arms: int, n_features: int, hidden: int, start: float) -> None:
        size = n_arms * n_features * hidden + 2 * hidden + 1
        self._check(size)
        self.start = start
        self._block = n_features * hidden
        self._shared = slice(n_arms * self._block, size)
        self.inverse = np.zeros((size, size))
        np.fill_diagonal(self.inverse, 1.0 / start)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        return self.inverse.nbytes

    def _rows(self, arm: int) -> slice:
        return slice(arm * self._block, (arm + 1) * self._block)

    def spreads(self, contexts: Array, gates: Array, hidden: Array) -> Array:
        """Return g' U^-1 g (arms, n) for (n, n_features) contexts and (arms, n, hidden) factors."""
        spreads = np.empty(gates.shape[:2])
        ones = np.ones((len(contexts), 1))
        for arm in range(len(gates)):
            own, rows = self._own(contexts, gates[arm]), self._rows(arm)
            shared = np.concatenate((gates[arm], hidden[arm], ones), axis=1)
            from_own = own @ self.inverse[rows, rows]
            from_own += shared @ (2.0 * self.inverse[self._shared, rows])
            from_shared = shared @ self.inverse[self._shared, self._shared]
            spreads[arm] = np.vecdot(from_own, own) + np.vecdot(from_shared, shared)
        return np.maximum(spreads, 0.0, out=spreads)

    def observe(self, context: Array, arm: int, gates: Array, hidden: Array) -> None:
        """Add the outer product of a gradient with itself to U."""
        own, rows = self._own(context[None], gates[None])[0], self._rows(arm)
        shared = np.concatenate((gates, hidden, [1.0]))
        known: Array = own @ self.inverse[rows]  # U^-1 g
        known += shared @ self.inverse[self._shared]
        known /= np.sqrt(1.0 + max(float(own @ known[rows] + shared @ known[self._shared]), 0.0))
        # In place: the transpose of a C array is a Fortran array, which dger may overwrite; the matrix is symmetric.
        dger(-1.0, known, known, a=self.inverse.T, overwrite_a=True)

    def add_arm(self, like: int | None = None) -> None:
        """Add a block: unknown, or known as well as another arm's.

        As inverses of U are covariances, the new block's parameters are distributed as those of the other given the
        shared parameters, and independent of all blocks but for these.
        """
        size, block, start = len(self.inverse), self._block, self._shared.start
        self._check(size + block)
        own, cross = np.eye(block) / self.start, np.zeros((block, size))
        if like is not None:
            rows = self._rows(like)
            own = self.inverse[rows, rows]
            onto_shared = np.linalg.solve(self.inverse[self._shared, self._shared], self.inverse[self._shared, rows])
            cross = onto_shared.T @ self.inverse[self._shared]
            cross[:, self._shared] = self.inverse[self._shared, rows].T  # to the last digit
        before = np.concatenate((np.arange(start), np.arange(start + block, size + block)))
        new = slice(start, start + block)
        inverse = np.empty((size + block, size + block))
        inverse[np.ix_(before, before)] = self.inverse
        inverse[new, before], inverse[before, new] = cross, cross.T
        inverse[new, new] = own
        self.inverse, self._shared = inverse, slice(start + block, size + block)

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's block; those after it move up. What is known of the others stays: covariances marginalise."""
        rows = self._rows(arm)
        kept = np.concatenate((np.arange(rows.start), np.arange(rows.stop, len(self.inverse))))
        self.inverse = self.inverse[np.ix_(kept, kept)]
        self._shared = slice(self._shared.start - self._block, self._shared.stop - self._block)

    @staticmethod
    def _check(size: int) -> None:
        if size > LARGEST_FULL:
            raise ValueError(
                f"covariance='full' would keep {size} x {size} numbers ({size * size * 8 / 2**30:.1f} GiB), and is "
                f"meant for at most {LARGEST_FULL} parameters: use covariance='diagonal' or a smaller hidden"
            )

    @staticmethod
    def _own(contexts: Array, gates: Array) -> Array:
        """Return the gradients (n, n_features x hidden) with respect to the arm's own block."""
        return (contexts[:, :, None] * gates[:, None, :]).reshape(len(contexts), -1)
