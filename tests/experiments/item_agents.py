"""Agents that choose among items, for tests: nothing of them is in the package."""

from __future__ import annotations

from typing import Any

import numpy as np

import lim2


class Products:
    """One arm of LinearTS over context, item and their products; the item with the highest draw is chosen."""

    def __init__(self, n_features: int, n_item_features: int, *, scales: Any, seed: int | None = None) -> None:
        self.scales = scales
        size = n_features + n_item_features + n_features * n_item_features
        self.agent = lim2.LinearTS(1, size, initial_pulls=0, seed=seed)
        self.rng = np.random.default_rng(seed)

    @property
    def nbytes(self) -> int:
        return self.agent.nbytes

    def act(self, context: Any, items: Any) -> int:
        rows = np.array([self._row(context, item) for item in items])
        means, variances = self.agent.means(rows)[:, 0], self.agent.variances(rows)[:, 0]
        return int((means + np.sqrt(variances) * self.rng.standard_normal(len(rows))).argmax())

    def update(self, context: Any, item: Any, reward: float) -> None:
        self.agent.update(self._row(context, item), 0, reward)

    def _row(self, context: Any, item: Any) -> Any:
        context, item = self.scales[0](context), self.scales[1](item)
        return np.concatenate([context, item, np.outer(context, item).ravel()])


class First:
    """Chooses the candidate of a fixed row, and notes what it is told."""

    def __init__(self, n_features: int, n_item_features: int, row: int = 0) -> None:
        self.sizes, self.row, self.told = (n_features, n_item_features), row, []  # type: ignore[var-annotated]

    def act(self, context: Any, items: Any) -> int:
        return self.row

    def update(self, context: Any, item: Any, reward: float) -> None:
        self.told.append((context.tolist(), item.tolist(), reward))


def shelves(rounds: int, seed: int) -> lim2.problems.ItemProblem:
    """Two to four items per round; one feature says which pays."""
    rng = np.random.default_rng(seed)
    items = [rng.integers(0, 2, (rng.integers(2, 5), 3)).astype(float) for _ in range(rounds)]
    return lim2.problems.from_items(
        rng.normal(size=(rounds, 2)), items, [block[:, 0] for block in items], name="shelves"
    )
