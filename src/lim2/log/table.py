"""Logged decisions and rewards as arrays, the input of off-policy evaluation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import is_range
from lim2.batches import Progress, Size
from lim2.decision import History
from lim2.log import dataframes
from lim2.log.candidates import Array, Candidates, Ints
from lim2.log.errors import LogError


@dataclass(frozen=True, eq=False)
class Table:
    """Table of logged decisions and rewards, one row per decision, in the order of the decisions.

    There are n rows and K arms; a row's candidates are some of the arms. Make a table with `Table.of` from arrays, with
    `Table.from_frame` from a data frame or file, or with `DecisionLog.table`.

    Parameters
    ----------
    contexts
        Vectors (n, ...), or raw contexts (n,) if there are no vectors.
    arms
        Names of all arms that were ever eligible.
    chosen
        Index of the arm played in each row, (n,).
    propensity
        Propensity of the arm played in each row, (n,).
    candidates
        Eligible arms of each row, see `Candidates`.
    raw
        Raw contexts (n,), if they were stored.
    missing
        Number of decisions that were left out because they have no reward.

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
            has_arm = np.zeros(n, dtype=bool)
            has_arm[self.candidates.rows[self.played]] = True
            row = "some" if has_arm.all() else int(has_arm.argmin())
            raise ValueError(f"the arm played must be among the row's candidates exactly once, but is not in row {row}")

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
        """Return a table made from arrays or lists of another system.

        Parameters
        ----------
        contexts
            Vectors (n, n_features), or n dictionaries as raw contexts.
        rewards
            Reward of the arm played in each row, (n,).
        propensity
            Propensity of the arm played in each row, (n,).
        arms
            Names of all arms; None: those that were played or eligible, in order of first appearance.
        eligible
            Eligible arms: booleans (n, K), or n sequences of names. None: the row's `items`, else the arms with a
            propensity above 0, else all arms.
        propensities
            Propensities of all arms (n, K), or n sequences in the order of the candidates. None: unknown.
        means
            Predicted rewards in the same form, made without using the rewards of the table.
        items
            Features: one mapping from name to vector or dictionary for all rows; or one mapping per row; or an
            array (k, e) per row, whose arms are named 0 to k - 1.
        raw
            n raw contexts, in addition to vectors.

        Examples
        --------
        >>> shop = {"sku1": {"price": 9.9}, "sku2": {"price": 19.0}, "sku3": {"price": 5.0}}
        >>> users = [{"country": "AT"}, {"country": None}]
        >>> table = Table.of(users, ["sku1", "sku3"], [0.0, 1.0], [0.5, 0.5],
        ...                  eligible=[["sku1", "sku2"], ["sku3", "sku2"]], items=shop)
        >>> table.arms_of(1), table.items_of(1)
        (('sku3', 'sku2'), {'sku3': {'price': 5.0}, 'sku2': {'price': 19.0}})
        """
        n = len(played)
        choices = dataframes.read_candidates(played, arms, eligible, propensities, means, items)
        shares = dataframes.checked_column(propensity, "propensity", n)
        invalid = ~((shares > 0) & (shares <= 1 + 1e-9))
        if invalid.any():
            row = int(invalid.argmax())
            raise ValueError(
                f"the propensity of the arm played must be above 0 and at most 1, got {shares[row]} in row {row}"
            )
        return cls(
            contexts=dataframes.read_contexts(contexts, n),
            arms=choices.arms,
            chosen=choices.chosen,
            propensity=shares,
            rewards=dataframes.checked_column(rewards, "rewards", n),
            candidates=choices.candidates,
            raw=dataframes.read_raw(contexts) if raw is None else dataframes.as_raw(raw),
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
        """Return a table made from a data frame or file with one row per decision.

        Parameters
        ----------
        frame
            A polars or pandas data frame, or the path of a CSV or Parquet file.
        context
            Columns of the context: a list of names, or a string with which their names begin.
        raw
            Whether contexts and items become dictionaries, for a `lim2.Bandit`. They may then hold strings and missing
            values. Otherwise they are vectors of numbers.
        arms
            Names of all arms; None: those that were played or eligible.
        eligible
            Column with the list of eligible arms (as JSON in a text column). None: all arms in every row; with
            `propensities` by arm, those above 0.
        propensities
            Propensities of all candidates: a column of lists in the order of `eligible`, or a mapping from arm to
            column.
        items
            Features of the arms: a data frame or path with one row per arm.
        item
            Column of `items` with the name of the arm.
        item_features
            Columns of `items` to use as features, in the form of `context`. None: all others.

        Examples
        --------
        >>> import polars as pl
        >>> clicks = pl.DataFrame({"x_age": [31, 50], "x_basket": [3, 0], "banner": ["spring", "shoes"],
        ...                        "click": [1, 0], "p": [0.5, 0.25]})
        >>> table = Table.from_frame(clicks, context="x_", arm="banner", reward="click", propensity="p")
        >>> table.contexts.tolist(), table.arms
        ([[31.0, 3.0], [50.0, 0.0]], ('spring', 'shoes'))
        """
        table = dataframes.read_frame(frame)
        columns = dataframes.read_decisions(table, context, arm, eligible, propensities, raw)
        columns |= {"rewards": dataframes.numbers(table, reward), "propensity": dataframes.numbers(table, propensity)}
        if items is not None:
            columns["items"] = dataframes.read_items(dataframes.read_frame(items), item, item_features, raw)
        return cls.of(**columns, arms=arms)

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, rows: NDArray[Any] | slice) -> Table:
        """Return the rows given by a mask, indices or a slice."""
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

    def replay(self, agent: Any, batch: Size = 1, progress: Progress | None = None) -> int:
        """Let an agent learn all rewards in order or, if one fails, none; return their number.

        Unlike `DecisionLog.replay`, this does not store a position in the agent.

        Parameters
        ----------
        agent
            An agent with these arms, an item agent, or a bandit if contexts are raw.
        batch
            Number of rewards learned in one update, as for `lim2.Agent.update`; ``"auto"`` is much faster than 1.
        progress
            Called after every batch as ``progress(done, total)``.

        Examples
        --------
        >>> import lim2
        >>> table = lim2.log.Table.of([[1.0], [2.0]], ["red", "blue"], rewards=[1.0, 0.0], propensity=[0.5, 0.5])
        >>> agent = lim2.AdaptiveTS(arms=["blue", "red"], n_features=1, seed=0)
        >>> table.replay(agent), agent.rounds
        (2, 2)
        """
        items, raw_items, played = self.candidates.items, self.candidates.raw_items, self.played
        history = History(
            arms=[self.arms[arm] for arm in self.chosen.tolist()],
            rewards=self.rewards,
            contexts=None if self.is_raw else self.contexts,
            items=None if items is None or items.dtype == object else items[played],
            raw=self.raw,
            raw_items=None if raw_items is None else raw_items[played],
            numbered=items is not None and is_range(self.arms),
            error=LogError,
        )
        return int(agent.learn_history(history, batch, progress))

    # One row

    def arms_of(self, row: int) -> tuple[Hashable, ...]:
        """Return the names of a row's candidates."""
        first, last = self.candidates.starts[row : row + 2]
        return tuple(self.arms[arm] for arm in self.candidates.arms[first:last])

    def items_of(self, row: int, raw: bool = False) -> dict[Hashable, Any] | None:
        """Return the features of a row's candidates, by name; None if they have none.

        Parameters
        ----------
        raw
            Whether to return raw features if there are vectors as well.
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
        """Index of the arm played in each row, among the candidates of all rows, (n,)."""
        return np.flatnonzero(self.candidates.arms == np.repeat(self.chosen, self.candidates.sizes))

    # Dense forms, for arms that are few

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """Eligible arms of each row, (n, K)."""
        return self.candidates.dense(np.ones(len(self.candidates.arms), dtype=bool), len(self.arms), False)

    @property
    def propensities(self) -> Array | None:
        """Propensities of all arms, (n, K), 0 if not eligible; None if they are unknown."""
        flat = self.candidates.propensities
        return None if flat is None else self.candidates.dense(flat, len(self.arms), 0.0)

    @property
    def means(self) -> Array | None:
        """Expected rewards of the deciding agent, (n, K), NaN if not eligible; None if unknown."""
        flat = self.candidates.means
        return None if flat is None else self.candidates.dense(flat, len(self.arms), np.nan)
