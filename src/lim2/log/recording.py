"""Decisions that are written down: made here by an agent, or elsewhere. These are the methods of `DecisionLog`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from lim2.checks import shown
from lim2.decision import Decision, Slate
from lim2.log import deciders
from lim2.log.entries import Extras, LoggedDecision, extras
from lim2.log.learning import position_of
from lim2.log.requests import Request
from lim2.log.situation import Situation, situation
from lim2.log.slates import rows_of
from lim2.log.writing import Made, check_free, insert, logged, rows_of_made

if TYPE_CHECKING:
    from lim2.log.decision_log import DecisionLog


def decide(
    log: DecisionLog,
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
) -> Request[LoggedDecision]:
    """Let an agent, or a snapshot of one, decide, and write the decision down.

    A `lim2.Bandit` takes raw contexts and items: they are kept as JSON, and converted before it decides, so that
    it sees now what `replay` will show it. Other agents take vectors, and vectors are kept.

    Parameters
    ----------
    agent
        Whose `decide` is asked.
    context, arms, items, exploit
        As `agent.decide` takes them.
    raw, raw_items
        What the vectors were made of, to be kept beside them: a dictionary or row, and features of the items, by
        name or in the order of `items`. A `lim2.Bandit` can then be trained by `replay`.
    id
        Your own, used once; None makes one.
    key
        Of the person whom it is about: `erase` finds it by this.
    metadata
        What else is to be kept with it, as JSON, say the version of the product.
    active
        False: it counts only once `activate` was called, say because it may never be shown.
    """
    about, more = _about(agent, context, items, raw, raw_items), extras(key, metadata, active)
    check_free(log.store, id)
    decision = deciders.decide(agent, about, arms, exploit)
    return _one(log, [Made(decision, about, id, more)], agent)


def decide_many(
    log: DecisionLog,
    agent: Any,
    contexts: Sequence[Any],
    arms: Sequence[Hashable] | None = None,
    *,
    items: Sequence[Any] | None = None,
    exploit: bool = False,
    ids: Sequence[str] | None = None,
    keys: Sequence[str | None] | None = None,
    metadata: Sequence[Any] | None = None,
) -> Request[list[LoggedDecision]]:
    """Let an agent decide for many contexts, and write all decisions down in one transaction.

    Parameters
    ----------
    agent, arms, exploit
        As for `decide`, for all of them.
    contexts, items, ids, keys, metadata
        As for `decide`, one of each per decision.
    """
    n = len(contexts)
    candidates = _each("items", items, n)
    abouts = [_about(agent, contexts[i], candidates[i], None, None) for i in range(n)]
    names, more = _each("ids", ids, n), _extras(n, keys, metadata)
    for id in names:
        check_free(log.store, id)
    made = [Made(deciders.decide(agent, abouts[i], arms, exploit), abouts[i], names[i], more[i]) for i in range(n)]
    return _write(log, made, agent)


def rank(
    log: DecisionLog,
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
) -> Request[Slate[LoggedDecision]]:
    """Let an agent rank items, and write the slate down, a row per position.

    Parameters
    ----------
    agent
        Whose `rank` is asked.
    context, items, k
        As `agent.rank` takes them.
    raw, raw_items, key, metadata, active
        As for `decide`.
    id
        Of the slate, used once; None makes one.
    """
    about, more = _about(agent, context, items, raw, raw_items), extras(key, metadata, active)
    check_free(log.store, id)
    return _slate(log, deciders.rank(agent, about, k), about, id, more, agent)


def record(
    log: DecisionLog,
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
) -> Request[LoggedDecision]:
    """Write down a decision that was made elsewhere.

    Parameters
    ----------
    decision
        What `agent.decide` returned.
    context, items
        In which and among which it was made, as vectors.
    raw, raw_items
        The same as dictionaries or rows, instead of vectors or beside them.
    id, key, metadata, active
        As for `decide`.
    agent
        Who made it. `replay` can make decisions again only if it is known after how many rewards they were made.
    """
    made = Made(decision, situation(context, items, raw, raw_items), id, extras(key, metadata, active))
    return _one(log, [made], agent)


def record_many(
    log: DecisionLog,
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
) -> Request[list[LoggedDecision]]:
    """Write down many decisions that were made elsewhere, in one transaction: all of them, or none.

    Parameters
    ----------
    decisions
        What `agent.decide` returned.
    contexts, items, raw, raw_items, ids, keys, metadata
        As for `record`, one of each per decision.
    active
        As for `record`, for all of them.
    agent
        Who made them, as for `record`.
    """
    n = len(decisions)
    given = {"contexts": contexts, "items": items, "raw": raw, "raw_items": raw_items}
    abouts = [situation(*parts) for parts in zip(*(_each(*part, n) for part in given.items()), strict=True)]
    names, more = _each("ids", ids, n), _extras(n, keys, metadata, active)
    return _write(log, [Made(*one) for one in zip(decisions, abouts, names, more, strict=True)], agent)


def record_slate(
    log: DecisionLog,
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
) -> Request[Slate[LoggedDecision]]:
    """Write down a slate that was made elsewhere: a row per position, so that each position has its reward.

    Parameters
    ----------
    slate
        A decision per position, over the same candidates. The propensity is that of being first.
    context, items, raw, raw_items, key, metadata, active
        As for `record`.
    id
        Of the slate, used once; None makes one. Its positions get the ids ``f"{id}/1"``, ``f"{id}/2"``, ...
    agent
        Who made it, as for `record`.
    """
    about = situation(context, items, raw, raw_items)
    return _slate(log, list(slate), about, id, extras(key, metadata, active), agent)


def _about(agent: Any, context: Any, items: Any, raw: Any, raw_items: Any) -> Situation:
    if not deciders.takes_raw(agent):
        return situation(context, items, raw, raw_items)
    if raw is not None or raw_items is not None:
        raise ValueError("raw= and raw_items= go beside vectors; what this agent takes is raw, and kept as it is")
    return situation(None, None, context, items)


def _extras(
    n: int, keys: Sequence[str | None] | None, metadata: Sequence[Any] | None, active: bool = True
) -> list[Extras]:
    return [extras(*pair, active) for pair in zip(_each("keys", keys, n), _each("metadata", metadata, n), strict=True)]


def _write(log: DecisionLog, made: list[Made], agent: Any) -> Request[list[LoggedDecision]]:
    rows, position = rows_of_made(made, log.clock()), position_of(agent)
    return Request(lambda tables: insert(tables, made, rows, position), lambda _: logged(made, rows))


def _one(log: DecisionLog, made: list[Made], agent: Any) -> Request[LoggedDecision]:
    work, finish = _write(log, made, agent)
    return Request(work, lambda result: finish(result)[0])


def _slate(
    log: DecisionLog, slate: list[Decision], about: Situation, id: str | None, more: Any, agent: Any
) -> Request[Slate[LoggedDecision]]:
    rows = enumerate(rows_of(slate, about), start=1)
    work, finish = _write(log, [Made(entry, alone, id, more, slot) for slot, (entry, alone) in rows], agent)

    def as_slate(result: Any) -> Slate[LoggedDecision]:
        decisions = finish(result)
        return Slate(decisions[0].id.removesuffix("/1"), tuple(decisions))

    return Request(work, as_slate)


def _each(name: str, values: Sequence[Any] | None, n: int) -> Sequence[Any]:
    """Return a value per decision: those given, or none for each."""
    if values is None:
        return [None] * n
    if isinstance(values, str | Mapping) or len(values) != n:
        raise ValueError(f"{name} must be a sequence of {n}, one per decision, got {shown(values)}")
    return values
