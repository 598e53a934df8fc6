"""Decisions among items: candidates that come with every call, described by features, and share one belief.

One belief about [context, item] stands behind all of them, so an item that was never seen before has a score, too.
Inside is an agent with one arm (``agent.py``) whose contexts are a context and an item side by side.
"""

import os
from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import warm_start as tables
from lim2._blas import one_thread
from lim2.agent import Agent
from lim2.algorithms.base import Algorithm
from lim2.arms import arm_names
from lim2.batches import Progress, Size
from lim2.checks import LARGEST, as_floats, size_of, why_not
from lim2.deciding import Decider, check_positions, no_propensities, order_of
from lim2.decision import Decision
from lim2.exploration import StudentT, Thompson
from lim2.exploration.propensity import one_hot
from lim2.info import Info
from lim2.snapshot import Snapshot
from lim2.state import Array, Write

Items = ArrayLike | Mapping[Any, ArrayLike]  # rows, called 0, 1, 2, ..., or vectors by name


class ItemDecider:
    """Chooses among items by one belief that they share; learns nothing.

    Parameters
    ----------
    decider
        An agent with one arm, or a snapshot of one.
    """

    def __init__(self, decider: Decider) -> None:
        crossing = decider.algorithm.crossing
        if crossing is None:
            raise ValueError(f"{decider!r} was made for arms, not for items: give n_item_features instead of n_arms")
        self._inner, self._sizes = decider, (crossing.context, crossing.item)

    def act(self, context: ArrayLike, items: Items, *, exploit: bool = False, joint: bool = False) -> Any:
        """Choose an item for a context, and return its name, or its row if it has none.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        items
            The candidates: an array (k, n_item_features), or vectors of n_item_features by name.
        exploit
            Choose the item with the largest mean: no exploration, no ``min_propensity``, nothing drawn.
        joint
            Draw the scores of all candidates together, with their correlations, instead of one by one. Candidates that
            are alike then stand or fall together. Such a decision has no propensities.
        """
        names, rows = self._candidates(context, items)
        return names[self._first(self.score_rows(rows), rows, exploit, joint)]

    def decide(self, context: ArrayLike, items: Items, *, exploit: bool = False, joint: bool = False) -> Decision:
        """Choose an item as :meth:`act` does, and return what a decision log needs: see :class:`lim2.Decision`.

        With ``joint=True`` its propensities are NaN.
        """
        return self.decide_rows(*self._candidates(context, items), exploit=exploit, joint=joint)

    def rank(
        self, context: ArrayLike, items: Items, k: int | None = None, *, exploit: bool = False, joint: bool = False
    ) -> list[Decision]:
        """Order items by one draw of the score of each, the best first; return a decision per position.

        Every one has the same candidates. Its propensity is the probability with which its item is first.

        Parameters
        ----------
        context, items, exploit, joint
            As for :meth:`act`.
        k
            How many are returned. None: all.
        """
        return self.rank_rows(*self._candidates(context, items), k, exploit=exploit, joint=joint)

    def propensities(self, context: ArrayLike, items: Items, *, exploit: bool = False) -> Array:
        """Return the probability with which the next decision chooses each item; nothing is drawn or changed."""
        return self.chances_of_rows(self._candidates(context, items)[1], exploit=exploit)

    def means(self, context: ArrayLike, items: Items) -> Array:
        """Return the expected score of every item, (k,); NaN for an algorithm without beliefs."""
        return self.score_rows(self._candidates(context, items)[1]).mean

    def variances(self, context: ArrayLike, items: Items) -> Array:
        """Return the variance of every item's score, (k,); infinite where it has none."""
        return self.score_rows(self._candidates(context, items)[1]).variance

    # The same for rows of context and item that are known to be right

    def joined(self, context: Array, items: Array) -> Array:
        """Return rows of context and item, (k, n_features + n_item_features)."""
        rows = np.empty((len(items), sum(self._sizes)))
        rows[:, : len(context)], rows[:, len(context) :] = context, items
        return rows

    def score_rows(self, rows: Array) -> StudentT:
        """Return the score of every row."""
        with one_thread:
            mean, scale, freedom = self._inner.algorithm.score(self._inner._core.state, rows)
        return StudentT(mean[:, 0], scale[:, 0], np.full(len(rows), freedom[0]))

    def chances_of_rows(self, rows: Array, *, exploit: bool) -> Array:
        """Return the propensity of every row."""
        return self._propensities(self.score_rows(rows), exploit, joint=False)

    def decide_rows(self, names: tuple[Hashable, ...], rows: Array, *, exploit: bool, joint: bool) -> Decision:
        """Choose one of the rows."""
        score = self.score_rows(rows)
        chances = self._propensities(score, exploit, joint)
        return _decisions([self._first(score, rows, exploit, joint)], names, score, chances, exploit)[0]

    def rank_rows(
        self, names: tuple[Hashable, ...], rows: Array, k: int | None, *, exploit: bool, joint: bool
    ) -> list[Decision]:
        """Order the rows."""
        score, count = self.score_rows(rows), check_positions(k, len(names))
        chances = self._propensities(score, exploit, joint)
        first = None if exploit else self._floor(len(names))
        drawn = self._drawn(score, rows, exploit, joint)
        return _decisions(order_of(drawn, first, count), names, score, chances, exploit)

    def _first(self, score: StudentT, rows: Array, exploit: bool, joint: bool) -> int:
        """Return the place of the item that is chosen."""
        chosen = None if exploit else self._floor(len(rows))
        return int(self._drawn(score, rows, exploit, joint).argmax()) if chosen is None else chosen

    def _drawn(self, score: StudentT, rows: Array, exploit: bool, joint: bool) -> Array:
        """Return one score per item: the mean, or drawn one by one, or all together."""
        if exploit:
            return score.mean
        algorithm, rng = self._inner.algorithm, self._inner._rng()
        with one_thread:
            if not joint:
                return algorithm.policy.scores(score, rng)
            if not isinstance(algorithm.policy, Thompson):
                raise ValueError(f"joint draws are of Thompson sampling, not of {algorithm.policy!r}: leave out joint")
            return algorithm.policy.joint_scores(score, algorithm.joint_covariance(self._inner._core.state, rows), rng)

    def _floor(self, k: int) -> int | None:
        """Choose an item for the sake of ``min_propensity``; None when scores should decide."""
        share = self._inner.algorithm.min_propensity
        if not share:
            return None
        place = int(self._inner._rng().random() * k / share)  # one draw says whether, and which
        return place if place < k else None

    def _propensities(self, score: StudentT, exploit: bool, joint: bool) -> Array:
        if joint:
            return np.full(len(score.mean), np.nan)
        if exploit:
            return one_hot(score.mean)
        share, policy = float(self._inner.algorithm.min_propensity), self._inner.algorithm.policy
        given = getattr(policy, "propensities", None)  # a check of the protocol takes longer than the rest
        if given is None:
            raise NotImplementedError(no_propensities(policy))
        with one_thread:
            chances: Array = given(score)
        return chances if not share else share / len(chances) + (1.0 - share) * chances

    # Checks of input

    def _context(self, context: ArrayLike) -> Array:
        x = as_floats(context, "a context")
        if x.shape != (self._sizes[0],):
            raise ValueError(f"a context must be a 1-D array of {self._sizes[0]} numbers, got shape {x.shape}")
        if not size_of(x) < LARGEST:  # false for NaN, too
            raise ValueError(why_not(x, "the context"))
        return x

    def _candidates(self, context: ArrayLike, items: Items) -> tuple[tuple[Hashable, ...], Array]:
        """Return the names of the items, and rows of context and item."""
        x = self._context(context)
        if isinstance(items, Mapping):
            if not items:
                raise ValueError("items is empty: there must be at least one to choose from")
            names = arm_names(items)
            vectors = [as_floats(item, f"the item {name!r}") for name, item in items.items()]
            for name, vector in zip(names, vectors, strict=True):
                if vector.shape != (self._sizes[1],):
                    raise ValueError(
                        f"the item {name!r} must be a 1-D array of {self._sizes[1]} numbers, got shape {vector.shape}"
                    )
            features = np.array(vectors)
        else:
            features = as_floats(items, "items")
            if features.ndim != 2 or features.shape[1] != self._sizes[1] or not len(features):
                raise ValueError(
                    f"items must be an array (k, {self._sizes[1]}), one row per item, or vectors by name; got shape "
                    f"{features.shape}"
                )
            names = tuple(range(len(features)))
        if not size_of(features) < LARGEST:
            for name, vector in zip(names, features, strict=True):
                if not size_of(vector) < LARGEST:
                    raise ValueError(why_not(vector, f"the item {name!r}"))
        return names, self._inner._contexts(self.joined(x, features))

    # What it says of itself

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm and its settings."""
        return self._inner.algorithm

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        return self._inner.name

    @property
    def n_features(self) -> int:
        """How many numbers a context has."""
        return self._sizes[0]

    @property
    def n_item_features(self) -> int:
        """How many numbers an item has."""
        return self._sizes[1]

    @property
    def rounds(self) -> int:
        """How many updates there were."""
        return self._inner.rounds

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of JSON values that belongs to the user, and is saved with the agent."""
        return self._inner.metadata  # type: ignore[attr-defined, no-any-return]

    def __repr__(self) -> str:
        return repr(self._inner)


class ItemAgent(ItemDecider):
    """A contextual bandit agent whose arms are items with features: ``act``, get a reward, ``update``.

    ``lim2.AdaptiveTS(n_features=24, n_item_features=20)`` and its like make one. Items are called by the caller, need
    not have been seen before, and may be others in every call. An item's identity may be among its features, one-hot or
    hashed: then each has a part of its own beside what all share. ``min_propensity`` is the share of decisions that
    are uniform: each of the k candidates of a call is chosen with at least ``min_propensity / k``.

    Parameters
    ----------
    agent
        The agent inside, with one arm; or an algorithm to make it of.

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

    def update(self, context: ArrayLike, item: ArrayLike, reward: float) -> None:
        """Learn from the reward that an item earned in a context.

        Parameters
        ----------
        context
            As it was when the item was chosen.
        item
            The features of the item, (n_item_features,).
        reward
            What it earned.
        """
        self.refuse_beside_log()
        self.learn_row(self._row(context, item), reward)

    def learn_logged(self, context: ArrayLike, item: ArrayLike, reward: float, also: Iterable[Write]) -> None:
        """Learn from a reward of a log, as :meth:`update` does; ``also``, its position, is written with it."""
        self.learn_row(self._row(context, item), reward, also)

    def learn_logged_many(
        self, contexts: ArrayLike, items: ArrayLike, rewards: ArrayLike, also: Iterable[Write]
    ) -> None:
        """Learn from rewards of a log as one batch; ``also``, the position of the last, is written with it."""
        rows = self._rows(contexts, items)
        self._inner.learn_logged_many(rows, [0] * len(rows), rewards, also)

    def refuse_beside_log(self) -> None:
        """Raise a ValueError if the agent learns from a log, which would give it the same reward again."""
        self._inner.refuse_beside_log()

    def learn_row(self, row: NDArray[Any], reward: float, also: Iterable[Write] = ()) -> None:
        """Learn from a row that is known to be right; ``also`` is written together with the new state."""
        self._inner.learn_row(row, 0, reward, also)

    def all_or_nothing(self, also: Iterable[Write] = ()) -> AbstractContextManager[None]:
        """Learn several rewards; if anything fails meanwhile, none of them is learned, and ``also`` is written."""
        return self._inner.all_or_nothing(also)

    def update_many(self, contexts: ArrayLike, items: ArrayLike, rewards: ArrayLike, batch: Size = 1) -> None:
        """Learn from many rewards: from all of them or, if one fails, from none.

        Parameters
        ----------
        contexts, items, rewards
            (n, n_features), (n, n_item_features) and (n,).
        batch
            How many rewards are learned by one update, as for :meth:`lim2.Agent.update_many`.
        """
        rows = self._rows(contexts, items)
        self._inner.update_many(rows, [0] * len(rows), rewards, batch)

    def warm_start(self, table: Any, batch: Size = "auto", progress: Progress | None = None) -> int:
        """Learn a table of logged rewards that has items as vectors, as :meth:`lim2.Agent.warm_start` does.

        Parameters
        ----------
        table, batch, progress
            As there.

        Returns
        -------
        int
            How many rewards were learned.
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
        """Return the agent as it is now, to decide by in other threads while this one learns."""
        snapshot: Snapshot = self._inner.snapshot()
        return ItemDecider(snapshot)

    def copy(self) -> Self:
        """Return an agent that is the same, streams included, and goes on by itself."""
        return type(self)(self._inner.copy())

    def clone(self) -> "ItemAgent":
        """Return a fresh agent with the same settings."""
        return ItemAgent(self._inner.clone())

    def reseed(self, seed: int | None = None) -> None:
        """Decide from new random streams, as :meth:`lim2.Agent.reseed` does."""
        self._inner.reseed(seed)

    def get_params(self) -> dict[str, Any]:
        """Return every setting as it was given, by the name of its argument."""
        return self._inner.get_params()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file, as :meth:`lim2.Agent.save` does; :func:`lim2.load` makes it again."""
        self._inner.save(path)

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` would write; :func:`lim2.from_bytes` makes an agent of it."""
        return self._inner.to_bytes()

    # What it says of itself

    @property
    def agent(self) -> Agent:
        """The agent inside, with one arm: its contexts are a context and an item side by side."""
        return self._inner

    @property
    def batches(self) -> bool:
        """Whether several rewards can be learned by one update."""
        return self._inner.batches

    @property
    def state(self) -> Any:
        """The state of the algorithm, a value: what happens to the agent afterwards does not change it."""
        return self._inner.state

    @property
    def info(self) -> Info | None:
        """What the latest update did; None before the first, and in a copy."""
        return self._inner.info

    @property
    def nbytes(self) -> int:
        """Bytes that the agent's state occupies."""
        return self._inner.nbytes


def _decisions(
    places: list[int], names: tuple[Hashable, ...], score: StudentT, chances: Array, exploit: bool
) -> list[Decision]:
    """Return decisions for some of the candidates."""
    stds = np.sqrt(score.variance)
    return [Decision(names[at], float(chances[at]), names, score.mean, stds, chances, bool(exploit)) for at in places]
