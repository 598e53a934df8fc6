"""`lim2 inspect`: settings, counts and posterior of a saved agent."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.filesize import decimal
from rich.table import Table

from lim2.agent import Agent
from lim2.bandit import Bandit
from lim2.commands.errors import plain_errors
from lim2.commands.screen import ERRORS, Json, console, facts, number, print_json, show
from lim2.items import ItemAgent
from lim2.loading import load
from lim2.state import Array

LATEST = 1000  # largest number of stored contexts to average over
GIVEN = "those in the given context"
MAX_ROWS = 30  # rows of a table on the screen; --json has all
POSITION = ("log_id", "log_position", "log_event")  # of an agent's metadata


def inspect(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File of a saved agent or bandit.")],
    context: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Show the posterior in this context: a list of numbers, or a dictionary."),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="With --context: the candidate items, as a dictionary from name to features."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show settings, counts and posterior of a saved agent or bandit.

    Without --context, expected rewards are averaged over the contexts in the agent's memory.

    Example: lim2 inspect agent.lim2 --context '{"country": "AT"}'
    """
    with plain_errors(*ERRORS):
        if items is not None and context is None:
            raise ValueError("--items needs --context: give the context as well")
        if not path.is_file():
            raise ValueError(f"there is no file {path}: give the path of an agent that was saved by agent.save(path)")
        agent = load(path)
        summary = described(agent)
        summary = {"file": str(path), "bytes": path.stat().st_size, **summary}
        if context is not None:
            summary["beliefs"] = _in_context(agent, _parsed("--context", context), _parsed("--items", items))
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def described(agent: Any) -> dict[str, Any]:
    """Return a description of an agent."""
    inner: Agent | ItemAgent = agent.agent if isinstance(agent, Bandit) else agent
    learner = inner.agent if isinstance(inner, ItemAgent) else inner
    memory, metadata = getattr(learner.state, "memory", None), dict(agent.metadata)
    defaults = {field.name: field.default for field in fields(learner.algorithm)}
    settings = learner.get_params()
    return {
        "kind": type(agent).__name__,
        "algorithm": learner.name,
        "settings": settings,
        "changed": [name for name, value in settings.items() if _differs(value, defaults[name])],
        "rounds": agent.rounds,
        "context": "raw"
        if isinstance(agent, Bandit)
        else list(learner.context_shape)
        if inner is learner
        else _sizes(inner),
        "state_bytes": agent.nbytes,
        "memory": None if memory is None else {"held": memory.held, "capacity": memory.capacity},
        "log": {name.removeprefix("log_"): metadata.pop(name, None) for name in POSITION},
        "metadata": metadata,
        "arms": _arms(agent, learner if inner is learner else None),
        "keys": _keys(agent) if isinstance(agent, Bandit) else None,
        "beliefs": _on_average(learner, by_arm=inner is learner),
    }


def _differs(value: Any, default: Any) -> bool:
    return not (value is default or (type(value) is type(default) and bool(np.all(value == default))))


def _sizes(agent: Any) -> dict[str, int]:
    return {"context": agent.n_features, "item": agent.n_item_features}


def _arms(agent: Any, learner: Agent | None) -> list[dict[str, Any]] | None:
    """Return the arms, with the updates of each if it has its own posterior; None if items come with every call."""
    names = None if isinstance(agent, ItemAgent) else agent.arms
    if names is None:
        return None
    pulls = [None] * len(names) if learner is None else learner.pulls.tolist()
    return [{"arm": name, "pulls": count} for name, count in zip(names, pulls, strict=True)]


def _keys(bandit: Bandit) -> list[dict[str, Any]]:
    """Return the keys that have their own columns."""
    return [
        {"of": source, "key": one.name, "kind": one.kind, "mean": one.mean, "std": one.std, "count": one.count}
        for source, columns in bandit.columns.items()
        for one in columns
    ]


def _on_average(learner: Agent, *, by_arm: bool) -> dict[str, Any] | None:
    """Return expected rewards, averaged over the contexts in memory; None if there are none."""
    memory = getattr(learner.state, "memory", None)
    if memory is None or not memory.held:
        return None
    latest = memory.rows()[np.argsort(memory.stamps[memory.rows()])][-LATEST:]
    rows = memory.contexts[latest]
    means, stds = learner.means(rows), np.sqrt(learner.variances(rows))
    where = f"averaged over the latest {len(rows):,} contexts in memory"
    if not by_arm:
        low, high = np.quantile(means, [0.05, 0.95])
        expected = {"mean": means.mean(), "std": stds.mean(), "low": low, "high": high}
        return {"where": where, "of_items": expected}
    best = np.bincount(means.argmax(axis=1), minlength=learner.n_arms) / len(rows)
    return {"where": where, "by_arm": _by_arm(learner.arms, means.mean(axis=0), stds.mean(axis=0), best)}


def _in_context(agent: Any, context: Any, items: Any) -> dict[str, Any]:
    """Return expected rewards in a context, without changing the agent."""
    candidates = () if items is None else (items,)
    view = agent.snapshot()
    decision = view.decide(context, *candidates, exploit=True)
    chances = view.propensities(context, *candidates)
    return {"where": GIVEN, "by_arm": _by_arm(decision.arms, decision.means, decision.stds, chances)}


def _by_arm(arms: Any, means: Array, stds: Array, shares: Array) -> list[dict[str, Any]]:
    columns = zip(arms, means.tolist(), stds.tolist(), shares.tolist(), strict=True)
    return [{"arm": arm, "mean": mean, "std": std, "share": share} for arm, mean, std, share in columns]


def _parsed(option: str, text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{option} must be valid JSON ({error}), got {text}") from error


# On the screen


def _show(summary: dict[str, Any]) -> None:
    beliefs = summary["beliefs"]
    remark = "Its memory has no contexts: give --context for expected rewards in one."
    if beliefs is not None:
        remark = f"Expected rewards are {beliefs['where']}."
    show(summary["file"], facts(_overview(summary)))
    if beliefs is not None and "of_items" in beliefs:
        one = beliefs["of_items"]
        estimate = f"{number(one['mean'])}, from {number(one['low'])} to {number(one['high'])} for 90% of them"
        show("Expected rewards", facts({"expected reward": estimate, "its std": number(one["std"])}), remark)
    elif beliefs is not None or summary["arms"] is not None:
        _show_arms(summary["arms"] or [], beliefs, remark)
    else:
        console().print(remark, style="dim", soft_wrap=True)
    if summary["keys"]:
        _show_keys(summary["keys"])


def _overview(summary: dict[str, Any]) -> dict[str, Any]:
    memory, log = summary["memory"], summary["log"]
    changed = ", ".join(f"{name}={summary['settings'][name]!r}" for name in summary["changed"] if name != "arms")
    held = None if memory is None else f"{memory['held']:,} tuples"
    if memory is not None and memory["capacity"] is not None:
        held = f"{held}, at most {memory['capacity']:,}"
    position = None if log["position"] is None else f"{log['position']:,} of log {log['id']}"
    return {
        "kind": summary["kind"],
        "algorithm": summary["algorithm"],
        "settings": changed or "defaults",
        "arms": "items, passed with every call" if summary["arms"] is None else f"{len(summary['arms']):,}",
        "context": _shape(summary["context"]),
        "rounds": f"{summary['rounds']:,}",
        "memory": held,
        "size": f"{decimal(summary['bytes'])} of file, {decimal(summary['state_bytes'])} of state",
        "log position": position or "none, it has not learned from a log",
        "metadata": json.dumps(summary["metadata"], ensure_ascii=False) if summary["metadata"] else None,
    }


def _shape(context: Any) -> str:
    if context == "raw":
        return "raw: dictionaries"
    if isinstance(context, dict):
        return f"{context['context']} numbers, and {context['item']} of an item"
    return f"{context[0]} numbers" if len(context) == 1 else f"an array of shape {tuple(context)}"


def _show_arms(arms: list[dict[str, Any]], beliefs: dict[str, Any] | None, remark: str) -> None:
    """Show the arms, largest expected reward first."""
    pulls = {repr(one["arm"]): one["pulls"] for one in arms}
    rows = list(arms) if beliefs is None else sorted(beliefs["by_arm"], key=lambda one: _order(one["mean"]))
    in_context = beliefs is not None and beliefs["where"] == GIVEN
    table = Table()
    table.add_column("arm", overflow="fold")
    for column in (
        "updates",
        *(("expected reward", "std", "propensity" if in_context else "best in") if beliefs else ()),
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for one in rows[:MAX_ROWS]:
        count = pulls.get(repr(one["arm"]))
        cells = [str(one["arm"]), "-" if count is None else f"{count:,}"]
        if beliefs is not None:
            share = f"{one['share']:.3f}" if in_context else f"{one['share']:.0%}"
            cells += [number(one["mean"]), number(one["std"]), share]
        table.add_row(*cells)
    show("Arms", table, *_rest(rows), remark)


def _order(mean: float) -> float:
    return np.inf if np.isnan(mean) else -mean


def _show_keys(keys: list[dict[str, Any]]) -> None:
    table = Table()
    for column in ("of", "key", "kind"):
        table.add_column(column, overflow="fold")
    for column in ("values", "mean", "std"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in keys[:MAX_ROWS]:
        table.add_row(one["of"], one["key"], one["kind"], f"{one['count']:,}", number(one["mean"]), number(one["std"]))
    show("Keys with their own columns", table, *_rest(keys))


def _rest(rows: list[Any]) -> list[str]:
    return [f"{len(rows) - MAX_ROWS:,} more: use --json to see all."] if len(rows) > MAX_ROWS else []
