"""Logged decisions with their rewards, as arrays: what off-policy evaluation reads, from a log or from elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import is_range
from lim2.log import deciders
from lim2.log.arrays import as_raw, column, read_candidates, read_contexts, read_raw
from lim2.log.candidates import Array, Candidates, Ints
from lim2.log.frames import Frame, read_decisions, read_items


@dataclass(frozen=True, eq=False)
class Table:
    """Decisions and rewards, a row each, in the order in which they were made.

    There are n rows and K arms; a row's candidates are some of the arms. Make one by `Table.of` from arrays, by
    `Table.from_frame` from a frame or file with named columns, or by `DecisionLog.table`.

    Parameters
    ----------
    contexts
        (n, ...) vectors; or (n,) raw contexts, if there are no vectors.
    arms
        The names of all that was ever eligible.
    chosen
        (n,) the arm played, as an index of `arms`.
    propensity
        (n,) with which it was played.
    rewards
        (n,)
    candidates
        What could have been played in each row, with what is known of each: see `Candidates`.
    raw
        (n,) raw contexts, if they were kept.
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
    chosen: Ints
    propensity: Array
    rewards: Array
    candidates: Candidates
    raw: NDArray[Any] | None = None
    missing: int = 0

    def __post_init__(self) -> None:
        n = len(self.rewards)
        for name in ("contexts", "chosen", "propensity", "candidates", "raw"):
            part = getattr(self, name)
            if part is not None and len(part) != n:
                raise ValueError(f"{name} must have {n} rows, one per reward, got {len(part)}")
        if len(self.played) != n:
            known = np.zeros(n, dtype=bool)
            known[self.candidates.rows[self.played]] = True
            row = int(np.flatnonzero(~known)[0]) if not known.all() else "some"
            raise ValueError(f"what was played must be among the row's candidates, once: it is not in row {row}")

    @classmethod
    def of(
        cls,
        contexts: Any,
        played: Sequence[Hashable],
        rewards: ArrayLike,
        propensity: ArrayLike,
        *,
        arms: Sequence[Hashable] | None = None,
        eligible: Any = None,
        propensities: Any = None,
        means: Any = None,
        items: Any = None,
        raw: Sequence[Any] | None = None,
    ) -> Table:
        """Return a table of data from elsewhere.

        Parameters
        ----------
        contexts
            (n, n_features) vectors; or n dictionaries: raw contexts.
        played
            The arm of each row.
        rewards, propensity
            (n,)
        arms
            All arms; None: those that were played or eligible, in the order in which they first appear.
        eligible
            What could be played: (n, K) booleans, or n sequences of names. None: what `items` of the row has, or what
            has a propensity above 0, or every arm.
        propensities
            (n, K); or, where the candidates are given by name, n sequences in their order. None: unknown.
        means
            Some predictions of the rewards that did not use them, in the same form.
        items
            Features: name -> vector or dictionary, for all rows; or one such per row; or an array (k, e) per row, and
            then the row's arms are called 0 to k - 1.
        raw
            n raw contexts, beside vectors.

        Examples
        --------
        >>> shop = {"sku1": {"price": 9.9}, "sku2": {"price": 19.0}, "sku3": {"price": 5.0}}
        >>> users = [{"country": "AT"}, {"country": None}]
        >>> table = Table.of(users, ["sku1", "sku3"], [0.0, 1.0], [0.5, 0.5],
        ...                  eligible=[["sku1", "sku2"], ["sku3", "sku2"]], items=shop)
        >>> table.arms_of(1), table.items_of(1)
        (('sku3', 'sku2'), {'sku3': {'price': 5.0}, 'sku2': {'price': 19.0}})
        """
        who = read_candidates(played, arms, eligible, propensities, means, items)
        given, earned = column(propensity, "propensity", len(played)), column(rewards, "rewards", len(played))
        if not ((given > 0) & (given <= 1 + 1e-9)).all():
            row = int(np.flatnonzero(~((given > 0) & (given <= 1 + 1e-9)))[0])
            raise ValueError(
                f"the propensity of what was played must be above 0 and at most 1, got {given[row]} in row {row}"
            )
        return cls(
            contexts=read_contexts(contexts, len(played)),
            arms=who.arms,
            chosen=who.chosen,
            propensity=given,
            rewards=earned,
            candidates=who.candidates,
            raw=read_raw(contexts) if raw is None else as_raw(raw),
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str,
        reward: str,
        propensity: str,
        context: str | Sequence[str],
        raw: bool = False,
        arms: Sequence[Hashable] | None = None,
        eligible: str | None = None,
        propensities: str | Mapping[Any, str] | None = None,
        items: Any = None,
        item: str | None = None,
        item_features: str | Sequence[str] | None = None,
    ) -> Table:
        """Return a table of another system's log: a row per decision, with named columns.

        Parameters
        ----------
        frame
            A frame of polars or pandas, or the path of a CSV or Parquet file.
        arm, reward, propensity
            The columns of what was played, what it earned, and the probability with which it was played.
        context
            The columns of the context; or, as a string, what their names begin with.
        raw
            Whether contexts, and items, are dictionaries of their columns, for a `lim2.Bandit`; strings and missing
            values are welcome then. Otherwise they are vectors of numbers.
        arms
            All arms; None: those that were played or eligible.
        eligible
            A column with the list of arms that could be played (as JSON in a text column). None: every arm in every
            row; with `propensities` by arm, those above 0.
        propensities
            Of all candidates: a column with lists, in the order of `eligible`; or arm -> column.
        items
            Features of the arms: a frame or path with a row per arm.
        item
            The column of `items` that names the arm.
        item_features
            The other columns of `items` to use, as for `context`. None: all.

        Examples
        --------
        >>> import polars as pl
        >>> clicks = pl.DataFrame({"x_age": [31, 50], "x_basket": [3, 0], "banner": ["spring", "shoes"],
        ...                        "click": [1, 0], "p": [0.5, 0.25]})
        >>> table = Table.from_frame(clicks, context="x_", arm="banner", reward="click", propensity="p")
        >>> table.contexts.tolist(), table.arms
        ([[31.0, 3.0], [50.0, 0.0]], ('spring', 'shoes'))
        """
        table = Frame.of(frame)
        known = None if items is None else read_items(Frame.of(items), item, item_features, raw)
        columns = read_decisions(table, context, arm, eligible, propensities, raw)
        return cls.of(
            **columns, rewards=table.numbers(reward), propensity=table.numbers(propensity), arms=arms, items=known
        )

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, rows: NDArray[Any] | slice) -> Table:
        """Return some of the rows: a mask, indices, or a slice."""
        index = np.arange(len(self))[rows]
        return Table(
            self.contexts[index],
            self.arms,
            self.chosen[index],
            self.propensity[index],
            self.rewards[index],
            self.candidates.take(index),
            None if self.raw is None else self.raw[index],
            self.missing,
        )

    def replay(self, agent: Any) -> int:
        """Let an agent learn every row in order; return how many.

        Parameters
        ----------
        agent
            An agent with these arms, an item agent, or a bandit if contexts are raw.
        """
        vectors, raw, played = None if self.is_raw else self.contexts, self.raw, self.played
        items, raw_items = self.candidates.items, self.candidates.raw_items
        vector_items = None if items is None or items.dtype == object else items
        numbered = items is not None and is_range(self.arms)
        for row, arm in enumerate(self.chosen):
            deciders.teach(
                agent,
                deciders.Lesson(
                    of=f"row {row}",
                    arm=self.arms[arm],
                    reward=float(self.rewards[row]),
                    vector=None if vectors is None else vectors[row],
                    item=None if vector_items is None else vector_items[played[row]],
                    raw=None if raw is None else raw[row],
                    raw_item=None if raw_items is None else raw_items[played[row]],
                    numbered=numbered,
                ),
            )
        return len(self)

    # One row

    def arms_of(self, row: int) -> tuple[Hashable, ...]:
        """Return the names of a row's candidates.

        Parameters
        ----------
        row
            Its number.
        """
        first, last = self.candidates.starts[row : row + 2]
        return tuple(self.arms[arm] for arm in self.candidates.arms[first:last])

    def items_of(self, row: int, raw: bool = False) -> dict[Hashable, Any] | None:
        """Return the features of a row's candidates, by name; None if they have none.

        Parameters
        ----------
        row
            Its number.
        raw
            Whether the raw ones are wanted, where vectors are there as well.
        """
        features = self.candidates.raw_items if raw else self.candidates.items
        if features is None:
            return None
        first, last = self.candidates.starts[row : row + 2]
        return dict(zip(self.arms_of(row), features[first:last], strict=True))

    # All rows

    @property
    def is_raw(self) -> bool:
        """Whether contexts are raw only, without vectors."""
        return self.contexts.dtype == object

    @property
    def played(self) -> Ints:
        """(n,) what was played, as an index of the candidates of all rows."""
        return np.flatnonzero(self.candidates.arms == np.repeat(self.chosen, self.candidates.sizes))

    # Dense forms, for arms that are few

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """(n, K) which arms could have been played."""
        return self.candidates.dense(np.ones(len(self.candidates.arms), dtype=bool), len(self.arms), False)

    @property
    def propensities(self) -> Array | None:
        """(n, K) of all arms, 0 where not eligible; None if they are unknown."""
        flat = self.candidates.propensities
        return None if flat is None else self.candidates.dense(flat, len(self.arms), 0.0)

    @property
    def means(self) -> Array | None:
        """(n, K) what the deciding agent expected, NaN where not eligible; None if it had no expectations."""
        flat = self.candidates.means
        return None if flat is None else self.candidates.dense(flat, len(self.arms), np.nan)
