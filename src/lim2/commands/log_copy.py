"""`lim2 log copy`: copy a log, and verify the copy by replay."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any

import typer

import lim2
from lim2.commands.errors import plain_errors
from lim2.commands.screen import ERRORS
from lim2.log import LogError
from lim2.log.changes import ADD, from_text
from lim2.log.copying import copy as copy_log
from lim2.log.reading import entries
from lim2.log.store import open_store


def copy(
    source: Annotated[
        str, typer.Argument(metavar="LOG", help="Log to copy: a file, sqlite:PATH or postgresql://HOST/DATABASE#NAME.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="New log, in one of the same forms. It must not exist yet.")
    ],
) -> None:
    """Copy a log into a new one, of the same kind or another, and verify the copy.

    The contents are compared, and a new agent learns from each log: both must be equal, bit for bit. The copy does not
    include writes that happen during copying: to move a log, first stop all processes that write to it.

    Example: lim2 log copy decisions.db postgresql://host/shop#banners
    """
    with plain_errors(*ERRORS):
        before, after = open_store(source, "full", True), None
        try:
            after = open_store(target, "full", False)
            copy_log(before, after)
        finally:
            for store in (before, after):
                if store is not None:
                    store.close()
        with lim2.DecisionLog(source, read_only=True) as old, lim2.DecisionLog(target, read_only=True) as new:
            state = new.state
            typer.echo(f"Copied {state.position} events and {state.pending} pending decisions.")
            typer.echo(replayed(old, new))


def replayed(old: lim2.DecisionLog, new: lim2.DecisionLog, learner: Any = None) -> str:
    """Replay two logs into two equal agents; return a message, or raise a LogError if the agents differ."""
    if next(entries(new.store, "rewarded"), None) is None:
        return "The log has no reward to replay."
    learner = learner or learner_for(new)
    if old.position != new.position:
        return "The source changed during copying, so the copy was not verified: stop all writers and copy again."
    twins = learner, learner.copy()
    learned = [log.replay(twin, allow_partial=True) for log, twin in zip((old, new), twins, strict=True)]
    if twins[0].to_bytes() != twins[1].to_bytes():
        raise LogError(
            "an agent that learned from the copy differs from one that learned from the source: keep using the source"
        )
    return f"Two agents that learned {learned[1]} rewards, one from each log, are equal bit for bit."


def learner_for(log: lim2.DecisionLog) -> Any:
    """Return a small new agent that can learn from a log; None if the log has no rewards.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/log.db") as log:
    ...     bandit = lim2.Bandit(arms=["a", "b"], log=log)
    ...     bandit.reward(bandit.decide({"country": "AT"}).id, 1.0)
    ...     learner_for(log)
    'recorded'
    Bandit(arms=['a', 'b'], algorithm='LinearTS', rounds=0)
    """
    first = next(entries(log.store, "rewarded"), None)
    if first is None:
        return None
    context, items = first.vector, first.vectors
    if context is None:
        arms = first_arms(log)
        if first.items is None:
            return lim2.Bandit(arms=list(arms), algorithm="LinearTS", seed=0)
        changes = log.store.look(lambda tables: tables.changes())  # which items of a catalogue do not have
        return lim2.Bandit(arms=arms if changes else None, algorithm="LinearTS", seed=0)
    if items is None:
        return lim2.LinearTS(arms=list(first_arms(log)), n_features=context.size, seed=0)
    return lim2.LinearTS(n_features=context.size, n_item_features=items.shape[1], seed=0)


def first_arms(log: lim2.DecisionLog) -> dict[Hashable, Any]:
    """Return the initial arms of a log, and their features: all that were ever eligible, except those added later."""
    added: dict[Hashable, bool] = {}  # by its first change
    for kind, text in log.store.look(lambda tables: tables.changes()):
        change = from_text(kind, text)
        added.setdefault(change.name, change.kind == ADD)
    arms: dict[Hashable, Any] = {name: {} for name, was_added in added.items() if not was_added}
    for entry in entries(log.store, "all"):
        arms |= {arm: (entry.raw_items or {}).get(arm, {}) for arm in entry.arms}
    return {arm: features for arm, features in arms.items() if not added.get(arm, False)}
