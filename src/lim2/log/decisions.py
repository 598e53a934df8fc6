"""Make and record decisions: one, many, or the positions of a slate, each call in one transaction."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lim2.checks import shown
from lim2.decision import Decision, Slate
from lim2.log.decision_input import DecisionInput, checked_input, in_order
from lim2.log.entries import NO_ATTRIBUTES, Attributes, LoggedDecision, checked_attributes, to_row
from lim2.log.errors import TakenIdError, taken
from lim2.log.ids import checked_id, new_id, rivals, row_id
from lim2.log.learning import position_of
from lim2.log.serialization import plain_names
from lim2.log.store import Row, Store, Tables, Work
from lim2.log.transactions import Log, Transaction


class NewDecision(NamedTuple):
    """A decision to be recorded, or a position of a slate."""

    decision: Decision
    input: DecisionInput
    id: str | None  # given by the user to the decision or its slate; None: the log generates one
    attributes: Attributes = NO_ATTRIBUTES
    slot: int = 0  # the position in a slate, from 1


@dataclass(frozen=True)
class Insertion:
    """Insert decisions, all or none."""

    names: Sequence[str | None]  # the IDs that the user gave to them, or to their slates
    rows: Sequence[Row]
    position: int  # of the log up to which the deciding agent had learned

    def __call__(self, tables: Tables) -> None:
        """Run within a transaction."""
        for name, row in zip(self.names, self.rows, strict=True):
            tables.insert(row, self.position, name)


# Methods of DecisionLog


def decide(
    log: Log,
    agent: Any,
    context: Any,
    arms: Sequence[Hashable] | None = None,
    *,
    items: Any = None,
    raw: Any = None,
    raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
    exploit: bool = False,
    id: str | None = None,
    key: str | None = None,
    metadata: Any = None,
    active: bool = True,
) -> Transaction[LoggedDecision]:
    """Let an agent or a snapshot decide, and record the decision.

    A `lim2.Bandit` takes raw contexts and items. They are converted to JSON before the decision and stored, so that
    `replay` uses the same values. Other agents take vectors, which are stored.

    Parameters
    ----------
    raw
        Raw context of a vector, stored with it: a dictionary or row. `replay` can then train a `lim2.Bandit`.
    raw_items
        Raw features of the items, stored with their vectors: by name, or in the order of `items`.
    id
        Unique ID of the decision. None: the log generates one.
    key
        Key of the person concerned. `erase` deletes all decisions with this key.
    metadata
        JSON value stored with the decision, for example the version of the product.
    active
        Whether the decision counts at once. False: it counts only after `activate`, for example because it may never
        be shown.
    """
    input, attributes = _input(agent, context, items, raw, raw_items), checked_attributes(key, metadata, active)
    _check_free(log.store, id)
    (decision,) = _controlled(agent, agent.decide_logged(input, arms, exploit))
    return _insert_one(log, NewDecision(decision, input, id, attributes), agent)


def decide_many(
    log: Log,
    agent: Any,
    contexts: Sequence[Any],
    arms: Sequence[Hashable] | None = None,
    *,
    items: Sequence[Any] | None = None,
    exploit: bool = False,
    ids: Sequence[str] | None = None,
    keys: Sequence[str | None] | None = None,
    metadata: Sequence[Any] | None = None,
) -> Transaction[list[LoggedDecision]]:
    """Let an agent decide for many contexts, and record all decisions in one transaction.

    Parameters
    ----------
    agent, arms, exploit
        The same as for `decide`, for all decisions.
    contexts, items, ids, keys, metadata
        The same as for `decide`, one entry per decision.
    """
    n = len(contexts)
    inputs = [_input(agent, *pair, None, None) for pair in zip(contexts, _each("items", items, n), strict=True)]
    names, attributes = _each("ids", ids, n), _attributes(n, keys, metadata)
    for id in names:
        _check_free(log.store, id)
    decisions = [_controlled(agent, agent.decide_logged(input, arms, exploit))[0] for input in inputs]
    return _insert(log, list(map(NewDecision, decisions, inputs, names, attributes)), agent)


def rank(
    log: Log,
    agent: Any,
    context: Any,
    items: Any,
    k: int,
    *,
    raw: Any = None,
    raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
    id: str | None = None,
    key: str | None = None,
    metadata: Any = None,
    active: bool = True,
) -> Transaction[Slate[LoggedDecision]]:
    """Let an agent rank items, and record the slate with one row per position.

    Parameters
    ----------
    id
        Unique ID of the slate. None: the log generates one.
    """
    input, attributes = _input(agent, context, items, raw, raw_items), checked_attributes(key, metadata, active)
    _check_free(log.store, id)
    slate = _controlled(agent, agent.decide_logged(input, None, False, k))
    return _insert_slate(log, slate, input, id, attributes, agent)


def record(
    log: Log,
    decision: Decision,
    context: ArrayLike | None = None,
    *,
    items: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    raw: Any = None,
    raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
    id: str | None = None,
    key: str | None = None,
    metadata: Any = None,
    active: bool = True,
    agent: Any = None,
) -> Transaction[LoggedDecision]:
    """Record a decision that was made elsewhere.

    Parameters
    ----------
    items
        Candidates of the decision, as vectors.
    raw
        Context as a dictionary or row, instead of the vector or in addition to it.
    raw_items
        Candidates as dictionaries or rows, instead of the vectors or in addition to them.
    agent
        The agent that decided. `replay` needs it to repeat decisions after the same number of rewards.
    """
    input = checked_input(context, items, raw, raw_items)
    return _insert_one(log, NewDecision(decision, input, id, checked_attributes(key, metadata, active)), agent)


def record_many(
    log: Log,
    decisions: Sequence[Decision],
    contexts: Sequence[ArrayLike] | None = None,
    *,
    items: Sequence[Any] | None = None,
    raw: Sequence[Any] | None = None,
    raw_items: Sequence[Any] | None = None,
    ids: Sequence[str] | None = None,
    keys: Sequence[str | None] | None = None,
    metadata: Sequence[Any] | None = None,
    active: bool = True,
    agent: Any = None,
) -> Transaction[list[LoggedDecision]]:
    """Record many decisions that were made elsewhere in one transaction: all of them or none.

    Parameters
    ----------
    contexts, items, raw, raw_items, ids, keys, metadata
        The same as for `record`, one entry per decision.
    active
        The same as for `record`, for all decisions.
    """
    n = len(decisions)
    columns = {"contexts": contexts, "items": items, "raw": raw, "raw_items": raw_items}
    inputs = [checked_input(*row) for row in zip(*(_each(*column, n) for column in columns.items()), strict=True)]
    names, attributes = _each("ids", ids, n), _attributes(n, keys, metadata, active)
    return _insert(log, list(map(NewDecision, decisions, inputs, names, attributes)), agent)


def record_slate(
    log: Log,
    slate: Iterable[Decision],
    context: ArrayLike | None = None,
    *,
    items: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    raw: Any = None,
    raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
    id: str | None = None,
    key: str | None = None,
    metadata: Any = None,
    active: bool = True,
    agent: Any = None,
) -> Transaction[Slate[LoggedDecision]]:
    """Record a slate that was made elsewhere, with one row per position, so that each position has a reward.

    Parameters
    ----------
    slate
        One decision per position, with the same candidates. Each propensity is the probability of coming first.
    id
        Unique ID of the slate. None: the log generates one. Positions have the IDs ``f"{id}/1"``, ``f"{id}/2"``, ...
    """
    input = checked_input(context, items, raw, raw_items)
    return _insert_slate(log, list(slate), input, id, checked_attributes(key, metadata, active), agent)


def insert(log: Log, decision: NewDecision, agent: Any) -> Transaction[str]:
    """Insert a decision whose parts were checked before, and return only its ID."""
    rows = _rows([decision], log.clock())
    work = Work(Insertion([decision.id], rows, position_of(agent)), inserts=True)
    return Transaction(work, lambda _: rows[0][0])


# What they are made of


def _controlled(agent: Any, decisions: list[Decision]) -> list[Decision]:
    """Return decisions under the agent's control group, if it has one."""
    control = getattr(agent, "control", None)
    return decisions if control is None else control.applied(decisions)


def _input(agent: Any, context: Any, items: Any, raw: Any, raw_items: Any) -> DecisionInput:
    if not agent.keeps_raw:
        return checked_input(context, items, raw, raw_items)
    if raw is not None or raw_items is not None:
        raise ValueError("raw= and raw_items= are for agents that take vectors: leave them out for this agent")
    return checked_input(None, None, context, items)


def _each(name: str, values: Sequence[Any] | None, n: int) -> Sequence[Any]:
    """Return one value per decision, None for each if there are no values."""
    if values is None:
        return [None] * n
    if isinstance(values, str | Mapping) or len(values) != n:
        raise ValueError(f"{name} must be a sequence of {n} entries, one per decision, got {shown(values)}")
    return values


def _attributes(
    n: int, keys: Sequence[str | None] | None, metadata: Sequence[Any] | None, active: bool = True
) -> list[Attributes]:
    pairs = zip(_each("keys", keys, n), _each("metadata", metadata, n), strict=True)
    return [checked_attributes(*pair, active) for pair in pairs]


def _check_free(store: Store, id: str | None) -> None:
    """Refuse an ID that is taken, before an agent draws anything for it."""
    if id is not None and store.look(lambda tables: tables.taken(rivals(checked_id(id), id))):
        raise taken(id)


def _insert(log: Log, decisions: Sequence[NewDecision], agent: Any) -> Transaction[list[LoggedDecision]]:
    rows, names = _rows(decisions, log.clock()), [decision.id for decision in decisions]
    work = Work(Insertion(names, rows, position_of(agent)), inserts=True)
    return Transaction(work, lambda _: list(map(_logged, decisions, rows)))


def _insert_one(log: Log, decision: NewDecision, agent: Any) -> Transaction[LoggedDecision]:
    work, finish = _insert(log, [decision], agent)
    return Transaction(work, lambda result: finish(result)[0])


def _insert_slate(
    log: Log, slate: list[Decision], input: DecisionInput, id: str | None, attributes: Attributes, agent: Any
) -> Transaction[Slate[LoggedDecision]]:
    positions = enumerate(_positions(slate, input), start=1)
    work, finish = _insert(log, [NewDecision(*pair, id, attributes, slot) for slot, pair in positions], agent)

    def as_slate(result: Any) -> Slate[LoggedDecision]:
        decisions = finish(result)
        return Slate(decisions[0].id.removesuffix("/1"), tuple(decisions))

    return Transaction(work, as_slate)


def _positions(slate: Sequence[Decision], input: DecisionInput) -> list[tuple[Decision, DecisionInput]]:
    """Return the content of each position's row: all candidates for the first, only the shown item for the others."""
    if not len(slate):
        raise ValueError("the slate is empty: it needs at least one decision")
    arms = [decision.arm for decision in slate]
    if len(set(arms)) < len(arms):
        raise ValueError(f"a slate must show each item at most once, got {arms!r}")
    return [(slate[0], input), *(_only_shown(decision, input) for decision in slate[1:])]


def _only_shown(decision: Decision, input: DecisionInput) -> tuple[Decision, DecisionInput]:
    arms = tuple(decision.arms)
    place = arms.index(decision.arm) if decision.arm in arms else -1
    if place < 0:
        raise ValueError(f"the slate shows {decision.arm!r}, which is not one of its candidates {arms!r}")
    only = slice(place, place + 1)
    means, stds, propensities = (
        np.asarray(getattr(decision, name))[only] for name in ("means", "stds", "propensities")
    )
    items = None if input.items is None else in_order(input.items, arms)[only]
    raw_items = None if input.raw_items is None else in_order(input.raw_items, arms)[only]
    return (
        Decision(decision.arm, decision.propensity, (decision.arm,), means, stds, propensities, decision.exploit),
        input._replace(items=items, raw_items=raw_items),
    )


def _rows(decisions: Sequence[NewDecision], now: float) -> list[Row]:
    """Return the rows of decisions; raise a ValueError if one is inconsistent, or an ID comes twice."""
    rows, id = [], ""
    for decision, input, name, attributes, slot in decisions:
        if name is not None:
            id = checked_id(name)
        elif slot <= 1:  # later positions have the ID of the first
            id = new_id(now)
        rows.append(to_row(decision, input, row_id(id, slot) if slot else id, now, slot, attributes))
    if len({row[0] for row in rows}) < len(rows):
        raise TakenIdError("two of these decisions have the same id: decision ids must be unique")
    return rows


def _logged(new: NewDecision, row: Row) -> LoggedDecision:
    """Return the decision that a row holds, as `get` would, without reading it from the row."""
    decision, input, _, attributes, slot = new
    arms = plain_names(decision.arms)
    items = None if input.items is None else in_order(input.items, arms)
    raw_items = None if input.raw_items is None else dict(zip(arms, in_order(input.raw_items, arms), strict=True))
    means, stds, propensities = (
        np.array(getattr(decision, name), dtype=np.float64) for name in ("means", "stds", "propensities")
    )
    return LoggedDecision(
        arm=arms[row[6]], propensity=row[7], arms=arms, means=means, stds=stds, propensities=propensities,
        exploit=bool(decision.exploit), control=decision.control, id=row[0], time=row[1],
        context=input.raw if input.context is None else input.context.copy(),
        items=raw_items if items is None else np.array(items), raw=input.raw, raw_items=raw_items, position=slot,
        key=attributes.key, metadata=attributes.metadata, active=attributes.active,
    )  # fmt: skip
