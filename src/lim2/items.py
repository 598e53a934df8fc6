"""Agents that choose among items.

One belief about [context, item] stands behind all of them, so an item that was never seen before has a score, too.
Inside is an agent with one arm (``agent.py``) whose contexts are a context and an item side by side. How it decides is
in ``item_deciding.py``.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import warm_start as tables
from lim2.agent import Agent
from lim2.algorithms.base import Algorithm
from lim2.batches import Progress, Size
from lim2.checks import LARGEST, as_floats, positive_int, size_of, why_not
from lim2.info import Info
from lim2.item_deciding import ItemDecider
from lim2.snapshot import Snapshot
from lim2.state import Array, Write


class ItemAgent(ItemDecider):
    """Contextual bandit agent whose arms are items with features: call ``act``, observe a reward, call ``update``.

    Make one with ``lim2.AdaptiveTS(n_features=24, n_item_features=20)`` or another function in ``lim2.AGENTS``. Items
    may be new and may differ in every call; the caller names them. Add an item's identity to its features, one-hot or
    hashed, if the agent should also learn about each item individually. ``epsilon`` is the share of decisions
    that are drawn uniformly: each of the k candidates of a call is chosen with probability at least ``epsilon / k``.

    Parameters
    ----------
    agent
        An agent with one arm, or an algorithm to make it from.

    Examples
    --------
    >>> import lim2
    >>> rng = np.random.default_rng(0)
    >>> agent = lim2.AdaptiveTS(n_features=2, n_item_features=2, seed=0)
    >>> earned = 0.0
    >>> for _ in range(400):
    ...     user, items = rng.normal(size=2), rng.normal(size=(5, 2))
    ...     chosen = agent.act(user, items)
    ...     reward = float(user @ items[chosen])  # what this user makes of this item
    ...     agent.update(user, items[chosen], reward)
    ...     earned += reward
    >>> earned > 400  # chance: 0
    True
    >>> items = {"hat": [1.0, 0.0], "shoe": [0.0, 1.0]}
    >>> decision = agent.decide([0.0, 2.0], items)
    >>> decision.arm, [entry.arm for entry in agent.rank([2.0, 0.0], items)]
    ('shoe', ['hat', 'shoe'])
    """

    _inner: Agent

    def __init__(self, agent: Agent | Algorithm) -> None:
        super().__init__(Agent(agent) if isinstance(agent, Algorithm) else agent)

    @property
    def _scores_by(self) -> Any:  # not kept: the next update changes it
        return self._inner._core.state

    def update(self, context: ArrayLike, item: ArrayLike, reward: float, decided: int | None = None) -> None:
        """Learn the reward of an item in a context.

        Parameters
        ----------
        context
            The context of the decision.
        item
            Features of the item, (n_item_features,).
        reward
            Its reward.
        decided
            When the decision was made, see :meth:`lim2.Agent.update`. None: now.
        """
        self.refuse_beside_log()
        number = None if decided is None else positive_int("decided", decided)
        self.learn_row(self._row(context, item), reward, decided=number)

    def learn_logged(
        self, context: ArrayLike, item: ArrayLike, reward: float, also: Iterable[Write], decided: int | None = None
    ) -> None:
        """Learn a reward from a log, as :meth:`update` does; set ``also``, its log position, in the same step."""
        self.learn_row(self._row(context, item), reward, also, decided)

    def learn_logged_many(
        self,
        contexts: ArrayLike,
        items: ArrayLike,
        rewards: ArrayLike,
        also: Iterable[Write],
        decided: Sequence[int] | None = None,
    ) -> None:
        """Learn rewards from a log as one batch; set ``also``, the log position of the last, in the same step."""
        rows = self._rows(contexts, items)
        self._inner.learn_logged_many(rows, [0] * len(rows), rewards, also, decided)

    def refuse_beside_log(self) -> None:
        """Raise a ValueError if the agent learns from a log: it would learn the same reward twice."""
        self._inner.refuse_beside_log()

    def learn_row(
        self, row: NDArray[Any], reward: float, also: Iterable[Write] = (), decided: int | None = None
    ) -> None:
        """Learn from a row without checking it; make the assignments ``also`` together with the new state."""
        self._inner.learn_row(row, 0, reward, also, decided)

    def all_or_nothing(self, also: Iterable[Write] = ()) -> AbstractContextManager[None]:
        """Restore the agent, and make the assignments ``also``, if anything in the ``with`` block fails."""
        return self._inner.all_or_nothing(also)

    def update_many(self, contexts: ArrayLike, items: ArrayLike, rewards: ArrayLike, batch: Size = 1) -> None:
        """Learn many rewards: all of them or, if one fails, none.

        Parameters
        ----------
        contexts
            One context per row, (n, n_features).
        items
            Features of the items that were chosen, (n, n_item_features).
        rewards
            Their rewards, (n,).
        batch
            Number of rewards learned in one update, see :meth:`lim2.Agent.update_many`.
        """
        rows = self._rows(contexts, items)
        self._inner.update_many(rows, [0] * len(rows), rewards, batch)

    def warm_start(self, table: Any, batch: Size = "auto", progress: Progress | None = None) -> int:
        """Learn all rewards of a table with items as vectors, as :meth:`lim2.Agent.warm_start` does.

        Parameters
        ----------
        table, batch, progress
            The same as for :meth:`lim2.Agent.warm_start`.

        Returns
        -------
        int
            Number of rewards learned.
        """
        contexts, items, rewards = tables.of_items(table)
        rows = self._rows(contexts, items)
        return self._inner.learn_all(rows, [0] * len(rows), rewards, batch, progress)

    def _rows(self, contexts: ArrayLike, items: ArrayLike) -> Array:
        """Return rows of context and item."""
        xs, ys = as_floats(contexts, "contexts"), as_floats(items, "items")
        for name, rows, size in (("contexts", xs, self._sizes[0]), ("items", ys, self._sizes[1])):
            if rows.ndim != 2 or rows.shape[1] != size or len(rows) != len(xs):
                raise ValueError(f"{name} must be an array (n, {size}), one row per reward, got shape {rows.shape}")
        return np.hstack((xs, ys))

    def _row(self, context: ArrayLike, item: ArrayLike) -> NDArray[Any]:
        features = as_floats(item, "an item")
        if features.shape != (self._sizes[1],):
            raise ValueError(f"an item must be a 1-D array of {self._sizes[1]} numbers, got shape {features.shape}")
        if not size_of(features) < LARGEST:
            raise ValueError(why_not(features, "an item"))
        return self._inner._context(np.concatenate((self._context(context), features)))

    # Copies and files

    def snapshot(self) -> ItemDecider:
        """Return a read-only view of the current agent, which other threads can decide with while this one learns."""
        snapshot: Snapshot = self._inner.snapshot()
        return ItemDecider(snapshot)

    def copy(self) -> Self:
        """Return an independent copy of the agent, random streams included."""
        return type(self)(self._inner.copy())

    def clone(self) -> "ItemAgent":
        """Return a new, untrained agent with the same settings."""
        return ItemAgent(self._inner.clone())

    def reseed(self, seed: int | None = None) -> None:
        """Replace the random streams of decisions, as :meth:`lim2.Agent.reseed` does."""
        self._inner.reseed(seed)

    def get_params(self) -> dict[str, Any]:
        """Return all settings as they were given, as a mapping from argument name to value."""
        return self._inner.get_params()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file, as :meth:`lim2.Agent.save` does; :func:`lim2.load` reads it."""
        self._inner.save(path)

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` would write; :func:`lim2.from_bytes` reads them."""
        return self._inner.to_bytes()

    # What it says of itself

    @property
    def agent(self) -> Agent:
        """The agent inside, with one arm: its contexts are a context and an item side by side."""
        return self._inner

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the items of the call; another one holds from then on."""
        return self._inner.epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        self._inner.epsilon = epsilon

    @property
    def batches(self) -> bool:
        """Whether the algorithm can learn several rewards in one update."""
        return self._inner.batches

    @property
    def state(self) -> Any:
        """The state of the algorithm, a value: later updates do not change it."""
        return self._inner.state

    @property
    def info(self) -> Info | None:
        """Diagnostics of the latest update; None before the first update, and in a copy."""
        return self._inner.info

    @property
    def nbytes(self) -> int:
        """Size of the agent's state in bytes."""
        return self._inner.nbytes
