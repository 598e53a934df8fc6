"""Probabilities with which a policy plays each candidate in each logged context."""

from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.arms import is_range
from lim2.log.rules import as_probabilities
from lim2.log.table import Table

Array = NDArray[np.float64]


class Chooser(Protocol):
    """An agent, an item agent, a bandit, or a snapshot of one."""

    @property
    def propensities(self) -> Callable[..., Array]:
        """Return the probability of each candidate."""
        ...


Rule = Callable[[Any, Any], Any]


def probabilities(policy: Chooser | Rule | ArrayLike, table: Table) -> Array:
    """Return the probabilities of the candidates of all rows, (m,); those of a row sum to 1.

    Examples
    --------
    >>> table = Table.of([[0.0], [1.0]], ["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> probabilities(lambda context, arms: "a" if context[0] > 0 else {"a": 0.25, "b": 0.75}, table)
    array([0.25, 0.75, 1.  , 0.  ])
    """
    if hasattr(policy, "propensities"):
        chances = _of_chooser(cast(Chooser, policy), table)
    elif callable(policy):
        chances = _of_rule(policy, table)
    else:
        chances = _of_array(np.asarray(policy, dtype=np.float64), table)
    _check(chances, table)
    return chances


def _of_chooser(policy: Chooser, table: Table) -> Array:
    if getattr(policy, "keeps_raw", False):
        return _of_bandit(policy, table)
    if table.is_raw:
        raise ValueError("the table's contexts are raw, and this agent takes vectors: evaluate a lim2.Bandit")
    return _of_item_agent(policy, table) if getattr(policy, "arms", None) is None else _of_agent(policy, table)


def _of_agent(agent: Any, table: Table) -> Array:
    """Return the propensities of an agent with arms, computed once per set of candidates."""
    candidates = table.candidates
    if candidates.items is not None and is_range(table.arms):
        raise ValueError("the table's items have no names, so they cannot be arms of an agent: use an item agent")
    mask = _has_arms(agent, table)[candidates.arms]
    places = np.flatnonzero(mask)
    counts = np.add.reduceat(mask, candidates.starts[:-1], dtype=np.intp)
    starts = np.concatenate([[0], np.cumsum(counts)])
    groups: dict[bytes, list[int]] = {}
    for row in range(len(table)):
        groups.setdefault(candidates.arms[places[starts[row] : starts[row + 1]]].tobytes(), []).append(row)
    chances = np.zeros(len(mask))
    for pattern, rows in groups.items():
        arms = [table.arms[arm] for arm in np.frombuffer(pattern, dtype=np.intp)]
        if not arms:
            raise _no_eligible_arm(rows)
        entries = places[starts[rows][:, None] + np.arange(len(arms))]
        chances[entries] = agent.propensities(table.contexts[rows], arms=arms)
    return chances


def _of_item_agent(agent: Any, table: Table) -> Array:
    candidates = table.candidates
    if candidates.items is None or candidates.items.dtype == object:
        raise ValueError("this agent chooses among items, but the table has no vectors of items: Table.of(..., items=)")
    spans = zip(candidates.starts[:-1], candidates.starts[1:], strict=True)
    rows = [
        _checked(agent.propensities(context, candidates.items[first:last]), last - first)
        for context, (first, last) in zip(table.contexts, spans, strict=True)
    ]
    return np.concatenate(rows)


def _of_bandit(bandit: Any, table: Table) -> Array:
    if table.raw is None:
        raise ValueError("a lim2.Bandit takes raw contexts, but the table has vectors only: Table.of(..., raw=)")
    if bandit.arms is None and table.candidates.raw_items is None:
        raise ValueError("this bandit chooses among items, but the table has none that are raw: Table.of(..., items=)")
    mask, chances = _has_arms(bandit, table), np.zeros(len(table.candidates.arms))
    for row, context in enumerate(table.raw):
        first, last = table.candidates.starts[row : row + 2]
        items = table.items_of(row, raw=True)
        if items is not None:
            chances[first:last] = _checked(bandit.propensities(context, items), last - first)
            continue
        entries = first + np.flatnonzero(mask[table.candidates.arms[first:last]])
        if not len(entries):
            raise _no_eligible_arm([row])
        arms = tuple(table.arms[arm] for arm in table.candidates.arms[entries])
        chances[entries] = _checked(bandit.propensities(context, arms=arms), len(entries))
    return chances


def _of_rule(rule: Rule, table: Table) -> Array:
    rows = []
    for row, context in enumerate(table.contexts):
        arms, items = table.arms_of(row), table.items_of(row)
        rows.append(as_probabilities(rule(context, arms if items is None else items), arms))
    return np.concatenate(rows)


def _of_array(chances: Array, table: Table) -> Array:
    candidates = table.candidates
    n, m, shape = len(table), len(candidates.arms), (len(table), len(table.arms))
    if chances.shape == (m,):
        return chances
    if chances.shape != shape:
        raise ValueError(
            f"the policy's probabilities must have the shape {shape}, one row per decision and one column for each of "
            f"table.arms, or ({m},), one per candidate; got {chances.shape}"
        )
    flat = chances[candidates.rows, candidates.arms]
    if np.abs(chances.sum(axis=1) - np.bincount(candidates.rows, flat, n)).max() > 1e-9:
        raise ValueError("the policy gives a positive probability to an arm that was not eligible in that row")
    return flat


def _has_arms(agent: Any, table: Table) -> NDArray[np.bool_]:
    """Return a mask (K,) of the arms that an agent has; all if it chooses among items."""
    arms = getattr(agent, "arms", None)
    names = None if arms is None else set(arms)
    return np.array([names is None or arm in names for arm in table.arms], dtype=bool)


def _no_eligible_arm(rows: list[int]) -> ValueError:
    return ValueError(
        f"the agent has none of the arms that were eligible in row {rows[0]} and {len(rows) - 1} others: leave them "
        f"out of the table, or give the agent those arms"
    )


def _checked(answer: ArrayLike, size: int) -> Array:
    values = np.asarray(answer, dtype=np.float64)
    if values.shape != (size,):
        raise ValueError(f"propensities must be {size} numbers, one per candidate, got shape {values.shape}")
    return values


def _check(chances: Array, table: Table) -> None:
    if not np.isfinite(chances).all() or (chances < 0).any():
        raise ValueError("the policy's probabilities must be finite and not negative")
    sums = np.add.reduceat(chances, table.candidates.starts[:-1])
    if (np.abs(sums - 1) > 1e-4).any():
        row = int(np.abs(sums - 1).argmax())
        raise ValueError(
            f"the policy's probabilities must sum to 1 in each row; in row {row} they sum to {sums[row]:.6g}"
        )
