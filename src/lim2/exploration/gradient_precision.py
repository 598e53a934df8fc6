"""Precision over parameter space: U = lambda I + the sum of g g' over the gradients g of all plays.

NeuralUCB and NeuralTS take a network's gradient g at (context, arm) as the features of a linear bandit over all
parameters. :class:`Diagonal` holds the inverse of U's diagonal, :class:`Full` all of U^-1. A gradient is never written
out. It comes as the factors ``gates`` and ``hidden`` (last axis: the hidden layer): it is ``outer(context, gates)`` for
the weights of its own arm's block, 0 for the other blocks, and (gates, hidden, 1) for the parameters that all arms
share.
"""

from typing import Annotated, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dger

from lim2.state import Array, Writes, with_arm, without_arm

# Parameters of the largest network with a full matrix: 2 GiB.
LARGEST_FULL = 16384


class Diagonal(NamedTuple):
    """The inverse of the diagonal of U.

    Examples
    --------
    >>> from lim2.state import written
    >>> known = Diagonal.prior(n_arms=2, n_features=1, hidden=1, precision=0.5)
    >>> context, gate, hidden = np.array([2.0]), np.array([1.0]), np.array([3.0])
    >>> known = written(known.observe(context, 0, gate, hidden))
    >>> known.blocks.ravel().tolist(), known.shared.round(3).tolist()  # 1 / (0.5 + 2^2) for the arm played
    ([0.2222222222222222, 2.0], [0.667, 0.105, 0.667])
    """

    blocks: Annotated[Array, "arm feature unit", "nonnegative"]
    shared: Annotated[Array, "shared", "nonnegative"]

    @classmethod
    def prior(cls, n_arms: int, n_features: int, hidden: int, precision: float) -> Self:
        """Return the initial precision, U = precision I."""
        return cls(np.full((n_arms, n_features, hidden), 1.0 / precision), np.full(2 * hidden + 1, 1.0 / precision))

    def spreads(self, contexts: Array, gates: Array, hidden: Array) -> Array:
        """Return g' U^-1 g (arms, n) for (n, n_features) contexts and (arms, n, hidden) factors."""
        width = hidden.shape[-1]
        per_unit = np.matmul(contexts * contexts, self.blocks)
        per_unit += self.shared[:width]
        spreads: Array = np.vecdot(per_unit, gates * gates)
        spreads += (hidden * hidden) @ self.shared[width:-1]
        spreads += self.shared[-1]
        return spreads

    def observe(self, context: Array, arm: int, gates: Array, hidden: Array) -> Writes:
        """Add the squares of a gradient to U; only one row of the blocks is written."""
        block, shared = self.blocks[arm], np.concatenate((gates, hidden, [1.0]))
        updated = block / (1.0 + block * np.outer(context * context, gates * gates))
        new = self._replace(shared=self.shared / (1.0 + self.shared * shared * shared))
        return Writes(new, [(self.blocks, arm, updated)])

    def add_arm(self, like: int | None, n_features: int, hidden: int, precision: float) -> Self:
        """Add a block: unknown, or known as well as another arm's."""
        return with_arm(self, like, self.prior(1, n_features, hidden, precision))

    def remove_arm(self, arm: int, n_features: int, hidden: int) -> Self:  # noqa: ARG002
        """Drop an arm's block; those after it move up."""
        return without_arm(self, arm)


class Full(NamedTuple):
    """The inverse of U, updated by the formula of Sherman and Morrison; for small networks.

    The shared parameters come first, then one block per arm. An update costs the square of the number of parameters,
    a spread that of one arm's block and the shared ones.

    Examples
    --------
    >>> known = Full.prior(n_arms=2, n_features=1, hidden=1, precision=0.5)
    >>> context, gate, hidden = np.array([2.0]), np.array([1.0]), np.array([3.0])
    >>> known, _ = known.observe(context, 0, gate, hidden)
    >>> gradient = np.array([1.0, 3.0, 1.0, 2.0, 0.0])  # bias, head, head's bias; blocks of arms 0 and 1
    >>> np.allclose(known.inverse @ (0.5 * np.eye(5) + np.outer(gradient, gradient)), np.eye(5))
    True
    """

    inverse: Annotated[Array, "parameter parameter", "psd"]

    @classmethod
    def prior(cls, n_arms: int, n_features: int, hidden: int, precision: float) -> Self:
        """Return the initial precision, U = precision I."""
        return cls(np.eye(_checked(n_arms * n_features * hidden + 2 * hidden + 1)) / precision)

    def spreads(self, contexts: Array, gates: Array, hidden: Array) -> Array:
        """Return g' U^-1 g (arms, n) for (n, n_features) contexts and (arms, n, hidden) factors."""
        spreads, ones = np.empty(gates.shape[:2]), np.ones((len(contexts), 1))
        for arm in range(len(gates)):
            block_part = _block_gradient(contexts, gates[arm])
            common, rows = _rows(arm, contexts.shape[1], hidden.shape[-1])
            shared = np.concatenate((gates[arm], hidden[arm], ones), axis=1)
            from_block = block_part @ self.inverse[rows, rows]
            from_block += shared @ (2.0 * self.inverse[common, rows])
            from_shared = shared @ self.inverse[common, common]
            spreads[arm] = np.vecdot(from_block, block_part) + np.vecdot(from_shared, shared)
        return np.maximum(spreads, 0.0, out=spreads)

    def observe(self, context: Array, arm: int, gates: Array, hidden: Array) -> Writes:
        """Add the outer product of a gradient with itself to U."""
        block_part, shared = _block_gradient(context[None], gates[None])[0], np.concatenate((gates, hidden, [1.0]))
        common, rows = _rows(arm, len(context), len(hidden))
        solved: Array = block_part @ self.inverse[rows]  # U^-1 g
        solved += shared @ self.inverse[common]
        solved /= np.sqrt(1.0 + max(float(block_part @ solved[rows] + shared @ solved[common]), 0.0))
        # BLAS reads arrays by columns; the transpose of a symmetric matrix is the matrix.
        return Writes(type(self)(dger(-1.0, solved, solved, a=self.inverse.T).T), [])

    def add_arm(self, like: int | None, n_features: int, hidden: int, precision: float) -> Self:
        """Add a block: unknown, or known as well as another arm's.

        As inverses of U are covariances, the new block's parameters are distributed as those of the other given the
        shared parameters, and independent of all blocks but for these.
        """
        size, block = len(self.inverse), n_features * hidden
        inverse = np.zeros((_checked(size + block), size + block))
        inverse[:size, :size] = self.inverse
        if like is None:
            inverse[size:, size:] = np.eye(block) / precision
        else:
            shared, rows = _rows(like, n_features, hidden)
            onto_shared = np.linalg.solve(self.inverse[shared, shared], self.inverse[shared, rows])
            cross = onto_shared.T @ self.inverse[shared]
            cross[:, shared] = self.inverse[rows, shared]  # to the last digit
            inverse[size:, :size], inverse[:size, size:] = cross, cross.T
            inverse[size:, size:] = self.inverse[rows, rows]
        return type(self)(inverse)

    def remove_arm(self, arm: int, n_features: int, hidden: int) -> Self:
        """Drop an arm's block; those after it move up. What is known of the others stays: covariances marginalise."""
        _, rows = _rows(arm, n_features, hidden)
        rows_kept = np.delete(np.arange(len(self.inverse)), rows)
        return type(self)(self.inverse[np.ix_(rows_kept, rows_kept)])


def _rows(arm: int, n_features: int, hidden: int) -> tuple[slice, slice]:
    """Return the slices of the shared parameters and of an arm's block."""
    shared, block = 2 * hidden + 1, n_features * hidden
    return slice(0, shared), slice(shared + arm * block, shared + (arm + 1) * block)


def _block_gradient(contexts: Array, gates: Array) -> Array:
    """Return the gradients (n, n_features x hidden) with respect to the arm's own block."""
    return (contexts[:, :, None] * gates[:, None, :]).reshape(len(contexts), -1)


def _checked(size: int) -> int:
    if size > LARGEST_FULL:
        raise ValueError(
            f"covariance='full' would keep {size} x {size} numbers ({size * size * 8 / 2**30:.1f} GiB), and is "
            f"meant for at most {LARGEST_FULL} parameters: use covariance='diagonal' or a smaller hidden"
        )
    return size
