"""A bandit problem with items: contexts, and the candidates of each round with their features and rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.problems.problem import Array, Form, Raw, Rounds, check_delays, check_form


@dataclass(frozen=True, eq=False)
class ItemProblem(Rounds):
    """Contextual bandit problem whose arms are items with features, with new candidates in every round.

    The number of candidates may differ between rounds. All candidates are rows of one array; those of round t are the
    rows from `offsets[t]` to `offsets[t + 1]`. The arrays are read-only.

    Parameters
    ----------
    candidates
        Features of the candidates of all rounds, (total, n_item_features).
    offsets
        Start and end of each round's candidates, (rounds + 1,), ascending from 0 to `total`.
    rewards
        Reward of each candidate, (total,).
    expected_rewards
        Expected reward of each candidate given context and item, (total,). Default: the rewards, which is right for a
        problem without noise.
    seed
        Seed of the draw. Loading with this seed gives the same arrays.
    item_names
        Name of each candidate, (total,), the same in every round in which the item is eligible. Empty if unknown.
    feature_names
        Names of the columns of the contexts, if known.
    item_feature_names
        Names of the columns of the items, if known.
    raw_contexts
        Contexts as dictionaries, one per round. Empty if there are none.
    raw_items
        Candidates as dictionaries, (total,). Empty if there are none.
    form
        Form in which agents get contexts and items: `"vectors"`, or `"dictionaries"`, which `lim2.Bandit` encodes.
    delays
        Delay of each candidate's reward, (total,): the number of further decisions after which it is known. None:
        every reward is known before the next decision.
    changes
        Rounds, counted from 0, from which on the expected rewards follow another rule.
    usual_rewards
        Range of usual rewards, for methods that need one. None: unknown.
    notes
        Remarks for readers of results, such as dropped rows, imputed values or an incomplete source.

    Examples
    --------
    >>> import numpy as np
    >>> from lim2.problems import ItemProblem
    >>> problem = ItemProblem(
    ...     "two rounds",
    ...     contexts=np.zeros((2, 1)),
    ...     candidates=np.array([[1.0], [2.0], [1.0], [3.0], [5.0]]),
    ...     offsets=np.array([0, 2, 5]),
    ...     rewards=np.array([0.0, 1.0, 0.0, 0.5, 1.0]),
    ... )
    >>> problem
    ItemProblem('two rounds', rounds=2, n_features=1, n_item_features=1, candidates=2 to 3, seed=None)
    >>> problem.items(0).tolist(), problem.best_items, problem.uniform_reward
    ([[1.0], [2.0]], array([1, 2]), 0.5)
    >>> [rewards.tolist() for context, items, rewards in problem]
    [[0.0, 1.0], [0.0, 0.5, 1.0]]
    """

    arrays = (
        "contexts", "candidates", "offsets", "rewards", "expected_rewards", "delays", "best_items", "best_rewards",
    )  # fmt: skip

    name: str
    contexts: Array
    candidates: Array
    offsets: NDArray[np.int64]
    rewards: Array
    expected_rewards: Array = None  # type: ignore[assignment]  # filled in by __post_init__
    seed: int | None = None
    item_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    item_feature_names: tuple[str, ...] = ()
    raw_contexts: tuple[Raw, ...] = ()
    raw_items: tuple[Raw, ...] = ()
    form: Form = "vectors"
    delays: NDArray[np.int64] | None = None
    changes: tuple[int, ...] = ()
    usual_rewards: tuple[float, float] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    best_items: NDArray[np.int64] = field(init=False)
    best_rewards: Array = field(init=False)

    def __post_init__(self) -> None:
        if self.expected_rewards is None:
            object.__setattr__(self, "expected_rewards", self.rewards)
        object.__setattr__(self, "offsets", np.asarray(self.offsets, dtype=np.int64))
        self._check()
        self._check_names()
        best = np.maximum.reduceat(self.expected_rewards, self.offsets[:-1])
        is_best = self.expected_rewards == np.repeat(best, self.n_candidates)
        first = np.minimum.reduceat(np.where(is_best, self._places(), np.iinfo(np.int64).max), self.offsets[:-1])
        object.__setattr__(self, "best_items", first)
        object.__setattr__(self, "best_rewards", best)
        self._freeze()

    def _places(self) -> NDArray[np.int64]:
        """Return the index of each candidate within its round."""
        return np.arange(len(self.candidates)) - np.repeat(self.offsets[:-1], self.n_candidates)

    def _check(self) -> None:
        where = f"problem {self.name!r}"
        if self.contexts.ndim != 2 or self.candidates.ndim != 2:
            raise ValueError(
                f"{where}: contexts and candidates must have two dimensions, (rounds, n_features) and (total, "
                f"n_item_features), got shapes {self.contexts.shape} and {self.candidates.shape}"
            )
        total = len(self.candidates)
        if len(self.contexts) < 1 or self.contexts.shape[1] < 1 or self.candidates.shape[1] < 1:
            raise ValueError(f"{where} is empty: it needs at least one round, one feature and one feature of items")
        if self.offsets.shape != (len(self.contexts) + 1,):
            raise ValueError(
                f"{where}: {len(self.contexts)} contexts but offsets of shape {self.offsets.shape}; give one start "
                "for every round, and the end of the last"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != total or (np.diff(self.offsets) < 1).any():
            raise ValueError(
                f"{where}: offsets must rise from 0 to {total}, the number of candidates, by at least 1 per round"
            )
        for name in ("rewards", "expected_rewards"):
            shape = getattr(self, name).shape
            if shape != (total,):
                raise ValueError(f"{where}: {name} has shape {shape}, but there are {total} candidates; give one each")
        check_form(self.name, self.form, has_raw=bool(self.raw_contexts and self.raw_items))
        check_delays(self.name, self.delays, (total,))

    def _check_names(self) -> None:
        total = len(self.candidates)
        for name, length in (("item_names", total), ("raw_items", total), ("raw_contexts", self.rounds)):
            count = len(getattr(self, name))
            if count not in (0, length):
                raise ValueError(f"problem {self.name!r}: {count} {name}, but {length} are needed, or none")
        if not self.item_names:
            return
        for t, (start, stop) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            if len(set(self.item_names[start:stop])) != stop - start:
                raise ValueError(f"problem {self.name!r}: two candidates of round {t} have the same name")

    @property
    def n_item_features(self) -> int:
        """Number of features of an item."""
        return int(self.candidates.shape[1])

    @property
    def n_candidates(self) -> NDArray[np.int64]:
        """Number of candidates of each round, (rounds,)."""
        return np.diff(self.offsets)

    @property
    def uniform_reward(self) -> float:
        """Mean reward per round of the uniformly random policy."""
        return float((np.add.reduceat(self.expected_rewards, self.offsets[:-1]) / self.n_candidates).mean())

    def __iter__(self) -> Iterator[tuple[Array, Array, Array]]:
        for t in range(self.rounds):
            rows = self.rows(t)
            yield self.contexts[t], self.candidates[rows], self.rewards[rows]

    def __repr__(self) -> str:
        fewest, most = int(self.n_candidates.min()), int(self.n_candidates.max())
        many = f"{most}" if fewest == most else f"{fewest} to {most}"
        return (
            f"ItemProblem({self.name!r}, rounds={self.rounds}, n_features={self.n_features}, "
            f"n_item_features={self.n_item_features}, candidates={many}, seed={self.seed})"
        )

    def rows(self, t: int) -> slice:
        """Return the rows of `candidates`, `rewards` and `expected_rewards` that belong to a round."""
        if not 0 <= t < self.rounds:
            raise IndexError(f"problem {self.name!r} has the rounds 0 to {self.rounds - 1}, got {t}")
        return slice(int(self.offsets[t]), int(self.offsets[t + 1]))

    def items(self, t: int) -> Array:
        """Return a round's candidates, (k, n_item_features)."""
        return self.candidates[self.rows(t)]

    def names(self, t: int) -> tuple[str, ...]:
        """Return the names of a round's candidates; their numbers if the names are unknown."""
        rows = self.rows(t)
        return self.item_names[rows] if self.item_names else tuple(str(i) for i in range(rows.stop - rows.start))

    def raw(self, t: int) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return a round as dictionaries: the context, and the items by name."""
        if not self.raw_contexts or not self.raw_items:
            raise ValueError(f"problem {self.name!r} has vectors only, no dictionaries: use contexts and items(t)")
        items = self.raw_items[self.rows(t)]
        return dict(self.raw_contexts[t]), {name: dict(item) for name, item in zip(self.names(t), items, strict=True)}

    def earned(self, chosen: NDArray[np.int64], start: int = 0) -> Array:
        """Return the rewards of the candidates chosen in successive rounds, by their index within the round."""
        rewards: Array = self.rewards[self._taken(chosen, start)]
        return rewards

    def expected(self, chosen: NDArray[np.int64]) -> Array:
        """Return the expected rewards of the candidates chosen in the first rounds."""
        rewards: Array = self.expected_rewards[self._taken(chosen, 0)]
        return rewards

    def _taken(self, chosen: NDArray[np.int64], start: int) -> NDArray[np.int64]:
        first, end = self.offsets[start : start + len(chosen)], self.offsets[start + 1 : start + len(chosen) + 1]
        if ((chosen < 0) | (first + chosen >= end)).any():
            raise IndexError(f"problem {self.name!r}: chosen has an index beyond the candidates of its round")
        return first + chosen

    def head(self, rounds: int) -> ItemProblem:
        """Return the problem with only its first rounds, at least 1."""
        self._check_head(rounds)
        total = int(self.offsets[rounds])
        return replace(
            self,
            contexts=self.contexts[:rounds],
            candidates=self.candidates[:total],
            offsets=self.offsets[: rounds + 1],
            rewards=self.rewards[:total],
            expected_rewards=self.expected_rewards[:total],
            item_names=self.item_names[:total],
            raw_contexts=self.raw_contexts[:rounds],
            raw_items=self.raw_items[:total],
            delays=None if self.delays is None else self.delays[:total],
            changes=tuple(change for change in self.changes if change < rounds),
        )


def from_items(
    contexts: ArrayLike,
    items: Sequence[ArrayLike],
    rewards: Sequence[ArrayLike],
    *,
    expected: Sequence[ArrayLike] | None = None,
    names: Sequence[Sequence[str]] | None = None,
    name: str = "own",
) -> ItemProblem:
    """Return a problem made from contexts, candidates and their rewards.

    Parameters
    ----------
    items
        Features of the candidates of each round, (k, n_item_features); k may differ between rounds.
    rewards
        Rewards of the candidates of each round, (k,).
    expected
        Expected rewards given context and item. Default: the rewards.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.from_items([[0.0], [1.0]], [[[1.0], [2.0]], [[3.0]]], [[0.0, 1.0], [0.5]])
    >>> problem.n_candidates, problem.best_rewards
    (array([2, 1]), array([1. , 0.5]))
    """
    blocks = [np.asarray(block, dtype=np.float64) for block in items]
    if not blocks:
        raise ValueError(f"problem {name!r} is empty: it needs at least one round")
    odd = [t for t, block in enumerate(blocks) if block.ndim != 2 or block.shape[1] != blocks[0].shape[-1]]
    if odd:
        raise ValueError(
            f"items of round {odd[0]} have shape {blocks[odd[0]].shape}; every round needs (k, n_item_features), "
            "with the same n_item_features"
        )
    context_rows = np.asarray(contexts, dtype=np.float64)
    for label, array in (("contexts", context_rows), ("items", np.concatenate(blocks))):
        if not np.isfinite(array).all():
            raise ValueError(f"{label} must be finite numbers: fill in missing values first")
    return ItemProblem(
        name,
        context_rows,
        np.concatenate(blocks),
        np.concatenate([[0], np.cumsum([len(block) for block in blocks])]),
        _flat(rewards, blocks, "rewards"),
        None if expected is None else _flat(expected, blocks, "expected"),  # type: ignore[arg-type]
        item_names=() if names is None else tuple(word for words in names for word in words),
    )


def _flat(values: Sequence[ArrayLike], blocks: Sequence[Array], name: str) -> Array:
    rows = [np.asarray(row, dtype=np.float64) for row in values]
    if len(rows) != len(blocks):
        raise ValueError(f"{name} are given for {len(rows)} rounds, items for {len(blocks)}; give both for every round")
    for t, (row, block) in enumerate(zip(rows, blocks, strict=True)):
        if row.shape != (len(block),) or not np.isfinite(row).all():
            raise ValueError(f"{name} of round {t} must be {len(block)} finite numbers, one per candidate")
    return np.concatenate(rows)
