"""Logged decisions with their rewards, as arrays: what off-policy evaluation reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.log.entries import LoggedDecision

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """Decisions and rewards, a row each, in the order in which they were made; K is the number of all arms.

    Parameters
    ----------
    contexts
        (n, ...)
    arms
        All arms that were ever eligible.
    chosen
        (n,) the arm played, as an index of `arms`.
    propensity
        (n,) with which it was played.
    rewards
        (n,)
    eligible
        (n, K) which arms could have been played.
    propensities
        (n, K) of all arms, 0 where not eligible; None if they are unknown.
    means
        (n, K) what the deciding agent expected, NaN where not eligible; None if it had no expectations.
    missing
        Decisions that are not in the table because they have no reward.

    Examples
    --------
    >>> table = Table.of([[0.0], [1.0], [2.0]], ["a", "b", "a"], [1.0, 0.0, 0.5], [0.5, 0.5, 0.9])
    >>> len(table), table.arms, table[table.propensity < 0.9].rewards
    (3, ('a', 'b'), array([1., 0.]))
    """

    contexts: NDArray[Any]
    arms: tuple[Hashable, ...]
    chosen: NDArray[np.intp]
    propensity: Array
    rewards: Array
    eligible: NDArray[np.bool_]
    propensities: Array | None = None
    means: Array | None = None
    missing: int = 0

    @classmethod
    def of(
        cls,
        contexts: ArrayLike,
        played: Sequence[Hashable],
        rewards: ArrayLike,
        propensity: ArrayLike,
        *,
        arms: Sequence[Hashable] | None = None,
        propensities: ArrayLike | None = None,
        means: ArrayLike | None = None,
    ) -> Table:
        """Return a table of data from elsewhere.

        Parameters
        ----------
        contexts
            (n, n_features)
        played
            The arm of each row.
        rewards, propensity
            (n,)
        arms
            All arms; None: those that were played, in the order of their first play.
        propensities
            (n, K), 0 where an arm was not eligible. None: unknown, and every arm was eligible.
        means
            (n, K), some predictions of the rewards that did not use them.
        """
        names = tuple(dict.fromkeys(played)) if arms is None else tuple(arms)
        index = {name: i for i, name in enumerate(names)}
        unknown = [name for name in dict.fromkeys(played) if name not in index]
        if unknown:
            raise ValueError(f"played arms that are not among arms: {unknown!r}")
        xs, earned, given = np.asarray(contexts), np.asarray(rewards, float), np.asarray(propensity, float)
        n = len(played)
        full = None if propensities is None else np.asarray(propensities, float)
        guessed = None if means is None else np.asarray(means, float)
        for name, array, shape in (
            ("contexts", xs, (n, *xs.shape[1:])),
            ("rewards", earned, (n,)),
            ("propensity", given, (n,)),
            ("propensities", full, (n, len(names))),
            ("means", guessed, (n, len(names))),
        ):
            if array is not None and array.shape != shape:
                raise ValueError(f"{name} must have the shape {shape}, got {array.shape}")
        if not (np.isfinite(earned).all() and (given > 0).all() and (given <= 1 + 1e-9).all()):
            raise ValueError("rewards must be finite, and the propensity of what was played above 0 and at most 1")
        chosen = np.array([index[name] for name in played], dtype=np.intp)
        eligible = np.ones((n, len(names)), dtype=bool) if full is None else full > 0
        eligible[np.arange(n), chosen] = True
        return cls(xs, names, chosen, given, earned, eligible, full, guessed)

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, rows: NDArray[Any] | slice) -> Table:
        """Return some of the rows: a mask, indices, or a slice."""
        return Table(
            self.contexts[rows],
            self.arms,
            self.chosen[rows],
            self.propensity[rows],
            self.rewards[rows],
            self.eligible[rows],
            None if self.propensities is None else self.propensities[rows],
            None if self.means is None else self.means[rows],
            self.missing,
        )


def make_table(entries: Iterable[LoggedDecision], missing: int) -> Table:
    """Return the table of logged decisions that have rewards.

    Parameters
    ----------
    entries
        In the order in which they were made.
    missing
        How many others have none.
    """
    index: dict[Hashable, int] = {}
    contexts, chosen, rewards, propensity, places, chances, means = [], [], [], [], [], [], []
    for row in entries:
        places.append([index.setdefault(arm, len(index)) for arm in row.arms])
        chosen.append(index[row.arm])
        contexts.append(row.context)
        rewards.append(row.reward)
        propensity.append(row.propensity)
        chances.append(row.propensities)
        means.append(row.means)
    shape = (len(rewards), len(index))
    eligible, propensities, expected = np.zeros(shape, dtype=bool), np.zeros(shape), np.full(shape, np.nan)
    for i, columns in enumerate(places):
        eligible[i, columns] = True
        propensities[i, columns] = chances[i]
        expected[i, columns] = means[i]
    return Table(
        contexts=np.array(contexts),
        arms=tuple(index),
        chosen=np.array(chosen, dtype=np.intp),
        propensity=np.array(propensity, dtype=np.float64),
        rewards=np.array(rewards, dtype=np.float64),
        eligible=eligible,
        propensities=None if np.isnan(propensities).any() else propensities,
        means=None if np.isnan(expected[eligible]).any() else expected,
        missing=missing,
    )
