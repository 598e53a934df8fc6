"""The probabilities with which a policy plays each arm, in each logged context."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.log.table import Table

Array = NDArray[np.float64]


class Chooser(Protocol):
    """An agent, or a snapshot of one."""

    @property
    def arms(self) -> tuple[Any, ...]:
        """Its arms."""
        ...

    def propensities(self, contexts: ArrayLike, arms: Any = None) -> Array:
        """Return the probability of each arm in each context."""
        ...


Rule = Callable[[NDArray[Any], tuple[Hashable, ...]], Any]


def probabilities(policy: Chooser | Rule | ArrayLike, table: Table) -> Array:
    """Return (n, K) probabilities over ``table.arms``, in each row over the arms that were eligible there.

    Parameters
    ----------
    policy
        As `evaluate` takes it.
    table
        The logged decisions.

    Examples
    --------
    >>> table = Table.of([[0.0], [1.0]], ["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> probabilities(lambda context, arms: "a" if context[0] > 0 else {"a": 0.25, "b": 0.75}, table)
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    if hasattr(policy, "propensities"):
        chances = _of_agent(cast(Chooser, policy), table)
    elif callable(policy):
        chances = _of_rule(policy, table)
    else:
        chances = np.asarray(policy, dtype=np.float64)
        if chances.shape != table.eligible.shape:
            raise ValueError(
                f"the policy's probabilities must have the shape {table.eligible.shape}, one row per decision and one "
                f"column for each of the arms {table.arms!r}; got {chances.shape}"
            )
    _check(chances, table)
    return chances


def _of_agent(agent: Chooser, table: Table) -> Array:
    chances = np.zeros(table.eligible.shape)
    known = np.array([arm in agent.arms for arm in table.arms], dtype=bool)
    patterns, pattern_of = np.unique(table.eligible & known, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(pattern_of.ravel() == number)
        if not pattern.any():
            raise ValueError(
                f"the agent has none of the arms that were eligible in row {rows[0]} and {len(rows) - 1} others: leave "
                f"them out of the table, or give the agent those arms"
            )
        columns = np.flatnonzero(pattern)
        eligible = [table.arms[column] for column in columns]
        chances[np.ix_(rows, columns)] = agent.propensities(table.contexts[rows], arms=eligible)
    return chances


def _of_rule(rule: Rule, table: Table) -> Array:
    chances = np.zeros(table.eligible.shape)
    for row, context in enumerate(table.contexts):
        columns = np.flatnonzero(table.eligible[row])
        arms = tuple(table.arms[column] for column in columns)
        chances[row, columns] = _as_probabilities(rule(context, arms), arms)
    return chances


def _as_probabilities(answer: Any, arms: tuple[Hashable, ...]) -> Array:
    if isinstance(answer, Mapping):
        unknown = [arm for arm in answer if arm not in arms]
        if unknown:
            raise ValueError(f"the policy gave probabilities to arms that were not eligible: {unknown!r}")
        return np.array([answer.get(arm, 0.0) for arm in arms], dtype=np.float64)
    if isinstance(answer, Hashable) and answer in arms:
        return np.array([arm == answer for arm in arms], dtype=np.float64)
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (len(arms),):
        raise ValueError(
            f"a policy must return one of the eligible arms {arms!r}, or their {len(arms)} probabilities; "
            f"got {answer!r}"
        )
    return values


def _check(chances: Array, table: Table) -> None:
    if not np.isfinite(chances).all() or (chances < 0).any():
        raise ValueError("the policy's probabilities must be finite and not negative")
    if (chances[~table.eligible] > 0).any():
        raise ValueError("the policy gives a probability to an arm that was not eligible in that row")
    sums = chances.sum(axis=1)
    if (np.abs(sums - 1) > 1e-4).any():
        row = int(np.abs(sums - 1).argmax())
        raise ValueError(
            f"the policy's probabilities must sum to 1 in each row; in row {row} they sum to {sums[row]:.6g}"
        )
