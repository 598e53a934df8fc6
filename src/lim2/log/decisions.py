"""Methods of `DecisionLog` that record decisions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from lim2.checks import shown
from lim2.decision import Decision, Slate
from lim2.log import deciders
from lim2.log.calls import Request
from lim2.log.decision_input import Situation, situation
from lim2.log.entries import Extras, LoggedDecision, extras
from lim2.log.ids import rows_of
from lim2.log.learning import position_of
from lim2.log.store import Work
from lim2.log.writing import Insertion, Made, check_free, logged, rows_of_made

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
    """Let an agent or a snapshot decide, and record the decision.

    A `lim2.Bandit` takes raw contexts and items. They are converted to JSON before the decision and stored, so that
    `replay` uses the same values. Other agents take vectors, which are stored.

    Parameters
    ----------
    agent
        The agent, bandit or snapshot that decides.
    context, arms, items, exploit
        Arguments of `agent.decide`.
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
    """Let an agent decide for many contexts, and record all decisions in one transaction.

    Parameters
    ----------
    agent, arms, exploit
        The same as for `decide`, for all decisions.
    contexts, items, ids, keys, metadata
        The same as for `decide`, one entry per decision.
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
    """Let an agent rank items, and record the slate with one row per position.

    Parameters
    ----------
    agent
        The agent, bandit or snapshot that ranks.
    context, items, k
        Arguments of `agent.rank`.
    raw, raw_items, key, metadata, active
        The same as for `decide`.
    id
        Unique ID of the slate. None: the log generates one.
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
    """Record a decision that was made elsewhere.

    Parameters
    ----------
    decision
        The decision that `agent.decide` returned.
    context
        Context of the decision, as a vector.
    items
        Candidates of the decision, as vectors.
    raw
        Context as a dictionary or row, instead of the vector or in addition to it.
    raw_items
        Candidates as dictionaries or rows, instead of the vectors or in addition to them.
    id, key, metadata, active
        The same as for `decide`.
    agent
        The agent that decided. `replay` needs it to repeat decisions after the same number of rewards.
    """
    made = Made(decision, situation(context, items, raw, raw_items), id, extras(key, metadata, active))
    return _one(log, [made], agent)


def keep(log: DecisionLog, made: Made, agent: Any) -> Request[str]:
    """Write down a decision that was made elsewhere, about what is known to be right, and return no more than its id.

    Parameters
    ----------
    made
        The decision, with what it is about.
    agent
        Who made it, as for `record`.
    """
    rows, position = rows_of_made([made], log.clock()), position_of(agent)
    return Request(Work(Insertion([made.id], rows, position), inserts=True), lambda _: rows[0][0])


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
    """Record many decisions that were made elsewhere in one transaction: all of them or none.

    Parameters
    ----------
    decisions
        The decisions that `agent.decide` returned.
    contexts, items, raw, raw_items, ids, keys, metadata
        The same as for `record`, one entry per decision.
    active
        The same as for `record`, for all decisions.
    agent
        The agent that decided, as for `record`.
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
    """Record a slate that was made elsewhere, with one row per position, so that each position has a reward.

    Parameters
    ----------
    slate
        One decision per position, with the same candidates. Each propensity is the probability of coming first.
    context, items, raw, raw_items, key, metadata, active
        The same as for `record`.
    id
        Unique ID of the slate. None: the log generates one. Positions have the IDs ``f"{id}/1"``, ``f"{id}/2"``, ...
    agent
        The agent that ranked, as for `record`.
    """
    about = situation(context, items, raw, raw_items)
    return _slate(log, list(slate), about, id, extras(key, metadata, active), agent)


def _about(agent: Any, context: Any, items: Any, raw: Any, raw_items: Any) -> Situation:
    if not deciders.takes_raw(agent):
        return situation(context, items, raw, raw_items)
    if raw is not None or raw_items is not None:
        raise ValueError("raw= and raw_items= are for agents that take vectors: leave them out for this agent")
    return situation(None, None, context, items)


def _extras(
    n: int, keys: Sequence[str | None] | None, metadata: Sequence[Any] | None, active: bool = True
) -> list[Extras]:
    return [extras(*pair, active) for pair in zip(_each("keys", keys, n), _each("metadata", metadata, n), strict=True)]


def _write(log: DecisionLog, made: list[Made], agent: Any) -> Request[list[LoggedDecision]]:
    rows, position = rows_of_made(made, log.clock()), position_of(agent)
    work = Work(Insertion([one.id for one in made], rows, position), inserts=True)
    return Request(work, lambda _: logged(made, rows))


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
    """Return one value per decision: those given, or None for each."""
    if values is None:
        return [None] * n
    if isinstance(values, str | Mapping) or len(values) != n:
        raise ValueError(f"{name} must be a sequence of {n} entries, one per decision, got {shown(values)}")
    return values
