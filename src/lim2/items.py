"""Agents that choose among items.

One belief about [context, item] stands behind all of them, so an item that was never seen before has a score, too.
Inside is a learner with one arm, whose contexts are a context and an item side by side.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.agent import Agent, parts
from lim2.algorithms.base import Algorithm
from lim2.arms import arm_names
from lim2.batches import Progress, Size
from lim2.checks import LARGEST, as_floats, positive_int, size_of, why_not
from lim2.deciding import Question
from lim2.decision import Decision, History
from lim2.learner import Learner, Lesson, checked_reward, checked_rewards
from lim2.shells import LearningShell, Shell
from lim2.state import Array

Items = ArrayLike | Mapping[Any, ArrayLike]  # rows, called 0, 1, 2, ..., or vectors by name


class ItemDecider(Shell):
    """Base class of item agents and their snapshots: chooses among items but does not learn."""

    def act(self, context: ArrayLike, items: Items, *, exploit: bool = False, joint: bool = False) -> Any:
        """Choose an item for a context; return its name, or its row if it has no name.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        items
            The candidates: an array (k, n_item_features), or vectors by name.
        exploit
            Choose the item with the largest posterior mean: no exploration, no ``epsilon``, no random draw.
        joint
            Draw the scores of all candidates jointly, with their correlations, instead of independently. Similar
            candidates then get similar scores. The decision has no propensities.
        """
        question = self._question(context, items, exploit, joint)
        return question.names[self.core.act(question)]

    def decide(self, context: ArrayLike, items: Items, *, exploit: bool = False, joint: bool = False) -> Decision:
        """Choose an item as :meth:`act` does, and return it with its propensity as a :class:`lim2.Decision`.

        With ``joint=True`` the propensities are NaN.
        """
        return self.core.decide(self._question(context, items, exploit, joint))

    def rank(
        self, context: ArrayLike, items: Items, k: int | None = None, *, exploit: bool = False, joint: bool = False
    ) -> list[Decision]:
        """Rank items by one draw of each score, best first; return one decision per position.

        All decisions have the same candidates. The propensity of each is the probability that its item comes first.

        Parameters
        ----------
        context, items, exploit, joint
            The same as for :meth:`act`.
        k
            Number of positions. None: one per candidate.
        """
        return self.core.rank(self._question(context, items, exploit, joint), k)

    def propensities(self, context: ArrayLike, items: Items, *, exploit: bool = False) -> Array:
        """Return the probability that the next decision chooses each item, without drawing or changing anything."""
        return self.core.propensities(self._question(context, items, exploit))

    def means(self, context: ArrayLike, items: Items) -> Array:
        """Return the posterior mean of every item's score, (k,); NaN for an algorithm without a posterior."""
        return self.core.scores(self._question(context, items).rows).mean

    def variances(self, context: ArrayLike, items: Items) -> Array:
        """Return the posterior variance of every item's score, (k,); infinite if undefined."""
        return self.core.scores(self._question(context, items).rows).variance

    def decide_logged(self, source: Any, arms: Any, exploit: bool, k: int | None = None) -> list[Decision]:
        """Decide for a context of a log, or rank k items."""
        if source.items is None:
            raise ValueError("this agent chooses among items: give candidates as items=")
        if arms is not None:
            raise ValueError("this agent chooses among items: give the eligible ones as items=, not as arms=")
        question = self._question(source.context, source.items, exploit)
        return self.core.rank(question, 1 if k is None else k)

    def _question(self, context: ArrayLike, items: Items, exploit: bool = False, joint: bool = False) -> Question:
        """Return the question which item to choose: a row of context and item for each."""
        x, width = self._vector(context, self.n_features, "a context", "the context"), self.n_item_features
        if isinstance(items, Mapping):
            if not items:
                raise ValueError("items is empty: there must be at least one to choose from")
            names = arm_names(items)
            vectors = [as_floats(item, f"the item {name!r}") for name, item in items.items()]
            for name, vector in zip(names, vectors, strict=True):
                if vector.shape != (width,):
                    raise ValueError(
                        f"the item {name!r} must be a 1-D array of {width} numbers, got shape {vector.shape}"
                    )
            features = np.array(vectors)
        else:
            features = as_floats(items, "items")
            if features.ndim != 2 or features.shape[1] != width or not len(features):
                raise ValueError(
                    f"items must be an array (k, {width}), one row per item, or vectors by name; got shape "
                    f"{features.shape}"
                )
            names = tuple(range(len(features)))
        if not size_of(features) < LARGEST:
            for name, vector in zip(names, features, strict=True):
                if not size_of(vector) < LARGEST:
                    raise ValueError(why_not(vector, f"the item {name!r}"))
        return Question(names, self.core.rows(beside(x, features)), None, exploit, joint)

    def _vector(self, values: ArrayLike, size: int, what: str, which: str) -> Array:
        """Return a context or an item as an array; raise a ValueError if it is none."""
        x = as_floats(values, what)
        if x.shape != (size,):
            raise ValueError(f"{what} must be a 1-D array of {size} numbers, got shape {x.shape}")
        if not size_of(x) < LARGEST:  # false for NaN, too
            raise ValueError(why_not(x, which))
        return x

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return self.algorithm.crossing.context  # type: ignore[union-attr]

    @property
    def n_item_features(self) -> int:
        """Number of features of an item."""
        return self.algorithm.crossing.item  # type: ignore[union-attr]

    def __repr__(self) -> str:
        return f"Snapshot({self.name}, n_arms=1, rounds={self.rounds})"


class ItemAgent(LearningShell, ItemDecider):
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

    def __init__(self, agent: Agent | Algorithm) -> None:
        self.core = Agent(agent).core if isinstance(agent, Algorithm) else agent.core
        if self.algorithm.crossing is None:
            raise ValueError(f"{agent!r} was made for arms, not for items: give n_item_features instead of n_arms")

    def update(
        self, context: ArrayLike, item: ArrayLike, reward: ArrayLike, decided: int | None = None, *, batch: Size = 1
    ) -> None:
        """Learn the reward of an item in a context, or many rewards: all of them or, if one fails, none.

        Parameters
        ----------
        context
            The context of the decision; for many rewards, one per row.
        item
            Features of the item, (n_item_features,); for many rewards, one per row.
        reward
            Its reward; for many rewards, an array.
        decided, batch
            The same as for :meth:`lim2.Agent.update`. Without ``decided``, a decision counts as made now.
        """
        if type(reward) is not float and np.ndim(reward) and np.ndim(context) != 1:
            if decided is not None:
                raise ValueError("decided is for one reward: leave it out for many")
            n = np.size(reward)
            self.learn_history(History([0] * n, reward, context, item), batch)
            return
        number = None if decided is None else positive_int("decided", decided)
        y = self._vector(item, self.n_item_features, "an item", "an item")
        x = self._vector(context, self.n_features, "a context", "the context")
        self.core.learn(Lesson(self.core.row(np.concatenate((x, y))), 0, checked_reward(reward), number))

    def lessons(self, history: History, size: Size, progress: Progress | None = None) -> Iterator[Lesson]:
        """Yield the lessons of a history in batches, each once those before are learned."""
        xs = history.column(
            "contexts", "has only a raw context, and this agent learns from vectors: train a lim2.Bandit"
        )
        ys = history.column("items", "has no items as vectors, from which this agent learns: store them with items=")
        xs, ys = as_floats(xs, "contexts"), as_floats(ys, "items")
        for name, rows, width in (("contexts", xs, self.n_features), ("items", ys, self.n_item_features)):
            if rows.ndim != 2 or rows.shape[1] != width or len(rows) != len(xs):
                raise ValueError(f"{name} must be an array (n, {width}), one row per reward, got shape {rows.shape}")
        rows, n = self.core.rows(np.hstack((xs, ys))), len(xs)
        whole = Lesson(rows, np.zeros(n, dtype=np.intp), checked_rewards(history.rewards, n), history.decided)
        yield from parts(whole, size, self.rounds, progress)

    def snapshot(self) -> ItemDecider:
        """Return a read-only view of the current agent, which other threads can decide with while this one learns."""
        return ItemDecider.around(self.core.snapshot())

    def clone(self) -> "ItemAgent":
        """Return a new, untrained agent with the same settings."""
        return ItemAgent(self.algorithm)

    @property
    def agent(self) -> Agent:
        """The agent inside, with one arm: its contexts are a context and an item side by side."""
        return Agent.around(self.core)


def beside(x: Array, items: NDArray[Any]) -> Array:
    """Return rows of a context and each item, (k, n_features + n_item_features)."""
    rows = np.empty((len(items), len(x) + items.shape[1]))
    rows[:, : len(x)], rows[:, len(x) :] = x, items
    return rows


def agent_around(core: Learner) -> Agent | ItemAgent:
    """Return the agent around a learner: of arms or, with one arm for all of them, of items."""
    return Agent.around(core) if core.algorithm.crossing is None else ItemAgent.around(core)
